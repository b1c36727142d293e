"""Paths in options and base recipes, relative to the recipe's folder.

A path is relative to the folder of the text it is written in: an option's to the current folder, a base's to the folder
of that file. They are rewritten only after the check, so that reports repeat what was written.
"""

import os.path
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from leaven.catalog.card import Card
from leaven.catalog.values import FilePath, UserModule, Written
from leaven.language.source import Source, SourceKind
from leaven.recipe.recipe import Recipe


def relative_to_recipe(recipe: Recipe, home: Source) -> Recipe:
    """The recipe with every path as it is written in its own folder."""
    rewritten: Recipe = _rewritten(recipe, home)
    return rewritten


def _rewritten(item: Any, home: Source) -> Any:
    match item:
        case FilePath(text=text, place=place, span=span):
            is_foreign = span is not None and span.source.kind in (SourceKind.OPTION, SourceKind.BASE)
            return replace(item, text=_from(home.folder, place)) if is_foreign and not os.path.isabs(text) else item
        case UserModule(is_file=True, target=target, place=Path() as place) if not os.path.isabs(target):
            is_here = os.path.abspath(place) == os.path.abspath(home.folder / target)
            return item if is_here else replace(item, target=_from(home.folder, place))
        case tuple():
            parts = tuple(_rewritten(part, home) for part in item)
            return item if all(new is old for new, old in zip(parts, item, strict=True)) else parts
        case Card() | Written():
            return item
    if not is_dataclass(item) or isinstance(item, type):
        return item
    values = {field.name: getattr(item, field.name) for field in fields(item)}
    changed = {name: new for name, old in values.items() if (new := _rewritten(old, home)) is not old}
    return replace(item, **changed) if changed else item


def _from(folder: Path, place: Path) -> str:
    """The path from a folder to a place, links resolved: `..` after a link does not lead back."""
    try:
        return Path(os.path.relpath(os.path.realpath(place), os.path.realpath(folder))).as_posix()
    except ValueError:  # on another drive
        return Path(os.path.abspath(place)).as_posix()
