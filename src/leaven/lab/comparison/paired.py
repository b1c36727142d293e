"""Two models on the same samples: McNemar's exact test, and how far apart their errors are, with an interval.

A claim about two models on these samples. Whether their recipes differ is another question, which needs several seeds:
`seeds.py`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest, bootstrap

from leaven.formats.finite_json import as_json
from leaven.tasks.reports import finite

LEVEL = 0.05  # a difference is called one if chance alone gives it less often
RESAMPLES = 2000
_SEED = 0  # the same samples give the same interval
_AT_ONCE = 4_000_000  # numbers of a bootstrap in memory


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @as_json
    def to_json(self) -> dict[str, Any]:
        return finite({"value": self.value, "low": self.low, "high": self.high})


def share_interval(count: int, total: int) -> Interval:
    """A share with Wilson's interval, which is not empty where all are right."""
    between = binomtest(count, total).proportion_ci(1 - LEVEL, method="wilson")
    return Interval(count / total, float(between.low), float(between.high))


def mean_interval(values: np.ndarray) -> Interval:
    """A mean with a bootstrap interval over the samples."""
    mean = float(values.mean())
    if len(values) < 2 or (values == values[0]).all():
        return Interval(mean, *((math.nan, math.nan) if len(values) < 2 else (mean, mean)))
    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(1, _AT_ONCE // len(values)),
        confidence_level=1 - LEVEL,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return Interval(mean, float(found.low), float(found.high))


@dataclass(frozen=True, repr=False)
class Paired:
    """The samples by which of two models does better on them; where none does, it does equally well.

    Of a task whose predictions are right or wrong, `both` and `neither` are the samples that both get right or wrong.
    Of one whose errors are larger or smaller, `both` are those with equal errors.
    """

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    both: tuple[str, ...]
    neither: tuple[str, ...]
    difference: Interval  # the mean error of A less that of B: positive where B is better
    is_graded: bool = False

    @property
    def p(self) -> float:
        """How often chance alone tells them apart as clearly; 1 where no sample does."""
        apart = len(self.only_a) + len(self.only_b)
        return float(binomtest(len(self.only_b), apart).pvalue) if apart else 1.0

    @property
    def better(self) -> str:
        """`A` or `B`; empty where chance can explain the difference."""
        if self.p >= LEVEL:
            return ""
        return "A" if len(self.only_a) > len(self.only_b) else "B"

    @property
    def words(self) -> str:
        """The result of the test in a sentence."""
        a, b = len(self.only_a), len(self.only_b)
        if not a + b:
            return f"no difference: {'equal errors on all' if self.is_graded else 'both get the same'} samples" + (
                "" if self.is_graded else " right"
            )
        apart = "on which their errors differ" if self.is_graded else "that only one of them gets right"
        verb = "is nearer on" if self.is_graded else "gets"
        samples = f"of {a + b:,} sample{'s' * (a + b != 1)} {apart}"
        if not self.better:
            return f"no clear difference: {samples}, A {verb} {a:,} and B {b:,}; {shown_p(self.p)}"
        most = a if self.better == "A" else b
        return f"{self.better} is better: {samples}, {self.better} {verb} {most:,}; {shown_p(self.p)}"

    @as_json
    def to_json(self) -> dict[str, Any]:
        groups = {"only_a": self.only_a, "only_b": self.only_b, "both": self.both, "neither": self.neither}
        return {
            "better": self.better or None,
            "p": self.p,
            "words": self.words,
            "counts": {name: len(samples) for name, samples in groups.items()},
            "samples": {name: list(samples) for name, samples in groups.items()},
            "difference": self.difference.to_json(),
        }

    def __repr__(self) -> str:
        return f"<Paired: {self.words}>"


def paired(errors_a: Mapping[str, float], errors_b: Mapping[str, float], *, is_graded: bool = False) -> Paired:
    """Two models by their errors on the same samples, which are 0 or 1 unless they are graded."""
    a, b = (np.array([errors[sample] for sample in errors_a]) for errors in (errors_a, errors_b))
    equal = a == b
    is_wrong = np.zeros_like(equal) if is_graded else a > 0

    def chosen(mask: np.ndarray) -> tuple[str, ...]:
        return tuple(sample for sample, is_in in zip(errors_a, mask.tolist(), strict=True) if is_in)

    groups = (chosen(a < b), chosen(b < a), chosen(equal & ~is_wrong), chosen(equal & is_wrong))
    return Paired(*groups, mean_interval(a - b), is_graded)


def shown_p(p: float) -> str:
    """`p = 0.007`; a small one is only bounded, a large one has two digits."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
