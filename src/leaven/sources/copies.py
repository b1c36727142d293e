"""Images that are there twice: files with the same content under different names.

Only training looks for them, as files have to be read.
"""

import hashlib
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from leaven.formats.finding import Finding

if TYPE_CHECKING:
    from leaven.formats.target import Value

MOST = 20_000  # files; to compare more takes too long


def copies(files: Sequence[str], values: "Sequence[Value]") -> tuple[Finding, ...]:
    """A warning about images that are there twice, first of all with different labels."""
    if len(files) > MOST:
        return ()
    first = dict(zip(reversed(files), reversed(range(len(files))), strict=True))

    def digest(at: int) -> bytes:
        with open(files[at], "rb") as content:
            return hashlib.file_digest(content, "sha256").digest()

    sizes = _groups(sorted(first.values()), lambda at: os.stat(files[at]).st_size)
    same = [group for alike in sizes.values() for group in _groups(alike, digest).values()]
    if not same:
        return ()
    conflicting = [group for group in same if len({values[at] for at in group}) > 1]
    groups = conflicting or same
    one, *others = groups[0]
    other = next(at for at in others if not conflicting or values[at] != values[one])
    images, they = (f"{len(groups):,} images are", "they") if len(groups) > 1 else ("an image is", "it")
    what = "with different labels" if conflicting else f"so {they} can be in training and in validation"
    fact = f"{images} there twice, {what}: `{files[one]}` and `{files[other]}` are the same"
    return (Finding("repeated-image", fact, "keep one of each", is_error=False),)


def _groups(indices: Iterable[int], key: Callable[[int], Hashable]) -> dict[Hashable, list[int]]:
    """The indices with the same key, where there are several; files that can't be read are left to the loading."""
    groups: dict[Hashable, list[int]] = {}
    for at in indices:
        try:
            groups.setdefault(key(at), []).append(at)
        except OSError:
            continue
    return {same: group for same, group in groups.items() if same and len(group) > 1}  # an empty file is no image
