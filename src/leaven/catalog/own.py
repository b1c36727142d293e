"""Leaven's own cards: one Markdown file each, TOML front matter between `+++` lines, then a short article.

A card's name is its file's name and its kind is its folder's, so that names can be listed without reading files and a
card is read only when somebody asks for it.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from leaven.catalog.card import Card, Parameter

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


def read_card(text: str, kind: str, name: str) -> Card:
    """A card from the text of its file."""
    _, front, article = text.split("+++", 2)
    fields: dict[str, Any] = tomllib.loads(front)
    parameters = tuple(_parameter(entry) for entry in fields.pop("parameter", ()))
    return Card(
        kind=kind,
        name=fields.pop("qualified", name),
        source=fields.pop("source", "leaven"),
        summary=fields.pop("summary"),
        target=fields.pop("target", ""),
        friendly=name,
        parameters=parameters,
        open_ended=fields.pop("open_ended", False),
        facts=fields,
        article=article.strip() + "\n",
    )


def _parameter(entry: dict[str, Any]) -> Parameter:
    for listed in ("choices", "units"):
        if listed in entry:
            entry[listed] = tuple(str(item) for item in entry[listed])
    if isinstance(entry.get("default"), list):
        entry["default"] = tuple(entry["default"])
    return Parameter(**entry)
