"""The paths of many files in one block of memory: an object for each of a million would take hundreds of megabytes.

Besides, worker processes share the block, while counting references to objects would copy them into each.
"""

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class FileNames(Sequence[str]):
    """Paths that begin with the same folder, to which more can be added."""

    def __init__(self, folder: str) -> None:
        self._folder = b"" if folder == os.curdir else os.fsencode(folder)  # as pathlib joins them
        self._rest = bytearray()  # of each path, what follows the folder
        self._ends = array("Q", [0])

    def extend(self, paths: Iterable[str]) -> None:
        start = len(self._folder)
        for path in paths:
            encoded = os.fsencode(path)
            if not encoded.startswith(self._folder):
                raise ValueError(f"{path} is not in {os.fsdecode(self._folder)}")
            self._rest += encoded[start:]
            self._ends.append(len(self._rest))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]  # which refuses an index beyond the last
        return os.fsdecode(self._folder + self._rest[self._ends[at] : self._ends[at + 1]])

    def __iter__(self) -> Iterator[str]:
        return (self[at] for at in range(len(self)))

    def __repr__(self) -> str:
        return f"<FileNames: {len(self):,} in {os.fsdecode(self._folder)}>"
