"""The manifest of a package, which is not trusted: it may have been written by anybody.

Every value is checked when it is read, for its type, its range, and whether it could name a file outside of where it
belongs. What passes can be run without looking at it again.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from leaven.jobs.resources import Resources, out_of_range
from leaven.jobs.states import Entry
from leaven.terminal.problem import Problem

FORMAT = 1
MANIFEST = "job.json"
_LONGEST_NAME = 100
_LONGEST = 4000  # characters of a path or an argument
_MOST_ARGUMENTS = 1000
_NOT_STORABLE = re.compile(r"[\0\ud800-\udfff]")
_NOT_IN_ONE_LINE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class PackageError(Problem):
    """A file is not a package that can be run here."""


@dataclass(frozen=True)
class Manifest:
    """The content of a job's package: what is run, with which arguments, resources and data."""

    name: str
    leaven: str
    entry: Entry = Entry.PROGRAM
    arguments: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    python: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    is_quick: bool = False
    epochs: int | None = None  # of all phases, where that is known
    monitor: str = ""
    project: str = ""  # the folder where relative paths in the program start
    recipe_folder: str = ""
    output: str = ""  # the folder for runs
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_manifest(text: bytes, name: str) -> Manifest:
    """A manifest from its bytes; `name` is what reports call the package."""
    try:
        content = json.loads(text)
        version = content["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise PackageError(f"{name} is damaged: its {MANIFEST} can't be read ({problem})") from None
    if version != FORMAT:
        made_by = f" (Leaven {content['leaven']})" if "leaven" in content else ""
        fact = f"{name} was packed by another version of Leaven{made_by}: it has format {version}"
        raise PackageError(f"{fact}, this one reads {FORMAT}", "pack the recipe again: `leaven pack RECIPE`")
    for key, is_right in _CHECKS.items():
        if key not in content and key not in _REQUIRED:
            continue
        if not is_right(content.get(key)):
            shown = repr(content.get(key))
            shown = shown if len(shown) < 60 else f"{shown[:60]}…"
            raise PackageError(f"{name} is damaged: `{key}` in its {MANIFEST} can't be {shown}")
    resources = Resources.from_json(content.get("resources", {}))
    if wrong := out_of_range(resources):
        raise PackageError(f"{name} is damaged: in its {MANIFEST}, {wrong}")
    known = {each.name for each in fields(Manifest)}
    kept = {key: value for key, value in content.items() if key in known}
    kept |= {"entry": Entry(kept["entry"]), "arguments": tuple(kept["arguments"]), "resources": resources}
    return Manifest(**kept)


def refuse_wrong_trials(text: bytes, name: str) -> None:
    """Refuse a list of trials whose folders or arguments can't be those of trials."""
    try:
        trials = json.loads(text)["trials"]
        is_right = bool(trials) and all(
            is_single_name(each["name"]) and _are_arguments(each["flags"]) and isinstance(each["text"], str)
            for each in trials
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        is_right = False
    if not is_right:
        raise PackageError(f"{name} is damaged: its trials are not those of a sweep")


def is_single_name(value: Any) -> bool:
    """Whether a value names something in a folder, and nothing outside of it."""
    return (
        _is_text(value, _LONGEST_NAME)
        and value not in ("", ".", "..")
        and not {"/", "\\"} & set(value)
        and value == value.strip()
    )


def _is_text(value: Any, longest: int = _LONGEST) -> bool:
    """Whether a value is a text of one line that can be stored and passed to a program."""
    if not isinstance(value, str) or len(value) > longest:
        return False
    return not _NOT_IN_ONE_LINE.search(value)


def _is_folder(value: Any) -> bool:
    return value == "" or (_is_text(value) and os.path.isabs(value) and ".." not in value.split("/"))


def _are_arguments(value: Any) -> bool:
    is_list = isinstance(value, list) and len(value) <= _MOST_ARGUMENTS
    return is_list and all(
        isinstance(word, str) and len(word) <= _LONGEST and not _NOT_STORABLE.search(word) for word in value
    )


def _are_needs(value: Any) -> bool:
    """Whether a value may be read as resources: numbers, whose ranges are checked afterwards."""
    return isinstance(value, dict) and all(
        (number is None and key == "minutes")
        or (isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number))
        for key, number in value.items()
    )


_REQUIRED = ("name", "leaven", "entry", "arguments")
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "name": is_single_name,
    "leaven": lambda value: _is_text(value, _LONGEST_NAME),
    "entry": lambda value: isinstance(value, str) and value in set(Entry),
    "arguments": _are_arguments,
    "resources": _are_needs,
    "python": lambda value: _is_text(value, _LONGEST_NAME),
    "versions": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    "data": lambda value: isinstance(value, dict),
    "is_quick": lambda value: isinstance(value, bool),
    "epochs": lambda value: value is None or (type(value) is int and 0 <= value < 10**9),
    "monitor": lambda value: _is_text(value, _LONGEST_NAME),
    "project": _is_folder,
    "recipe_folder": _is_folder,
    "output": _is_folder,
}
