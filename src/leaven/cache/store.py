"""The store: what is computed once and read often, such as the features of frozen layers, as files in the user's cache.

An entry is one immutable file, named by its key: a digest of all that its content depends on, which the caller knows.
`entry_file.py` says what is in it. Entries are written atomically, so two writers of the same key do not disturb each
other, and one that is killed leaves only a temporary file. The first time that a process opens an entry, it reads the
whole file and compares its checksum: what is damaged is removed, and counts as absent.

The store has a limit. To make room, the entries that have not been used for the longest time are removed, but none that
this process uses; other processes keep what they have opened.

What can't be written is an `OSError`. How to go on without the store is left to the caller.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from leaven.cache import entry_file
from leaven.cache.entry_file import Damaged, Entry
from leaven.cache.location import user_folder
from leaven.cache.store_limit import LIMIT, StoreError, chosen_limit
from leaven.files.atomic_files import beside
from leaven.files.regular import open_regular
from leaven.terminal.byte_sizes import show_bytes

_LARGEST_DEFAULT = 50 * 10**9
_SHARE_OF_DISK = 10  # a tenth

_NAME = re.compile(r"([0-9a-f]{16,128})\.entry")
_TEMPORARY = re.compile(r"\.[0-9a-f]{16,128}\.entry\.\d+-[0-9a-f]{8}")
_SECONDS_BETWEEN_SCANS = 10.0
_ABANDONED_SECONDS = 3600.0  # longer than a writer takes between two parts


class StoreFull(StoreError):
    """An entry does not fit, not even without all those that this process does not use."""

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(
            f"the store may have {show_bytes(limit)}, and at least {show_bytes(needed)} are needed; "
            f"{LIMIT} sets another limit"
        )
        self.needed = needed
        self.limit = limit


def key_of(**facts: Any) -> str:
    """The key of what depends on these facts alone: anything that JSON can hold."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


@dataclass(frozen=True)
class Stored:
    """An entry on disk. `about` is None if its header is damaged; `last_use` is in seconds since 1970."""

    key: str
    about: dict[str, Any] | None
    bytes: int
    last_use: float


