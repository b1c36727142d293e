"""Write docs/catalog.md, all that recipes can name: `python docs/catalog_page.py`.

Leaven's own cards have a line each; of what the installed libraries offer, there is only how much.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from leaven.catalog import library, own, versions
from leaven.catalog.card import Card
from leaven.cli.command_group import imported
from leaven.cli.main import leaven

PAGE = Path(__file__).parent / "catalog.md"
LIBRARIES = "## From the libraries"
HEAD = """# Catalog

What recipes can name, each with a link to its documentation, which `leaven explain mixup` prints in the terminal.
`leaven catalog search flip` searches all of it, and what the installed libraries offer. Anything can be
[your own](custom_components.md), too. `let`, `arg`, `import` and `extends` are part of
[the language](language.md).

This page is written by `python docs/catalog_page.py`.
"""
KINDS = {
    "statement": "Statements",
    "technique": "Techniques",
    "component": "Components",
    "task": "Tasks",
    "data": "Data",
    "transform": "Transforms",
    "model": "Models",
    "loss": "Losses",
    "metric": "Metrics",
    "schedule": "Schedules",
    "sampler": "Samplers",
    "pruning": "Ways to prune",
    "logger": "Loggers",
    "range": "Ranges of a sweep",
}


def page(libraries: str) -> str:
    """The text of the page; `libraries` is its last section."""
    sections = [HEAD, *map(_own, KINDS), _commands(), libraries]
    return "\n".join(sections)


def _own(kind: str) -> str:
    cards = {name: card for name in own.names(kind) if (card := own.read(kind, name)) is not None}
    lines = [f"## {KINDS[kind]}", ""]
    if kind != "statement":
        return "\n".join([*lines, *(_line(kind, name, card) for name, card in cards.items()), ""])
    for block in ("", "data", "optimizer"):
        inside = {name: card for name, card in cards.items() if name.rpartition(".")[0] == block}
        lines += ([f"In the block of `{block}`:", ""] if block else []) + [_line(kind, *one) for one in inside.items()]
        lines.append("")
    return "\n".join(lines)


def _line(kind: str, name: str, card: Card) -> str:
    file = own.files(kind)[name].relative_to(PAGE.parent.parent).as_posix()
    return f"- [`{name.rpartition('.')[2]}`](../{file}): {card.summary[0].lower()}{card.summary[1:].rstrip('.')}"


def _commands() -> str:
    lines = [f"- `leaven {name}`: {text}" for name, text in _described(leaven)]
    return "\n".join(["## Commands", "", *lines, ""])


def _described(group: click.Group) -> Iterator[tuple[str, str]]:
    for name, command in sorted((name, imported(command)) for name, command in group.commands.items()):
        if command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", text) for below, text in _described(command))
        else:
            text = command.get_short_help_str(200).rstrip(".")
            yield name, text[0].lower() + text[1:]


def versions_line() -> str:
    """Which versions the numbers are of."""
    installed = versions.installed()
    return f"As of {', '.join(f'{name} {installed[name]}' for name in versions.LIBRARIES if name in installed)}:"


def library_section() -> str:
    """How much the installed libraries offer, by kind."""
    rows = [f"| | {' | '.join(versions.LIBRARIES)} |", f"|---|{'---|' * len(versions.LIBRARIES)}"]
    for kind in library.KINDS:
        found = {card.name: card for name in library.installed().names(kind) for card in _cards(kind, name)}
        counts = Counter(card.source for card in found.values())
        noun = {"optimizer": "optimizers"}.get(kind) or KINDS[kind].lower()
        rows.append(
            f"| {noun} | {' | '.join(f'{counts[name]:,}' if counts[name] else '' for name in versions.LIBRARIES)} |"
        )
    example = "`leaven catalog search --kind optimizer` lists the optimizers, and likewise the other kinds."
    return "\n".join([LIBRARIES, "", versions_line(), "", *rows, "", example, ""])


def _cards(kind: str, name: str) -> list[Card]:
    return library.installed().find(kind, name)


if __name__ == "__main__":
    PAGE.write_text(page(library_section()), encoding="utf-8")
