"""Labelled images or texts on disk, as both halves see them.

Every check imports this: named tuples are made faster than dataclasses, and few checks need a target.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from leaven.formats.finding import BadSource, Finding

if TYPE_CHECKING:
    from leaven.formats.target import Target, Value
    from leaven.formats.texts import Text

OnBadFile = Literal["stop", "skip"]
_Sample = TypeVar("_Sample")
_Source = TypeVar("_Source")
_Facts = TypeVar("_Facts", bound="SourceFacts | None")


class SourceFacts(NamedTuple):
    """The facts about a source before it is opened: the names of its outputs, its splits, and findings.

    `counts` are the samples of each split, and `class_counts` those of each class, where they are known.
    """

    names: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = MappingProxyType({})  # of the samples of each split; without splits, of ''
    class_counts: tuple[int, ...] = ()


class Samples(NamedTuple):
    """All samples of a source; `predefined` holds the splits that it comes with, as indices."""

    target: "Target"
    values: "Sequence[Value]"
    files: Sequence[str]  # names, where the images are inside of a file
    predefined: Mapping[str, Sequence[int]]
    images: Sequence[bytes | None] | None = None  # those that are inside of a file, where any is
    findings: tuple[Finding, ...] = ()  # none of them an error
    pixels: Any = None  # all images as one array, where a few files have all of them; `files` are then their names
    texts: "Sequence[Text] | None" = None  # where they are in memory; then `files` are their places


def returns_findings(look: Callable[[_Source], _Facts]) -> "Callable[[_Source], _Facts | SourceFacts]":
    """A look whose facts are the findings of a BadSource, where it raises one."""

    @wraps(look)
    def facts(source: _Source) -> "_Facts | SourceFacts":
        try:
            return look(source)
        except BadSource as bad:
            return SourceFacts(findings=bad.findings)

    return facts


class OnDisk(Protocol):
    """Data on disk that is looked at before training, whoever opens it then."""

    def look(self) -> SourceFacts | None:
        """The facts that can be read quickly; None where the data is not there yet and will be downloaded.

        No image is opened, but a few masks.
        """


class Source(OnDisk, Protocol):
    """Data on disk that Leaven opens itself."""

    def open(self) -> Samples:
        """All samples; a BadSource where they can't be read."""


def class_counts(target: "Target", values: "Sequence[Value]") -> tuple[int, ...]:
    """The number of samples of each class; none where a sample has no single class."""
    if target.kind != "class":
        return ()
    counts = Counter(values)
    return tuple(counts[at] for at in range(len(target.names)))


def joined(splits: Mapping[str, Sequence[_Sample]]) -> tuple[list[_Sample], dict[str, Sequence[int]]]:
    """The samples of all splits, and the indices of those that each of them has."""
    every = [sample for there in splits.values() for sample in there]
    return every, predefined({split: len(there) for split, there in splits.items()})


def predefined(sizes: Mapping[str, int]) -> dict[str, Sequence[int]]:
    """The indices of splits that follow each other; a split without a name is the whole."""
    ends = accumulate(sizes.values(), initial=0)
    return {split: range(*span) for split, span in zip(sizes, pairwise(ends), strict=True) if split}
