"""Finds the index of the installed libraries, and has it built where there is none.

The index is a folder of files that `leaven.survey.libraries` writes in a subprocess, once for each set of installed
versions. Two processes may build it at the same time: each fills a folder of its own, and the first to finish publishes
its folder. A failed survey is not cached, and that a library could not be read only for a few minutes, since the cause
may be gone. `library.py` reads the files.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from leaven.cache import disk_cache, location
from leaven.catalog import process
from leaven.catalog.versions import LIBRARIES
from leaven.language.record import Record
from leaven.terminal import status_line

SURVEY = "leaven.survey.libraries"
PROGRESS = "progress.txt"  # in the folder, while it is being filled: what is being read
_SURVEY_SECONDS = 600.0
_RETRY_MINUTES = 10  # before a library that could not be read is tried again
NOT_INSTALLED = "not installed"  # installing it changes the set of versions
_KEPT = 6  # indexes in the cache, also of other versions and environments

Say = Callable[[str], None]


class Index(Record):
    """The folder of the index, None where the survey failed, and the libraries that it leaves out, with the reasons."""

    folder: Path | None
    absent: Mapping[str, str]


def cached(key: str) -> Index | None:
    """The index of a set of versions, if it is in the cache."""
    return next((index for folder in disk_cache.places(f"index/{key}") if (index := _open(folder))), None)


def _open(folder: Path) -> Index | None:
    """The index in a folder; None where it is incomplete, or where a library that could not be read is due again."""
    content = disk_cache.open_json(folder / "libraries.jsonl")
    if content is None:
        return None
    absent: dict[str, str] = content["absent"]
    has_failures = any(reason != NOT_INSTALLED for reason in absent.values())
    if has_failures and not 0 <= time.time() - content["time"] < 60 * _RETRY_MINUTES:
        return None
    retry = f" (tried again after {_RETRY_MINUTES} minutes)"
    return Index(folder, {name: reason + retry * (reason != NOT_INSTALLED) for name, reason in absent.items()})


def build(key: str, say: Say, survey: str = SURVEY) -> Index:
    """A new index of a set of versions."""
    name = f"index/{key}"
    staged = disk_cache.staging_folder(name)
    if staged is None:
        return _failed("no folder is writable, not even a temporary one")
    try:
        what = f"indexing the installed libraries ({_how_often(staged)})"
        say(f"{what}…")
        with status_line.doing(f"{what}…"):
            finished = process.run(
                survey, str(staged), seconds=_SURVEY_SECONDS, meanwhile=lambda: _show_progress(staged, what)
            )
    except BaseException:  # such as Ctrl-C
        disk_cache.remove(staged)
        raise
    if finished.reason:
        disk_cache.remove(staged)
        return _failed(finished.reason)
    for folder in disk_cache.places(name):
        if os.path.lexists(folder) and _open(folder) is None:
            disk_cache.remove(folder)  # damaged or outdated
    folder = disk_cache.publish(staged, name)
    disk_cache.keep_newest(folder.parent, _KEPT)
    return _open(folder) or _failed("the survey wrote no readable index")


def _show_progress(staged: Path, what: str) -> None:
    with suppress(OSError, ValueError):
        if read := (staged / PROGRESS).read_text(encoding="utf-8"):
            status_line.show(f"{what}: {read}…")


def _how_often(staged: Path) -> str:
    if staged.is_relative_to(location.user_folder()):
        return "once"
    kept = "for this command only" if location.is_temporary(staged) else f"once, into {staged.parent.parent}"
    return f"{kept}: the cache {location.user_folder()} is not writable; set LEAVEN_CACHE to another folder"


def _failed(reason: str) -> Index:
    return Index(None, dict.fromkeys(LIBRARIES, f"{reason} (the next command tries again)"))
