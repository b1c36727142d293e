"""Two recipes by several runs each, which differ by the seed alone.

A claim about recipes: whether training again would give the same order. One run of each says nothing about it, as
another seed gives another model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from leaven.formats import run_folder
from leaven.formats.finite_json import as_json
from leaven.lab.comparison.paired import LEVEL, shown_p
from leaven.lab.comparison.recipes import Difference, lock_differences, recipe_differences
from leaven.plan.recorded_plan import recorded_plan
from leaven.runtime.failures import Failure
from leaven.terminal.visible import visible

FEWEST = 3  # seeds of each recipe; with fewer, no difference is called one
ONE_SEED = "one seed: no claim about training; another seed may give another order"


def runs_by_seed(folder: Path) -> dict[int, Path]:
    """The finished runs in a folder by their seeds, of each the newest; they must differ by the seed alone."""
    found: dict[int, Path] = {}
    for program in sorted(folder.glob(f"*/{run_folder.PROGRAM}")):
        run = program.parent
        seed = run_folder.read_json(run / run_folder.LOCK).get("seed")
        if run_folder.is_finished(run) and not run_folder.is_smoke_test(run) and isinstance(seed, int):
            found[seed] = run
    if not found:
        raise Failure(f"there are no finished runs in {folder}", "give a folder of runs, such as runs/dogs")
    _check_alike(folder, list(found.values()))
    return dict(sorted(found.items()))


def _check_alike(folder: Path, runs: Sequence[Path]) -> None:
    first = recorded_plan(runs[0])
    for other in runs[1:]:
        plan = recorded_plan(other)
        if first is None or plan is None:
            raise Failure(f"the recipes of the runs in {folder} can't be read, so they can't be compared")
        if apart := (*recipe_differences(first, plan), *_arguments_apart(runs[0], other)):
            one = apart[0]
            raise Failure(
                f"the runs in {folder} differ by more than the seed: {one.what} is {one.a} in {runs[0].name}, "
                f"and {one.b} in {other.name}",
                "put the runs of each recipe into a folder of their own (`--output`)",
            )


def _arguments_apart(a: Path, b: Path) -> tuple[Difference, ...]:
    locks = (run_folder.read_json(run / run_folder.LOCK) for run in (a, b))
    return tuple(one for one in lock_differences(*locks) if one.what.startswith("argument"))


@dataclass(frozen=True, repr=False)
class SeedTest:
    """The mean errors of two recipes by seed, and whether one is smaller than by chance alone."""

    a: Mapping[int, float]
    b: Mapping[int, float]
    step: float = 0.0  # the smallest difference that an error can have

    @property
    def is_paired(self) -> bool:
        """Whether they have the same seeds, so that each run is compared with that of its seed."""
        return set(self.a) == set(self.b)

    @property
    def difference(self) -> float:
        """The mean error of A less that of B: positive where B is better."""
        return float(np.mean(list(self.a.values())) - np.mean(list(self.b.values())))

    @property
    def p(self) -> float:
        """By Student's t-test over the seeds: paired, or else Welch's; 1 for fewer than three seeds.

        The variance is at least that of rounding to whole samples, as a few seeds may be equal by chance.
        """
        if min(len(self.a), len(self.b)) < FEWEST:
            return 1.0
        rounding = self.step**2 / 12
        if self.is_paired:
            differences = np.array([self.a[seed] - self.b[seed] for seed in self.a])
            count = len(differences)
            parts, freedom = [max(float(differences.var(ddof=1)), 2 * rounding) / count], float(count - 1)
        else:
            groups = [np.array(list(one.values())) for one in (self.a, self.b)]
            parts = [max(float(one.var(ddof=1)), rounding) / len(one) for one in groups]
            squares = sum(part**2 / (len(one) - 1) for part, one in zip(parts, groups, strict=True))
            freedom = sum(parts) ** 2 / squares if squares else 1.0
        if not sum(parts):
            return 1.0
        return float(2 * student.sf(abs(self.difference) / np.sqrt(sum(parts)), freedom))

    @property
    def better(self) -> str:
        """`A` or `B`; empty where the seeds can explain the difference."""
        if self.p >= LEVEL:
            return ""
        return "B" if self.difference > 0 else "A"

    @property
    def words(self) -> str:
        """The claim about the recipes in a sentence."""
        a, b = len(self.a), len(self.b)
        how = f"{a} seed{'s' * (a != 1)} each, paired by seed" if self.is_paired else f"{a} and {b} seeds, not paired"
        if min(a, b) == 1:
            return ONE_SEED
        if min(a, b) < FEWEST:
            return f"{how}: too few for a claim about training; train with at least {FEWEST} seeds"
        if not self.better:
            return f"no clear difference between the recipes: {how}; {shown_p(self.p)}"
        return f"the recipe of {self.better} is better: {how}; {shown_p(self.p)}"

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            "better": self.better or None,
            "p": self.p,
            "words": self.words,
            "paired": self.is_paired,
            "errors": {"a": {str(s): v for s, v in self.a.items()}, "b": {str(s): v for s, v in self.b.items()}},
        }

    def __repr__(self) -> str:
        return f"<SeedTest: {visible(self.words)}>"
