"""The curves of a run: in the terminal, and as a figure in its folder."""

import io
import math
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests import at_work

from leaven.pictures.curves import draw_curves
from leaven.runtime.run import curves

RECIPE = """
model conv(8) -> global_pool() -> linear(classes)
data  digits() { split train=64 samples, val=32 samples, test=32 samples }
phase "one", epochs=1
phase "two", epochs=2
train batch=32
"""


def rows(count: int, phase: str = "train", **more: float) -> list[dict[str, Any]]:
    return [
        {"phase": phase, "epoch": n + 1, "train.loss": 2 / (n + 1), "val.loss": 1.0, "val.accuracy": n / count, **more}
        for n in range(count)
    ]


class TestInTheTerminal:
    def test_the_deciding_score_and_the_losses_with_the_phases(self) -> None:
        found = curves.chart([*rows(3, "head"), *rows(2, "all")], "val.accuracy", "utf-8")
        assert found.splitlines() == [
            "  val.accuracy  ▁▄█│▁▆  0.0000 to 0.5000",
            "  val.loss      ▅▅▅│▅▅  1.0000 to 1.0000",
            "  train.loss    █▅▃│█▅  2.0000 to 1.0000",
        ]

    def test_what_can_not_show_blocks_gets_plain_letters(self) -> None:
        for encoding in ("ascii", "latin-1", None, "no such encoding"):
            assert curves.chart(rows(3), "val.accuracy", encoding).splitlines()[0].split()[1] == "_-#"

    def test_one_epoch_is_no_curve(self) -> None:
        assert curves.chart(rows(1), "val.accuracy", "utf-8") == curves.chart([], "val.accuracy", "utf-8") == ""

    def test_long_runs_are_not_wide(self) -> None:
        found = curves.chart([*rows(7, "a"), *rows(1000, "b")], "val.accuracy", "utf-8")
        assert max(map(len, found.splitlines())) < 100

    def test_a_score_that_is_missing_or_not_a_number_leaves_a_gap(self) -> None:
        some = rows(3)
        some[1]["val.accuracy"] = math.nan
        del some[2]["val.loss"]
        first, second, _ = curves.chart(some, "val.accuracy", "utf-8").splitlines()
        assert first == "  val.accuracy  ▁ █  0.0000 to 0.6667"
        assert second == "  val.loss      ▅▅   1.0000 to 1.0000"


@pytest.mark.parametrize("more", [{}, {"val.f1": 0.5, "val.auroc": math.nan, "val.mae": 1e9}])
def test_a_figure(more: dict[str, float]) -> None:
    epochs = [*rows(3, "$a_", **more), *rows(40, "b", **more)]
    content = draw_curves(epochs, curves.score_names(epochs), {"$a_": 2, "b": 40})
    assert Image.open(io.BytesIO(content)).width > 500


def test_a_run_ends_with_its_curves(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, RECIPE)
    said = at_work.run(file).said
    run = at_work.run_folder(file)
    assert "  val.accuracy  " in said
    assert "│" in said
    assert f"curves: {run.relative_to(tmp_path)}/curves.png" in said
    assert Image.open(run / "curves.png").format == "PNG"


@pytest.mark.parametrize(
    ("missing", "told"), [("matplotlib", ""), ("matplotlib.figure", "curves.png could not be drawn:")]
)
def test_where_nothing_can_be_drawn_a_run_ends_as_well(tmp_path: Path, missing: str, told: str) -> None:
    file = at_work.program(tmp_path, RECIPE)
    file.write_text(f"import sys; sys.modules[{missing!r}] = None\n{file.read_text(encoding='utf-8')}")
    said = at_work.run(file).said
    assert told in said
    assert "  val.accuracy  " in said
    assert "model.bundle" in said
    assert not list(at_work.run_folder(file).glob("*.png"))
