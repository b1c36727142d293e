"""Samples that are in two splits: the same content, or nearly the same.

A model that has seen a test sample in training looks better than it is. The same content is found by hashes. Images
that were resized or compressed again are found by the differences of neighbouring pixels in a small copy (dHash), and
compared as small copies; texts by their words, whatever their case and punctuation, and by how many groups of three
words they share.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leaven.cache.file_hashes import hashes_in
from leaven.formats.finite_json import as_json
from leaven.lab.mistakes.samples import Samples

_BANDS = 8  # of 8 bits: hashes that differ in fewer bits than that have one in common
_DIFFERENT_BITS = 7
_APART = 8.0  # the mean difference of two small copies that are nearly the same, in levels of 256
_SIDE = 16
_COMMON = 200  # samples with the same part: it says nothing
_SHARED = 0.8  # of the groups of words of both texts
_WORDS = 3


@dataclass(frozen=True)
class Duplicate:
    """Two samples of different splits. `is_exact` is whether their content is the same, not only nearly."""

    a: int
    b: int
    files: tuple[str, str]
    splits: tuple[str, str]
    labels: tuple[str | None, str | None]
    is_exact: bool

    @as_json
    def to_json(self) -> dict[str, Any]:
        named = {"files": self.files, "splits": self.splits, "labels": self.labels}
        return {**{name: list(pair) for name, pair in named.items()}, "is_exact": self.is_exact}


def duplicates(samples: Samples) -> list[Duplicate] | str:
    """The pairs of samples in different splits, those of the same content first; or why there are none."""
    if len(samples.counts) < 2:
        return "duplicates: there is only one split"
    exact, near = (_texts if samples.noun == "text" else _images)(samples)
    pairs = dict.fromkeys(_across(samples, exact), True)
    for pair in _across(samples, near):
        pairs.setdefault(pair, False)
    words = samples.words("label")
    found = []
    for (a, b), is_exact in pairs.items():
        files, splits = (samples.files[a], samples.files[b]), (samples.splits[a], samples.splits[b])
        found.append(Duplicate(a, b, files, splits, (words[a], words[b]), is_exact))
    return sorted(found, key=lambda one: (not one.is_exact, one.a, one.b))


def _across(samples: Samples, groups: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """The pairs in groups of like samples that are in different splits."""
    for group in groups:
        first = min(group)
        for other in sorted(group):
            if samples.splits[other] != samples.splits[first]:
                yield first, other
        if len({samples.splits[each] for each in group if samples.splits[each] != samples.splits[first]}) > 1:
            rest = [each for each in group if samples.splits[each] != samples.splits[first]]
            yield from _across(samples, [rest])


def _grouped(keys: Iterable[tuple[int, Any]]) -> list[list[int]]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for at, key in keys:
        groups[key].append(at)
    return [group for group in groups.values() if len(group) > 1]


# -- images


def _images(samples: Samples) -> tuple[list[list[int]], list[list[int]]]:
    digests = samples.words("digest")
    hashes = {at: digest for at, digest in enumerate(digests) if digest is not None}
    files = {at: str(samples.path(at)) for at in range(len(samples)) if at not in hashes}
    files = {at: file for at, file in files.items() if Path(file).is_file()}
    if files:
        table = hashes_in(Path(next(iter(files.values()))).parent)
        hashes |= {at: table.of([file])[0].hex() for at, file in files.items()}
        table.save()
    near = _nearly_the_same({at: copy for at, file in files.items() if (copy := small_copy(file)) is not None})
    return _grouped(hashes.items()), near


def small_copy(file: str) -> np.ndarray | None:
    """A small copy of an image, in colours; None for what can't be opened as one."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as opened:
            opened.draft("RGB", (8 * _SIDE, 8 * _SIDE))
            upright = ImageOps.exif_transpose(opened).convert("RGB")
            return np.asarray(upright.resize((_SIDE + 1, _SIDE), Image.Resampling.BOX), dtype=np.int16)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _nearly_the_same(copies: dict[int, np.ndarray]) -> list[list[int]]:
    """Pairs of images whose small copies hardly differ."""
    hashes = {at: _difference_hash(copy) for at, copy in copies.items()}
    bands: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, value in hashes.items():
        for band in range(_BANDS):
            bands[band, value >> 8 * band & 0xFF].append(at)
    pairs: set[tuple[int, int]] = set()
    for (band, _), group in bands.items():
        pairs |= _alike_in(group, hashes, band)
    return [[a, b] for a, b in sorted(pairs) if _apart(copies[a], copies[b]) <= _APART]


def _alike_in(group: Sequence[int], hashes: dict[int, int], band: int) -> set[tuple[int, int]]:
    """The pairs of a group whose hashes differ in few bits."""
    values = np.array([hashes[at] for at in group], dtype=np.uint64)
    found: set[tuple[int, int]] = set()
    for place, at in enumerate(group[:-1]):
        bits = np.bitwise_count(values[place + 1 :] ^ values[place])
        found |= {(at, group[place + 1 + other]) for other in np.flatnonzero(bits <= _DIFFERENT_BITS).tolist()}
    return found


def _difference_hash(copy: np.ndarray) -> int:
    """64 bits: whether each of 8 × 8 parts is brighter than the part to its left."""
    grey = copy.sum(axis=2)
    rows = grey.reshape(8, 2, -1).sum(axis=1)
    columns = np.stack([rows[:, start : start + 3].sum(axis=1) for start in range(0, 2 * 8 - 1, 2)], axis=1)
    wider = np.concatenate([columns, rows[:, -3:].sum(axis=1)[:, None]], axis=1)
    bits = (wider[:, 1:] > wider[:, :-1]).ravel()
    return int(sum(1 << at for at, bit in enumerate(bits.tolist()) if bit))


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).mean())


# -- texts


def _texts(samples: Samples) -> tuple[list[list[int]], list[list[int]]]:
    texts = {at: text for at, text in enumerate(samples.words("text")) if text is not None}
    words = {at: re.findall(r"\w+", text.casefold()) for at, text in texts.items()}
    same = _grouped((at, " ".join(each)) for at, each in words.items() if each)
    groups = {at: _groups_of(each) for at, each in words.items() if len(each) >= _WORDS}
    having: dict[Any, list[int]] = defaultdict(list)
    for at, own in groups.items():
        for group in own:
            having[group].append(at)
    shared: dict[tuple[int, int], int] = defaultdict(int)
    for several in having.values():
        if 1 < len(several) <= _COMMON:
            for place, a in enumerate(several):
                for b in several[place + 1 :]:
                    shared[a, b] += 1
    near = [[a, b] for (a, b), count in shared.items() if count / len(groups[a] | groups[b]) >= _SHARED]
    return _grouped(texts.items()), [*same, *near]


def _groups_of(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + _WORDS]) for start in range(len(words) - _WORDS + 1)}
