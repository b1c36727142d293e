"""Labelled images on disk, as both halves see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Protocol

from leaven.formats.finding import Finding
from leaven.formats.target import Target, Value


@dataclass(frozen=True)
class Looked:
    """What a look at a source tells: the names of the outputs, where they are known, and the splits that it has."""

    names: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Samples:
    """All samples of a source; `predefined` holds the splits that it comes with, as indices."""

    target: Target
    values: Sequence[Value]
    files: Sequence[str]  # names, where the images are inside of a file
    predefined: Mapping[str, Sequence[int]] = field(default_factory=dict)
    images: Sequence[bytes | None] | None = None  # those that are inside of a file, where any is
    findings: tuple[Finding, ...] = ()  # none of them an error


class Source(Protocol):
    """A source of samples. `look` returns what is wrong, and `open` raises a BadSource."""

    def look(self) -> Looked:
        """What is known before training. It is quick: no image is opened."""

    def open(self) -> Samples: ...


def predefined(sizes: Mapping[str, int]) -> dict[str, Sequence[int]]:
    """The indices of splits that follow each other; a split without a name is the whole."""
    ends = accumulate(sizes.values(), initial=0)
    return {split: range(*span) for split, span in zip(sizes, pairwise(ends), strict=True) if split}
