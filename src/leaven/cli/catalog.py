"""`leaven catalog`: search for names, and print the card of one."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.value_text import value_text
from leaven.messages import describe


def print_matches(words: Sequence[str], kind: str | None, limit: int) -> int:
    """Print the cards that contain all the words, best match first."""
    wanted = " ".join(words).lower().split()
    found = sorted(_ranked(wanted, [kind] if kind else KINDS), key=lambda match: match[0])
    for _, name, card in found[:limit]:
        click.echo(f"{name:<32} {card.kind:<10} {card.summary[:100]}".rstrip())
    if len(found) > limit:
        click.echo(f"… and {len(found) - limit:,} more; --limit or --kind shows others")
    if not found:
        hint = _hint(" ".join(wanted), [kind] if kind else KINDS)
        click.echo(f"no catalog entry matches {' '.join(words)!r}.{hint}", err=True)
    return 0 if found else 1


def _ranked(wanted: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[tuple[int, int, str], str, Card]]:
    for kind in kinds:
        for name in dict.fromkeys(lookup.names(kind)):
            card = lookup.find(kind, name)[0]
            rank = _rank(wanted, name.lower(), card)
            if rank is not None:
                bare = name.partition(".")[2] if kind == "statement" and "." in name else name
                yield (rank, len(bare), name.lower()), name, card


def _rank(wanted: Sequence[str], name: str, card: Card) -> int | None:
    """How well a card matches the words, 0 the best; None where it does not."""
    if all(word in name for word in wanted):
        return 0 if [name] == wanted else 1 if name.startswith(tuple(wanted[:1])) else 2
    described = f"{name} {card.name} {card.summary}"
    arguments = " ".join(parameter.name for parameter in card.parameters)
    for rank, text in ((3, described), (4, f"{described} {arguments} {card.article}")):
        if all(word in name or _is_in(word, text) for word in wanted):
            return rank
    return None


def _is_in(word: str, text: str) -> bool:
    """Whether a text has a word, or one that begins with it; short ones must match whole."""
    end = r"\b" if len(word) < 4 else ""
    return re.search(rf"\b{re.escape(_spaced(word))}{end}", _spaced(text.lower())) is not None


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def print_card(name: str, kind: str | None) -> int:
    """Print the cards of a name."""
    cards = _cards(name, [kind] if kind else KINDS)
    for at, card in enumerate(cards):
        if at:
            click.echo("\n" + "─" * 60 + "\n")
        for line in _card_lines(card):
            click.echo(line)
    if cards:
        return 0
    elsewhere = [describe.KIND_NOUNS[card.kind] for card in _cards(name, KINDS)]
    if kind and elsewhere:
        click.echo(f"`{name}` is {' and '.join(elsewhere)}, not {describe.KIND_NOUNS[kind]}.", err=True)
    else:
        hint = _hint(name, [kind] if kind else KINDS)
        click.echo(f"the catalog has no entry `{name}`.{hint}", err=True)
    return 1


def _cards(name: str, kinds: Sequence[str]) -> list[Card]:
    """What a name means, once for each kind."""
    return [card for kind in kinds for card in lookup.find(kind, name)[:1]]


def _hint(word: str, kinds: Sequence[str]) -> str:
    near = lookup.nearest(word, [name for kind in kinds for name in lookup.names(kind)])
    return " Did you mean " + describe.either([f"`{name}`" for name in near]) + "?" if near else ""


def _card_lines(card: Card) -> Iterator[str]:
    origin = f" of {card.source}" if card.source != "leaven" else ""
    yield f"{card.name}: {describe.KIND_NOUNS[card.kind]}{origin}"
    if card.summary:
        yield f"  {card.summary}"
    others = [other.name for other in lookup.find(card.kind, card.bare_name)[1:]]
    if others:
        yield f"  the bare name could also mean {', '.join(others)}"
    if card.parameters:
        yield "\narguments:"
        width = max(len(parameter.name) for parameter in card.parameters)
        for parameter in card.parameters:
            yield f"  {parameter.name:<{width}}  {_parameter(parameter)}"
    if card.open_ended:
        yield "  … and further keyword arguments, passed on as given"
    facts = {key: fact for key, fact in card.facts.items() if _worth_showing(key, fact)}
    if facts:
        yield "\nfacts:"
        for key, fact in facts.items():
            yield f"  {key}: {_fact(fact)}"
    if card.article.strip():
        yield ""
        yield card.article.rstrip()


def _parameter(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"default {value_text(parameter.default)}"
    summary = f"; {parameter.summary}" if parameter.summary else ""
    return f"{describe.expected(parameter)}, {default}{summary}"


def _worth_showing(key: str, fact: Any) -> bool:
    hidden = ("phase", "once", "block", "missing", "required", "example", "timm_name", "whole")
    return key not in hidden and fact not in (None, [], {}, "")


def _fact(fact: Any) -> str:
    if isinstance(fact, dict):
        return ", ".join(fact)
    return ", ".join(map(str, fact)) if isinstance(fact, list | tuple) else str(fact)
