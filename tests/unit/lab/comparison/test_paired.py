"""Two models on the same samples: the test in words, and its figures against scipy's and statsmodels'."""

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from leaven.lab.comparison.paired import mean_interval, paired, share_interval, shown_p


def errors(*groups: tuple[int, int, int]) -> tuple[dict[str, float], dict[str, float]]:
    """The errors of two models, from groups of samples: how many there are, and the error of each model."""
    rows = [(a, b) for count, a, b in groups for _ in range(count)]
    return (
        {str(at): float(a) for at, (a, _) in enumerate(rows)},
        {str(at): float(b) for at, (_, b) in enumerate(rows)},
    )


def test_the_better_model_is_named() -> None:
    found = paired(*errors((19, 1, 0), (5, 0, 1), (60, 0, 0), (16, 1, 1)))
    assert found.words == "B is better: of 24 samples that only one of them gets right, B gets 19; p = 0.007"
    assert [len(group) for group in (found.only_a, found.only_b, found.both, found.neither)] == [5, 19, 60, 16]
    assert found.p == binomtest(19, 24).pvalue
    assert found.p == pytest.approx(mcnemar([[60, 5], [19, 16]], exact=True).pvalue)
    assert paired(*errors((5, 1, 0), (19, 0, 1))).better == "A"


def test_models_that_chance_can_explain_are_not_told_apart() -> None:
    found = paired(*errors((13, 1, 0), (11, 0, 1), (60, 0, 0)))
    assert found.better == ""
    assert (
        found.words
        == "no clear difference: of 24 samples that only one of them gets right, A gets 11 and B 13; p = 0.84"
    )
    assert paired(*errors((9, 0, 0), (1, 1, 1))).words == "no difference: both get the same samples right"


def test_samples_are_matched_by_name_and_not_by_order() -> None:
    found = paired({"x": 0.0, "y": 1.0, "z": 1.0}, {"z": 1.0, "y": 0.0, "x": 1.0})
    assert (found.only_a, found.only_b, found.both, found.neither) == (("x",), ("y",), (), ("z",))


def test_equal_models_are_rarely_told_apart() -> None:
    random = np.random.default_rng(5)
    told = 0
    for _ in range(200):
        a, b = ({str(at): float(one) for at, one in enumerate(random.random(150) < 0.3)} for _ in range(2))
        told += bool(paired(a, b).better)
    assert told <= 0.05 * 200


def test_graded_errors_are_compared_sample_by_sample() -> None:
    a = {str(at): 0.5 + at / 100 for at in range(20)}
    b = {name: error - 0.1 if int(name) >= 2 else error + 0.1 for name, error in a.items()}
    found = paired(a, b, is_graded=True)
    assert found.words == "B is better: of 20 samples on which their errors differ, B is nearer on 18; p < 0.001"
    assert found.difference.value == pytest.approx(0.08)
    assert paired(a, a, is_graded=True).words == "no difference: equal errors on all samples"


def test_intervals_are_those_of_scipy() -> None:
    values = np.random.default_rng(1).normal(size=80)
    found = mean_interval(values)
    theirs = bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(9))
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.02)
    share = share_interval(131, 180)
    assert (share.low, share.high) == pytest.approx(proportion_confint(131, 180, method="wilson"))
    share = share_interval(180, 180)
    assert (share.value, share.high) == (1.0, 1.0)
    assert 0.97 < share.low < 0.99  # that all are right does not mean that all will be


def test_a_p_value_is_short() -> None:
    assert [shown_p(p) for p in (1e-9, 0.00661, 0.0499, 0.843)] == ["p < 0.001", "p = 0.007", "p = 0.050", "p = 0.84"]
