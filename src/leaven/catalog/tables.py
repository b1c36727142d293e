"""Reads tables of names from TOML files, and checks that they have the shape that their reader expects."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

Words = dict[str, str]
T = TypeVar("T")


class ByName(Words):
    """The meaning of each name; in the file, several names are in one string after their meaning."""


class TableError(ValueError):
    """A file of tables does not have the shape that its reader expects."""


def read(file: Path, shape: type[T]) -> T:
    """The tables of a file, as a typed dictionary of that class."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as problem:
        raise TableError(f"{file.name}: {problem}") from problem
    kinds = shape.__annotations__
    for name in tables.keys() ^ kinds.keys():
        raise TableError(f"{file.name}: {'unknown' if name in tables else 'missing'} table [{name}]")
    return shape(**{name: _table(tables[name], kind, f"{file.name}: [{name}]") for name, kind in kinds.items()})


def _table(value: object, kind: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TableError(f"{where}: expected a table")
    if kind not in (Words, ByName):
        (_, inner) = get_args(kind)
        return {key: _table(one, inner, f"{where[:-1]}.{key}]") for key, one in value.items()}
    for key, text in value.items():
        if not isinstance(text, str):
            raise TableError(f"{where} {key}: expected a string")
    return by_name(value, where) if kind is ByName else value


def by_name(others: Mapping[str, str], where: str) -> ByName:
    """The meaning of each name, from the names that mean the same, in one string."""
    found = ByName()
    for meant, names in others.items():
        for name in names.split():
            if name in found:
                raise TableError(f"{where}: `{name}` is both `{found[name]}` and `{meant}`")
            found[name] = meant
    return found