class Store:
    """A folder of entries that are computed once and read often. An entry is one immutable file named by its key."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit  # in bytes
        self._used: dict[str, Entry] = {}  # by this process
        self._total = 0  # bytes of all entries, as far as this process knows
        self._next_scan = 0.0  # when other processes may have changed that

    def open(self, key: str) -> Entry | None:
        """The entry of a key; None if there is none. A damaged one is removed."""
        file = self._file(key)
        if key not in self._used:
            try:
                with open_regular(file, follows_links=False) as opened:
                    header = entry_file.read_checked_header(opened, key)
                    self._used[key] = entry_file.map_entry(opened, key, header)
            except Damaged:
                _remove(file)
                return None
            except OSError:
                return None
        with contextlib.suppress(OSError):  # it was removed by another process, or is not ours
            os.utime(file)
        return self._used[key]

    def write(self, key: str, about: Mapping[str, Any], parts: Iterable[bytes | memoryview]) -> Entry:
        """Write an entry and open it. `about` says in words what it is, for `leaven cache list`.

        It is any JSON. The list shows entries with the same `group` (a string) as one line, with the number of `rows`
        of each `split`.
        """
        file = self._file(key)
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = beside(file)
        try:
            with open(temporary, "xb") as written:
                size = entry_file.write(written, key, about, self._limited(key, parts))
            self._make_room(key, size)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
        with open_regular(file, follows_links=False) as opened:
            self._used[key] = entry_file.map_entry(opened, key, entry_file.read_header(opened, key))
        return self._used[key]

    def leave_to_this_process(self, keys: Iterable[str]) -> None:
        """Remove the files of entries: this process reads them as long as it runs, and no other one finds them.

        The system frees them when the process ends, however it does. Where files that are used can't be removed, they
        are removed when there is no room left.
        """
        for key in keys:
            if key in self._used:
                _remove(self._file(key))

    def room(self) -> int:
        """How many bytes could be written now, in place of all entries that this process does not use."""
        found = list(_scan(self.folder))
        removable = sum(file.bytes for file in found if file.key and file.key not in self._used)
        free = shutil.disk_usage(_existing(self.folder)).free + removable
        return max(0, min(self.limit - sum(file.bytes for file in found) + removable, free))

    def require_room(self, needed: int) -> None:
        """A `StoreError` if so many bytes could not be written now."""
        if needed > (room := self.room()):
            room_of_limit = f"{show_bytes(room)} of its {show_bytes(self.limit)}"
            raise StoreError(f"{show_bytes(needed)} would be needed, and the store has room for {room_of_limit}")

    def entries(self) -> list[Stored]:
        """All entries, the most recently used first."""
        found = sorted((file for file in _scan(self.folder) if file.key), key=attrgetter("last_use"), reverse=True)
        return [Stored(file.key, _about(file), file.bytes, file.last_use) for file in found]

    def verify(self) -> tuple[int, list[str]]:
        """How many entries are as they were written, and the keys of those that were not and have been removed."""
        good, damaged = 0, []
        for file in sorted(_scan(self.folder), key=lambda file: file.key):
            try:
                if file.key:
                    with open_regular(file.path, follows_links=False) as opened:
                        entry_file.read_checked_header(opened, file.key)
                    good += 1
            except Damaged:
                _remove(file.path)
                damaged.append(file.key)
            except OSError:  # it was removed by another process, or may not be read
                continue
        return good, damaged

    def clear(self, keys: Iterable[str] | None = None, unused_for: float = 0.0) -> int:
        """Remove entries, all or those of some keys, if unused for so many seconds; returns how many bytes they had."""
        chosen = None if keys is None else set(keys)
        latest = time.time() - unused_for
        freed = 0
        for file in _scan(self.folder):
            is_meant = file.key and (chosen is None or file.key in chosen) and file.last_use <= latest
            if is_meant and _remove(file.path):
                self._used.pop(file.key, None)
                freed += file.bytes
        return freed

    def _limited(self, key: str, parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """The parts of an entry, until they are more than could be kept; nothing has been removed for them then."""
        needed = sum(entry.bytes for other, entry in self._used.items() if other != key)
        for part in parts:
            needed += memoryview(part).nbytes
            if needed > self.limit:
                raise StoreFull(needed, self.limit)
            yield part

    def _make_room(self, key: str, needed: int) -> None:
        """Make room for an entry of so many bytes, which is in a temporary file."""
        if self._total + needed > self.limit or time.monotonic() > self._next_scan:
            self._remove_oldest(key)
            self._next_scan = time.monotonic() + _SECONDS_BETWEEN_SCANS
        else:
            self._total += needed

    def _remove_oldest(self, key: str) -> None:
        """Remove the entries that have not been used for the longest time, until all files are within the limit.

        An entry of the key is about to be replaced, and does not count.
        """
        found = [file for file in _scan(self.folder) if file.key != key]
        self._total = sum(file.bytes for file in found)
        removable = sorted(
            (file for file in found if file.key and file.key not in self._used), key=attrgetter("last_use")
        )
        least = self._total - sum(file.bytes for file in removable)
        if least > self.limit:
            raise StoreFull(least, self.limit)
        for file in removable:
            if self._total <= self.limit:
                return
            if _remove(file.path):
                self._total -= file.bytes

    def _file(self, key: str) -> Path:
        if not _NAME.fullmatch(f"{key}.entry"):
            raise ValueError(f"`{key}` is not a key; `key_of` makes one")
        return self.folder / f"{key}.entry"


def default_store() -> Store:
    """The user's store, in the cache directory.

    Its limit is `LEAVEN_STORE_LIMIT`, else a tenth of the disk's size and at most 50 GB.
    """
    folder = user_folder() / "store"
    limit = chosen_limit()
    if limit is None:
        limit = min(_LARGEST_DEFAULT, shutil.disk_usage(_existing(folder)).total // _SHARE_OF_DISK)
    return _shared(folder, limit)


_shared = cache(Store)  # one for the whole process, so that it knows every entry that the process uses


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists and may be seen."""
    return next(place for place in (folder, *folder.parents) if os.path.exists(place))


class _Found(NamedTuple):
    """A file of the store: an entry, or with an empty key the temporary file of a writer."""

    path: str
    key: str
    bytes: int
    last_use: float


def _scan(folder: Path) -> Iterator[_Found]:
    """The files of a store. What is not one is ignored, and what killed writers left is removed."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listed:
        for item in listed:
            named = _NAME.fullmatch(item.name)
            if not named and not _TEMPORARY.fullmatch(item.name):
                continue
            try:
                facts = item.stat(follow_symlinks=False)
                is_file = item.is_file(follow_symlinks=False)
            except OSError:  # another process has removed it
                continue
            found = _Found(item.path, named[1] if named else "", facts.st_size, facts.st_mtime)
            is_abandoned = not named and time.time() - found.last_use > _ABANDONED_SECONDS
            if is_file and not (is_abandoned and _remove(found.path)):
                yield found


def _about(file: _Found) -> dict[str, Any] | None:
    try:
        with open_regular(file.path, follows_links=False) as opened:
            return entry_file.read_header(opened, file.key).about
    except (Damaged, OSError):
        return None


def _remove(file: str | Path) -> bool:
    """Whether a file is gone now."""
    try:
        os.unlink(file)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
