"""Leaven's own cards: one Markdown file each, TOML front matter between `+++` lines, then a short article.

A card's name is its file's name and its kind is its folder's, so that names can be listed without reading files and a
card is read only when somebody asks for it.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from leaven.catalog.card import Card, Parameter, Reference, Requirement
from leaven.catalog.traits import BY_KIND, Condition, Traits, WeightsPackage, as_tuples

T = TypeVar("T", bound=Traits | Parameter | Requirement | Condition | WeightsPackage)
_PACKAGE = Path(__file__).parent.parent
FOLDERS: dict[str, Path] = {
    "statement": _PACKAGE / "catalog" / "statements",
    "technique": _PACKAGE / "techniques",
    "component": _PACKAGE / "components",
    "model": _PACKAGE / "catalog" / "models",
    "data": _PACKAGE / "catalog" / "data",
    "transform": _PACKAGE / "catalog" / "transforms",
    "loss": _PACKAGE / "catalog" / "losses",
    "metric": _PACKAGE / "catalog" / "metrics",
    "schedule": _PACKAGE / "catalog" / "schedules",
    "optimizer": _PACKAGE / "catalog" / "optimizers",
    "sampler": _PACKAGE / "catalog" / "samplers",
    "logger": _PACKAGE / "catalog" / "loggers",
    "range": _PACKAGE / "catalog" / "ranges",
    "pruning": _PACKAGE / "catalog" / "prunings",
}


@cache
def names(kind: str) -> tuple[str, ...]:
    """The names of Leaven's own cards of a kind."""
    return tuple(sorted(_files(kind)))


@cache
def _files(kind: str) -> dict[str, Path]:
    """The cards' files by name; some techniques are packages."""
    return {file.stem: file for pattern in ("*.md", "*/*.md") for file in FOLDERS[kind].glob(pattern)}


@cache
def read(kind: str, name: str) -> Card | None:
    """Leaven's own card of that kind and name."""
    if name not in names(kind):
        return None
    return read_card(_files(kind)[name].read_text(encoding="utf-8"), kind, name)


class CardError(ValueError):
    """A card file says something that no reader of cards understands."""


def read_card(text: str, kind: str, name: str) -> Card:
    """A card from the text of its file."""
    file = f"{FOLDERS[kind].name}/{name}.md"
    _, front, article = text.split("+++", 2)
    fields: dict[str, Any] = as_tuples(tomllib.loads(front))
    parameters = tuple(_parameter(entry, file) for entry in fields.pop("parameter", ()))
    requires = fields.pop("requires", None)
    return Card(
        kind=kind,
        name=fields.pop("qualified", name),
        source=fields.pop("source", "leaven"),
        summary=fields.pop("summary"),
        target=fields.pop("target", ""),
        friendly=name,
        parameters=parameters,
        open_ended=fields.pop("open_ended", False),
        exactly_one_of=fields.pop("exactly_one_of", ()),
        ordered=fields.pop("ordered", ()),
        reference=Reference(fields.pop("paper", ""), fields.pop("url", ""), fields.pop("year", None)),
        requires=_make(Requirement, requires, file) if requires else None,
        traits=_traits(kind, fields, file),
        article=article.strip() + "\n",
    )


def _traits(kind: str, fields: dict[str, Any], file: str) -> Traits | None:
    """What is left in the front matter are the traits of the card's kind."""
    if "hooks_only_if" in fields:
        conditions = fields["hooks_only_if"].items()
        fields["hooks_only_if"] = {hook: _make(Condition, condition, file) for hook, condition in conditions}
    if "weights_package" in fields:
        fields["weights_package"] = _make(WeightsPackage, fields["weights_package"], file)
    class_ = BY_KIND.get(kind)
    if class_ is not None:
        return _make(class_, fields, file)
    if fields:
        raise CardError(f"{file}: unknown key `{next(iter(fields))}`: cards of kind {kind} have no traits")
    return None


def _parameter(entry: dict[str, Any], file: str) -> Parameter:
    if "choices" in entry:
        entry["choices"] = tuple(map(str, entry["choices"]))
    if "only_if" in entry:
        entry["only_if"] = _make(Condition, entry["only_if"], file)
    return _make(Parameter, entry, file)


def _make(class_: type[T], fields: dict[str, Any], file: str) -> T:
    """The dataclass with these fields; a key that is none of its fields is an error."""
    for key in fields:
        if key not in class_.__annotations__:
            raise CardError(f"{file}: unknown key `{key}`: not a field of {class_.__name__}")
    return class_(**fields)
