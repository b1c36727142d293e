"""`leaven catalog`: find names, and print what is known about one."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.recipe import nouns


def search(words: Sequence[str], kind: str | None, limit: int) -> int:
    """Print the cards whose name has all the words, best first."""
    if kind is not None and kind not in KINDS:
        near = lookup.nearest(kind, KINDS, limit=1)
        hint = f"did you mean `{near[0]}`?" if near else "the kinds are " + ", ".join(KINDS)
        click.echo(f"there is no kind `{kind}`: {hint}", err=True)
        return 2
    wanted = [word.lower() for word in words]
    found = sorted(_ranked(wanted, [kind] if kind else list(KINDS)))
    for _, name, card_kind in found[:limit]:
        cards = lookup.find(card_kind, name)
        summary = cards[0].summary if cards else ""
        click.echo(f"{name:<32} {card_kind:<10} {summary[:100]}".rstrip())
    if len(found) > limit:
        click.echo(f"… and {len(found) - limit:,} more; --limit or --kind shows others")
    if not found:
        candidates = [name for one in KINDS for name in lookup.names(one)]
        near = lookup.nearest(" ".join(wanted), candidates)
        hint = " Did you mean " + nouns.either([f"`{name}`" for name in near]) + "?" if near else ""
        click.echo(f"nothing in the catalog has {' '.join(words)!r} in its name.{hint}", err=True)
    return 0 if found else 1


def _ranked(wanted: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[tuple[int, int, str], str, str]]:
    for kind in kinds:
        for name in dict.fromkeys(lookup.names(kind)):
            bare = name.partition(".")[2] if kind == "statement" and "." in name else name
            plain = name.lower()
            if all(word in plain for word in wanted):
                exact = 0 if wanted and plain == wanted[0] else 1 if wanted and plain.startswith(wanted[0]) else 2
                yield (exact, len(bare), plain), name, kind


def show(name: str, kind: str | None) -> int:
    """Print the cards of a name."""
    cards = [card for one in ([kind] if kind in KINDS else KINDS) for card in lookup.find(one, name)[:1]]
    for at, card in enumerate(cards):
        if at:
            click.echo("\n" + "─" * 60 + "\n")
        for line in _card_lines(card):
            click.echo(line)
    if cards:
        return 0
    candidates = [known for one in KINDS for known in lookup.names(one)]
    near = lookup.nearest(name, candidates)
    hint = " Did you mean " + nouns.either([f"`{word}`" for word in near]) + "?" if near else ""
    click.echo(f"nothing in the catalog is called `{name}`.{hint}", err=True)
    return 1


def complete(incomplete: str) -> list[str]:
    """Names for the shell's completion."""
    names = (name for kind in KINDS for name in lookup.names(kind))
    return sorted({name for name in names if name.startswith(incomplete)})[:200]


def _card_lines(card: Card) -> Iterator[str]:
    origin = f" of {card.source}" if card.source != "leaven" else ""
    yield f"{card.name}: {nouns.KIND_NOUNS[card.kind]}{origin}"
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
        yield "  … and others that are passed on as they are"
    facts = {key: fact for key, fact in card.facts.items() if _worth_showing(key, fact)}
    if facts:
        yield "\nfacts:"
        for key, fact in facts.items():
            yield f"  {key}: {_fact(fact)}"
    if card.article.strip():
        yield ""
        yield card.article.rstrip()


def _parameter(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"default {nouns.plain(parameter.default)}"
    summary = f"; {parameter.summary}" if parameter.summary else ""
    return f"{nouns.wanted(parameter)}, {default}{summary}"


def _worth_showing(key: str, fact: Any) -> bool:
    hidden = ("phase", "once", "block", "missing", "required", "example", "timm_name", "whole")
    return key not in hidden and fact not in (None, [], {}, "")


def _fact(fact: Any) -> str:
    if isinstance(fact, dict):
        return ", ".join(fact)
    return ", ".join(map(str, fact)) if isinstance(fact, list | tuple) else str(fact)
