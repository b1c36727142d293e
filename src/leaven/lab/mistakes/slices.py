"""Where a model is worse: groups of samples with more errors than the others, by what is known of each sample.

Each group is compared with all other samples: shares of errors by Fisher's exact test, graded errors by ranks (Mann and
Whitney). Of many groups some differ by chance; p is corrected for their number (Holm).
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from leaven.formats.finite_json import as_json
from leaven.lab.mistakes.samples import Samples

LEVEL = 0.05
_FEWEST = 5  # samples of a group
_MOST_FILES = 20_000  # whose headers are read
_MOST_GROUPS = 1_000  # of one kind
Z = 1.959964


@dataclass(frozen=True)
class Slice:
    """A group of samples: its mean error with its 95 % interval, that of all others, and p after the correction."""

    by: str
    name: str
    count: int
    error: float
    low: float
    high: float
    others: float
    p: float

    @as_json
    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def slices(samples: Samples) -> list[Slice]:
    """The groups in which a model is certainly worse than elsewhere, those with the most errors too many first."""
    rows = np.flatnonzero(samples.is_measured)
    errors = samples.numbers("error")[rows]
    is_graded = bool(((errors != 0) & (errors != 1)).any())
    found = []
    for by, names in _kinds(samples, rows):
        for name, inside in _groups(names).items():
            if _FEWEST <= inside.sum() <= len(rows) - _FEWEST:
                found.append(_compared(by, name, errors, inside, is_graded))
    worse = [one for one in _corrected(found) if one.p < LEVEL and one.error > one.others]
    return sorted(worse, key=lambda one: -(one.error - one.others) * one.count)


def _groups(names: Sequence[str | None]) -> dict[str, np.ndarray]:
    """Which samples have each name."""
    at: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        if name is not None:
            at[name].append(place)
    found = {}
    for name in sorted(at)[:_MOST_GROUPS]:
        inside = np.zeros(len(names), dtype=bool)
        inside[at[name]] = True
        found[name] = inside
    return found if len(found) > 1 else {}


def _kinds(samples: Samples, rows: np.ndarray) -> Iterator[tuple[str, Sequence[str | None]]]:
    """Each way to group the samples, with the group of each."""
    chosen = rows.tolist()
    labels = samples.words("label")
    own = [labels[at] for at in chosen]
    if samples.kind == "class":
        yield "class", own
    yield "split", [samples.splits[at] for at in chosen]
    if samples.noun == "text":
        texts = samples.words("text")
        yield "length", _fifths([float(len(texts[at] or "")) for at in chosen], "shortest", "longest")
        return
    paths = [PurePath(samples.files[at]) for at in chosen]
    folders = [path.parent.name or None for path in paths]
    if folders != own:
        yield "folder", folders
    yield "file type", [path.suffix.lower() or None for path in paths]
    yield "size", _fifths(_pixels(samples, chosen), "smallest", "largest")
    yield "brightness", _fifths(samples.numbers("brightness")[rows].tolist(), "darkest", "brightest")


def _fifths(numbers: Sequence[float], least: str, most: str) -> list[str | None]:
    """Whether each number is among the least or the largest fifth; None where they hardly differ."""
    known = np.array([number for number in numbers if math.isfinite(number)])
    if len(known) < 5 * _FEWEST or len(np.unique(known)) < 5:
        return [None] * len(numbers)
    low, high = np.quantile(known, [0.2, 0.8])
    if low == high:
        return [None] * len(numbers)

    def fifth(number: float) -> str | None:
        if not math.isfinite(number):
            return None
        return f"the {least} fifth" if number <= low else f"the {most} fifth" if number >= high else "in between"

    return [fifth(number) for number in numbers]


def _pixels(samples: Samples, rows: Sequence[int]) -> list[float]:
    """How many pixels the image of each sample has, by the header of its file; NaN where that is not known."""
    if len(rows) > _MOST_FILES:
        return [math.nan] * len(rows)
    from PIL import Image

    found = []
    for at in rows:
        file = samples.path(at)
        try:
            if not os.path.isfile(file):
                raise FileNotFoundError
            with Image.open(file) as opened:
                found.append(float(opened.width * opened.height))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            found.append(math.nan)
    return found


# -- statistics


def _compared(by: str, name: str, errors: np.ndarray, inside: np.ndarray, is_graded: bool) -> Slice:
    own, others = errors[inside], errors[~inside]
    mean = float(own.mean())
    if is_graded:
        spread = Z * float(own.std(ddof=1)) / math.sqrt(len(own))
        low, high, p = mean - spread, mean + spread, _ranks_p(own, others)
    else:
        low, high = wilson(int(own.sum()), len(own))
        p = _fisher_p(int(own.sum()), len(own), int(others.sum()), len(others))
    return Slice(by, name, len(own), mean, low, high, float(others.mean()), p)


def wilson(count: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    share, middle = count / total, 1 + Z**2 / total
    spread = Z * math.sqrt(share * (1 - share) / total + Z**2 / (4 * total**2))
    return max(0.0, (share + Z**2 / (2 * total) - spread) / middle), (share + Z**2 / (2 * total) + spread) / middle


def _fisher_p(count: int, total: int, other_count: int, other_total: int) -> float:
    """How likely chance alone puts so many errors or more into a group (Fisher's exact test, one-sided)."""
    wrong, everything = count + other_count, total + other_total

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    ways = log_choose(everything, total)
    terms = (
        math.exp(log_choose(wrong, k) + log_choose(everything - wrong, total - k) - ways)
        for k in range(count, min(wrong, total) + 1)
        if total - k <= everything - wrong
    )
    return min(1.0, sum(terms))


def _ranks_p(own: np.ndarray, others: np.ndarray) -> float:
    """How likely chance alone gives a group so large errors, by their ranks (the normal approximation, one-sided)."""
    both = np.concatenate([own, others])
    _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    n, m, total = len(own), len(others), len(both)
    ties = float((counts.astype(float) ** 3 - counts).sum()) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - ties)
    if variance <= 0:
        return 1.0
    z = (float(ranks[:n].sum()) - n * (total + 1) / 2) / math.sqrt(variance)
    return 0.5 * math.erfc(z / math.sqrt(2))


def _corrected(found: Sequence[Slice]) -> list[Slice]:
    """The same with p multiplied by how many groups are left to be tested (Holm)."""
    corrected: list[Slice] = []
    highest = 0.0
    for at, one in enumerate(sorted(found, key=lambda one: one.p)):
        highest = max(highest, min(1.0, one.p * (len(found) - at)))
        corrected.append(Slice(**{**vars(one), "p": highest}))
    return corrected
