"""Charts of runs: few points, in which peaks stay."""

from leaven.api.running import MOST_POINTS, points


def test_a_chart_has_few_points_and_keeps_its_peaks() -> None:
    rows = [{"loss": 1.0 + (at % 7) / 100, "lr": 0.1} for at in range(100_000)]
    rows[31_234]["loss"], rows[77_777]["loss"] = 50.0, -50.0
    found = points(rows, ["loss", "lr"])
    losses = found["series"][0]["values"]
    assert len(found["x"]) == len(losses) <= MOST_POINTS
    assert (found["x"][losses.index(50.0)], found["x"][losses.index(-50.0)]) == (31_235, 77_778)
    assert (found["x"][0], found["x"][-1]) == (1, 100_000)


def test_numbers_that_are_not_finite_are_gaps() -> None:
    rows = [{"loss": float("nan")}, {"loss": float("inf")}, {"loss": 1.0}, {}]
    assert points(rows, ["loss"])["series"][0]["values"] == [None, None, 1.0, None]
