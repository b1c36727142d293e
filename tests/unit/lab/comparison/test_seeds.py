"""Recipes by several seeds: a better one is named, and one is rarely named where the seed alone differs."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel
from statsmodels.stats.weightstats import ttest_ind as welch
from tests import at_work

from leaven.formats.run_folder import LOCK
from leaven.lab.comparison.seeds import ONE_SEED, SeedTest, runs_by_seed
from leaven.runtime.failures import Failure

RECIPE = """
model conv(8) -> global_pool() -> linear(classes)
data  digits() {{ split train=200 samples, val=50 samples, test=40 samples, seed=3 }}
optimizer adamw(lr={lr})
train epochs=1, seed={seed}
"""


def seeds(*errors: float, first: int = 0) -> dict[int, float]:
    return dict(enumerate(errors, first))


def test_figures_are_those_of_scipy_and_statsmodels() -> None:
    a, b = (0.12, 0.15, 0.11, 0.14), (0.08, 0.12, 0.10, 0.09)
    paired, unpaired = SeedTest(seeds(*a), seeds(*b)), SeedTest(seeds(*a), seeds(*b, first=7))
    assert paired.is_paired
    assert paired.p == pytest.approx(ttest_rel(a, b).pvalue)
    assert not unpaired.is_paired
    assert unpaired.p == pytest.approx(ttest_ind(a, b, equal_var=False).pvalue)
    assert unpaired.p == pytest.approx(welch(a, b, usevar="unequal")[1])


def test_a_better_recipe_is_named_with_the_number_of_seeds() -> None:
    found = SeedTest(seeds(0.30, 0.31, 0.29, 0.33), seeds(0.20, 0.22, 0.19, 0.23), step=1 / 400)
    assert found.words == "the recipe of B is better: 4 seeds each, paired by seed; p < 0.001"


def test_few_seeds_say_nothing_about_training() -> None:
    assert SeedTest(seeds(0.9), seeds(0.1)).words == ONE_SEED
    two = SeedTest(seeds(0.9, 0.9), seeds(0.1, 0.1))
    assert two.better == ""
    assert two.words.startswith("2 seeds each, paired by seed: too few for a claim about training")


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("spread", [0.0, 0.02])
def test_of_pairs_that_differ_by_the_seed_alone_few_are_told_apart(count: int, spread: float) -> None:
    random, samples, told = np.random.default_rng(3), 180, 0
    for _ in range(400):
        shares = np.clip(random.normal(0.1, spread, (2, count)), 0.0, 1.0)
        a, b = random.binomial(samples, shares) / samples
        told += bool(SeedTest(seeds(*a), seeds(*b), step=1 / samples).better)
    assert told <= 0.10 * 400


def new_run(folder: Path, name: str, *, seed: int, lr: float = 0.001, finished: bool = True) -> Path:
    """The folder of a run that counts as finished."""
    made = at_work.new_run(folder, RECIPE.format(seed=seed, lr=lr))
    run = folder / "runs" / name
    run.parent.mkdir(exist_ok=True)
    made.rename(run)
    lock = json.loads((run / LOCK).read_text())
    (run / LOCK).write_text(json.dumps({**lock, "seed": seed, "finished": finished}))
    return run


def test_a_folder_of_runs_has_one_for_each_seed(tmp_path: Path) -> None:
    new_run(tmp_path, "a", seed=1)
    newer, other = new_run(tmp_path, "b", seed=1), new_run(tmp_path, "c", seed=2)
    new_run(tmp_path, "d", seed=3, finished=False)
    assert runs_by_seed(tmp_path / "runs") == {1: newer, 2: other}


def test_runs_that_differ_by_more_are_refused(tmp_path: Path) -> None:
    new_run(tmp_path, "a", seed=1)
    new_run(tmp_path, "b", seed=2, lr=0.1)
    with pytest.raises(Failure, match=r'by more than the seed: phase "train" optimizer lr is 0.001 in a, and 0.1 in b'):
        runs_by_seed(tmp_path / "runs")
    with pytest.raises(Failure, match="no finished runs"):
        runs_by_seed(tmp_path)
