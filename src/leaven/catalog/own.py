"""Leaven's own cards: one Markdown file each, TOML front matter between `+++` lines, then a short article.

A card's name is its file's name and its kind is its folder's, so that names can be listed without reading files, and a
card is read only when it is asked for. `python_source.py` reads the class beside a technique or component.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from leaven.catalog.card import KINDS, Card, Parameter, Reference, Requirement
from leaven.catalog.hooks import PROVIDED
from leaven.catalog.python_source import ClassSource, names_in, read_class
from leaven.catalog.traits import (
    BY_KIND,
    ComponentTraits,
    Condition,
    TechniqueTraits,
    Traits,
    WeightsPackage,
    as_tuples,
)
from leaven.language import syntax
from leaven.language.parser import parse
from leaven.language.source import Source, SourceKind

T = TypeVar("T", bound=Traits | Parameter | Requirement | Condition | WeightsPackage)
IN_CHANNELS = "in_channels"  # what a component gets from the one before it
_OF_CARD = {
    "summary",
    "target",
    "open_ended",
    "exactly_one_of",
    "at_most_one_of",
    "remark",
}  # the other keys are traits
PASSED_BY_PROGRAM = {*PROVIDED, IN_CHANNELS}
_PACKAGE = Path(__file__).parent.parent
FOLDERS = {kind: _PACKAGE / "catalog" / f"{kind}s" for kind in KINDS} | {
    "technique": _PACKAGE / "techniques",
    "component": _PACKAGE / "components",
    "data": _PACKAGE / "catalog" / "data",
    "loss": _PACKAGE / "catalog" / "losses",
    "task": _PACKAGE / "tasks",
}


@cache
def names(kind: str) -> tuple[str, ...]:
    """The names of Leaven's own cards of a kind."""
    return tuple(sorted(files(kind)))


@cache
def files(kind: str) -> dict[str, Path]:
    """The cards' files by name; some techniques are packages."""
    return {file.stem: file for pattern in ("*.md", "*/*.md") for file in FOLDERS[kind].glob(pattern)}


@cache
def read(kind: str, name: str) -> Card | None:
    """Leaven's own card of that kind and name."""
    if name not in names(kind):
        return None
    file = files(kind)[name]
    card = read_card(file.read_text(encoding="utf-8"), kind, name, _class_beside(file))
    is_chosen = kind == "data" and card.data.has_columns and (card.data.on_disk or not card.data.has_labels)
    return _with_target_arguments(card) if is_chosen else card


def cards(kind: str) -> Iterator[Card]:
    """Leaven's own cards of a kind."""
    return (card for name in names(kind) if (card := read(kind, name)) is not None)


@cache
def default_statement(name: str, text: str = "") -> syntax.Statement:
    """The statement that a recipe has if it does not write one of that name: that of its card, or the given one."""
    card = read("statement", name)
    assert card is not None
    text = text or card.statement.default or name.rpartition(".")[2]
    (statement,) = parse(Source("default", text, kind=SourceKind.DEFAULT)).tree.statements
    assert isinstance(statement, syntax.Statement)
    return statement


def _with_target_arguments(card: Card) -> Card:
    """A card of data whose columns are chosen by the arguments that the tasks bring along."""
    tasks = [task for task in cards("task") if task.parameters]
    return replace(
        card,
        parameters=(*card.parameters, *(parameter for task in tasks for parameter in task.parameters)),
        at_most_one_of=tuple(task.parameters[0].name for task in tasks),
    )


class CardError(ValueError):
    """A card file has a key that nothing reads."""


def _class_beside(card: Path) -> ClassSource | None:
    """The class in the Python file beside a card, which is named like it: `L2Sp` of `l2_sp.py` and `l2_sp.md`."""
    try:
        tree = ast.parse(card.with_suffix(".py").read_bytes())
    except FileNotFoundError:
        return None
    names = names_in(tree)
    return read_class(names.classes[card.stem.title().replace("_", "")], names)


def read_card(text: str, kind: str, name: str, source: ClassSource | None = None) -> Card:
    """A card from the text of its file, completed by the class that it describes."""
    file = f"{FOLDERS[kind].name}/{name}.md"
    _, front, article = text.split("+++", 2)
    fields: dict[str, Any] = as_tuples(tomllib.loads(front))
    entries: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in fields.pop("parameter", ())}
    parameters = tuple(_make(Parameter, entry, file) for entry in _completed(entries, source, file))
    requires = fields.pop("requires", None)
    if "hooks_only_if" in fields:
        conditions = fields["hooks_only_if"].items()
        fields["hooks_only_if"] = {hook: _make(Condition, condition, file) for hook, condition in conditions}
    of_card = {key: fields.pop(key) for key in _OF_CARD & fields.keys()}
    return Card(
        kind=kind,
        name=fields.pop("qualified", name),
        source=fields.pop("source", "leaven"),
        friendly=name,
        parameters=parameters,
        reference=Reference(**{key: fields.pop(key) for key in Reference._fields if key in fields}),
        requires=_make(Requirement, requires, file) if requires else None,
        traits=_with_class(_make(BY_KIND[kind], fields, file), source),
        article=article.strip() + "\n",
        **of_card,
    )


def _completed(entries: dict[str, dict[str, Any]], source: ClassSource | None, file: str) -> Iterator[dict[str, Any]]:
    """The parameters of a card, in the order and with the types and defaults that the class gives them."""
    if source is None:
        yield from entries.values()
        return
    there = {entry.get("target", name): entry for name, entry in entries.items()}
    for parameter in source.parameters:
        if parameter.name in PASSED_BY_PROGRAM:
            continue
        entry = there.pop(parameter.name, {})
        fields: dict[str, Any] = {"name": parameter.name, "positional": parameter.positional}
        if "type" not in entry:
            fields |= {"type": parameter.type, "choices": parameter.choices, "items": parameter.items}
        if "default" not in entry:
            fields |= {"default": parameter.default, "required": parameter.required}
        yield fields | entry
    if there:
        raise CardError(f"{file}: unknown parameter `{next(iter(there))}`: the class does not take it")


def _with_class(traits: Traits, source: ClassSource | None) -> Traits:
    """The traits that only the class tells."""
    if isinstance(traits, TechniqueTraits) and source is not None:
        technique = source.technique
        return traits._replace(hooks=technique.hooks, wants=technique.wants, remarks=source.remarks)
    if isinstance(traits, ComponentTraits) and source is not None:
        return traits._replace(takes_in_channels=any(p.name == IN_CHANNELS for p in source.parameters))
    return traits


def _make(class_: type[T], fields: dict[str, Any], file: str) -> T:
    """The dataclass with these fields; a key that is none of its fields is an error."""
    for key in fields:
        if key not in class_.__annotations__:
            raise CardError(f"{file}: unknown key `{key}`: not a field of {class_.__name__}")
    tables = {"only_if": Condition, "weights_package": WeightsPackage}
    return class_(**fields | {key: _make(tables[key], fields[key], file) for key in tables.keys() & fields.keys()})
