"""Labelled images on disk, as both halves see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from leaven.formats.finding import Finding
from leaven.formats.target import Target, Value


@dataclass(frozen=True)
class Samples:
    """All samples of a source; `predefined` holds the splits that it comes with, as indices."""

    target: Target
    values: Sequence[Value]
    files: Sequence[str]
    predefined: Mapping[str, Sequence[int]] = field(default_factory=dict)


def joined(target: Target, splits: Mapping[str, Sequence[tuple[str, Value]]]) -> Samples:
    """Files with their values, split after split; a split without a name is the whole."""
    pairs = [pair for split in splits.values() for pair in split]
    ends = accumulate((len(split) for split in splits.values()), initial=0)
    predefined = {split: range(*span) for split, span in zip(splits, pairwise(ends), strict=True) if split}
    return Samples(target, [value for _, value in pairs], [file for file, _ in pairs], predefined)


@dataclass(frozen=True)
class Looked:
    """What a look at a source tells; the target is None where it could not be read."""

    target: Target | None = None
    splits: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
