"""Finds the index of the installed libraries, and has it made when there is none.

The index is a folder of files that `leaven.survey.libraries` writes in a process of its own, once for each set of
installed versions. Two processes may make it at the same time: each fills a folder of its own, and the one that is
ready first gives it the name. A survey that failed is not remembered, and a library that could not be read only for a
while: the cause may be gone. What the files mean is left to `library.py`.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from leaven.catalog import disk_cache, process
from leaven.catalog.versions import LIBRARIES

SURVEY = "leaven.survey.libraries"
_SURVEY_SECONDS = 600.0
_PATIENCE_MINUTES = 10  # for so long a library that could not be read is not tried again
_NOT_INSTALLED = "not installed"  # once it is, the versions are others
_KEPT = 6  # indexes that stay in the cache: of other versions and environments

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Index:
    """Where the index is, and which libraries it says nothing about. There is none where the survey failed."""

    folder: Path | None
    absent: Mapping[str, str]


def obtain(key: str, say: Say, survey: str = SURVEY) -> Index:
    """The index of a set of versions: as it is kept, or newly made."""
    name = _name(key)
    return _kept(name) or _make(name, say, survey)


def is_kept(key: str) -> bool:
    """Whether the index of a set of versions need not be made."""
    return _kept(_name(key)) is not None


def replace(damaged: Path, key: str, say: Say, survey: str = SURVEY) -> Index:
    """A new index in the place of a damaged one."""
    disk_cache.remove(damaged)
    return _make(_name(key), say, survey)


def _name(key: str) -> str:
    return f"index/{key}"


def _kept(name: str) -> Index | None:
    for folder in disk_cache.places(name):
        if index := _open(folder):
            return index
    return None


def _open(folder: Path) -> Index | None:
    """The index in a folder; None where there is no whole one, or one that told of a trouble some time ago."""
    told = disk_cache.open_json(folder / "libraries.jsonl")
    if told is None:
        return None
    absent: dict[str, str] = told["absent"]
    is_troubled = any(reason != _NOT_INSTALLED for reason in absent.values())
    if is_troubled and not 0 <= time.time() - told["time"] < 60 * _PATIENCE_MINUTES:
        return None
    return Index(folder, {library: _with_remedy(reason) for library, reason in absent.items()})


def _with_remedy(reason: str) -> str:
    return reason if reason == _NOT_INSTALLED else f"{reason} (tried again after {_PATIENCE_MINUTES} minutes)"


def _make(name: str, say: Say, survey: str) -> Index:
    staged = disk_cache.staging_folder(name)
    if staged is None:
        return _failed("no folder can be written, not even a temporary one")
    try:
        say(f"reading the installed libraries ({_how_often(staged)})…")
        finished = process.run(survey, str(staged), seconds=_SURVEY_SECONDS)
    except BaseException:  # the user does not want to wait
        disk_cache.remove(staged)
        raise
    if finished.reason:
        disk_cache.remove(staged)
        return _failed(finished.reason)
    for folder in disk_cache.places(name):
        if os.path.lexists(folder) and _open(folder) is None:
            disk_cache.remove(folder)  # damaged or old, and in the way
    folder = disk_cache.publish(staged, name)
    disk_cache.keep_newest(folder.parent, _KEPT)
    return _open(folder) or _failed("the survey left no readable index")


def _how_often(staged: Path) -> str:
    if staged.is_relative_to(disk_cache.user_folder()):
        return "once"
    kept = "for this command alone" if disk_cache.is_passing(staged) else f"once, into {staged.parent.parent}"
    return f"{kept}: the cache {disk_cache.user_folder()} can't be written; LEAVEN_CACHE names another"


def _failed(reason: str) -> Index:
    return Index(None, dict.fromkeys(LIBRARIES, f"{reason} (tried again by the next command)"))
