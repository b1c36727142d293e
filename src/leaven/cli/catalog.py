"""`leaven catalog` and `leaven explain`: search for names, print the card of one, or the page of a report."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.card_facts import facts_of, parameter_count
from leaven.catalog.search import meanings, nearest, search
from leaven.catalog.value_text import value_text
from leaven.cli import completion
from leaven.cli.command_group import Commands
from leaven.cli.exit_codes import USAGE_ERROR
from leaven.cli.printing import echo, echo_painted
from leaven.formats.listing import either, in_code
from leaven.language.highlight import highlight
from leaven.messages import describe, explanations
from leaven.recipe.model_facts import are_weights_installed
from leaven.terminal.colors import painter, wants_color
from leaven.terminal.markdown import render
from leaven.terminal.visible import visible_lines
from leaven.terminal.width import width_of

_SHOWN = 20
_OTHER_WORDS = {"scheduler": "schedule", "learning rate schedule": "schedule", "lr schedule": "schedule"}


class Kind(click.ParamType[str]):
    """A kind of card: `data`, and also `dataset` or `datasets`."""

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        words = _words()
        word = str(value).lower().replace("-", " ").replace("_", " ").strip()
        if word not in words:
            near = lookup.nearest(word, words, limit=1)
            hint = f"did you mean `{words[near[0]]}`?" if near else f"kinds are {', '.join(KINDS)}"
            self.fail(f"`{value}` is not a kind; {hint}", param, ctx)
        return words[word]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(kind) for kind in KINDS if kind.startswith(incomplete)]


def _words() -> dict[str, str]:
    """Every word for a kind, in singular and plural."""
    nouns = {noun.partition(" ")[2]: kind for kind, noun in describe.KIND_NOUNS.items()}
    words = {kind: kind for kind in KINDS} | nouns | _OTHER_WORDS
    return {f"{word}{'es' if word.endswith('s') else 's'}": kind for word, kind in words.items()} | words


@click.group(cls=Commands)
def catalog() -> None:
    """Look up models, datasets, techniques, …"""


_kind = click.option("--kind", type=Kind(), metavar="KIND", help="Only this kind: model, optimizer, dataset, …")


@catalog.command("search")
@click.argument("words", nargs=-1, shell_complete=completion.cards)
@_kind
@click.option("--limit", type=click.IntRange(min=1), help="How many to print at most [default: 20; with --kind, all].")
def search_cards(words: tuple[str, ...], kind: str | None, limit: int | None) -> None:
    """Search the catalog.

    An entry must contain all the words, in its name, summary, arguments or article; matches in the name come first,
    then those in the summary. Without words, all entries are listed.
    """
    kinds = [kind] if kind else KINDS
    found = search(words, kinds)
    limit = limit or (len(found) if kind else _SHOWN)
    shown = found[:limit]
    has_models = any(card.kind == "model" for _, card in shown)
    for name, card in shown:
        facts = f"{_model_facts(card):<20}  " if has_models else ""
        echo(f"{name:<32} {card.kind:<10} {facts}{card.summary[:100]}".rstrip())
    if len(found) > limit:
        echo(f"… and {len(found) - limit:,} more; --limit or --kind shows them")
    if not found:
        hint = _hint(" ".join(words).lower(), kinds)
        echo(f"no catalog entry matches {' '.join(words)!r}.{hint}", err=True)
    sys.exit(0 if found else 1)


def _model_facts(card: Card) -> str:
    """`11.7 M  pretrained`: how many parameters a model has, as far as that is known, and whether there are weights."""
    if card.kind != "model" or card.model.loads != "library":
        return ""
    count = parameter_count(card)
    size = "–" if count is None else f"{count / 1e6:,.1f} M" if count >= 50_000 else f"{count / 1e3:,.1f} k"
    is_here = card.model.weights_package is not None and are_weights_installed(card)
    return f"{size:>8}  {'installed' if is_here else 'pretrained' if card.model.has_weights else 'no weights'}"


@catalog.command("show")
@click.argument("name", shell_complete=completion.cards)
@_kind
def print_card(name: str, kind: str | None) -> None:
    """Print the card of a name: arguments, defaults and article."""
    cards = meanings(name, [kind] if kind else KINDS)
    print_cards(cards)
    if cards:
        return
    elsewhere = [describe.KIND_NOUNS[card.kind] for card in meanings(name, KINDS)]
    if kind and elsewhere:
        echo(f"`{name}` is {' and '.join(elsewhere)}, not {describe.KIND_NOUNS[kind]}.", err=True)
    else:
        hint = _hint(name, [kind] if kind else KINDS)
        echo(f"the catalog has no entry `{name}`.{hint}", err=True)
    sys.exit(1)


@click.command("explain")
@click.argument("id", required=False, shell_complete=completion.reports_and_cards)
def explain(id: str | None) -> None:
    """Explain a report or a name in the catalog.

    ID is the id of a report (unknown-layer) or a name (mixup). Without it, all ids of reports are listed.
    """
    if id is None:
        ids = "".join(f"  {name}\n" for name in explanations.report_ids())
        echo(f"Report ids:\n\n{ids}")
        echo(
            f"For example: leaven explain unknown-layer. Your own models and more: leaven explain {explanations.GUIDE}"
        )
        return
    found = explanations.explanation(id)
    if found is None:
        near = " or ".join(f"`{name}`" for name in explanations.nearest(id))
        hint = f"Did you mean {near}?" if near else f"`leaven catalog search {id}` searches all articles."
        echo(f"there is no report or catalog entry `{id}`. {hint}", err=True)
        sys.exit(USAGE_ERROR)
    if isinstance(found, str):
        print_page(found)
    else:
        print_cards(found)


def print_cards(cards: Sequence[Card]) -> None:
    """Print some cards, each with its article."""
    for at, card in enumerate(cards):
        if at:
            echo("\n" + "─" * 60 + "\n")
        for line in _card_lines(card):
            echo(line)
        if card.article.strip():
            echo()
            print_page(card.article)


def print_page(text: str) -> None:
    """Print Markdown: as it is written, or rendered for a terminal."""
    width, color = width_of(sys.stdout), wants_color(sys.stdout)
    text = visible_lines(text)
    echo_painted(
        text.strip() if width is None else render(text, width, painter(color), highlight).rstrip(), color=color
    )


def _hint(word: str, kinds: Sequence[str]) -> str:
    near = nearest(word, kinds)
    return " Did you mean " + either(in_code(near)) + "?" if near else ""


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
    if facts := facts_of(card):
        yield "\nfacts:"
        for label, fact in facts:
            yield f"  {label}: {fact}"


def _parameter(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"default {value_text(parameter.default)}"
    summary = f"; {parameter.summary}" if parameter.summary else ""
    return f"{describe.expected(parameter)}, {default}{summary}"
