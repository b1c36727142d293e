"""Faults of a training are planted, found, and named with a change of the recipe that can be made."""

import json
from pathlib import Path
from typing import Any

from leaven.formats.run_folder import LOCK, PROGRAM, RESOLVED
from leaven.lab import advice, new_rows, training
from leaven.lab.recorded_training import thinned
from leaven.language.source import Source
from leaven.recipe.show import to_text
from leaven.rules.checker import check

RECIPE = """
model conv(8) -> relu() -> global_pool() -> linear(classes)
data digits()
optimizer sgd(lr=0.5)
train epochs=3
"""


def run_with(folder: Path, rows: list[dict[str, Any]], recipe: str = RECIPE) -> Path:
    """The folder of a run with these rows in its record."""
    recipe_value = check(Source("r.leaven", recipe, folder)).recipe
    assert recipe_value is not None
    (folder / RESOLVED).write_text(to_text(recipe_value))
    (folder / PROGRAM).write_text("")
    (folder / LOCK).write_text(json.dumps({"recipe_folder": str(folder)}))
    record = "".join(json.dumps({"phase": 0, "epoch": 1, **row}) + "\n" for row in rows)
    (folder / "training.jsonl").write_text(record)
    return folder


def steps(*losses: Any) -> list[dict[str, Any]]:
    return [{"kind": "step", "step": at, "loss": loss, "lr": 0.5} for at, loss in enumerate(losses, 1)]


def layer(step: int, **facts: Any) -> dict[str, Any]:
    activation = {"mean": 0.0, "deviation": 1.0, "nan": 0, "inf": 0, "units": 8, "dead": 0.0, "window": 3}
    known = {name: facts.pop(name) for name in [*facts] if name in activation}
    row = {"trainable": 8, "gradient": 0.1, "weight": 1.0, "update": 0.001, **facts}
    return {"kind": "layers", "step": step, "layers": {"0.conv": {**row, "activation": {**activation, **known}}}}


def test_nothing_stands_out_in_an_ordinary_training(tmp_path: Path) -> None:
    rows = [*steps(2.3, 2.0, 1.5, 1.2), *(layer(at) for at in range(1, 5))]
    assert advice(run_with(tmp_path, rows)) == []


def test_dead_units_are_named_with_their_layer_and_a_smaller_rate(tmp_path: Path) -> None:
    rows = [*steps(2.3, 2.3, 2.3, 2.3), *(layer(at, dead=0.1 if at < 3 else 1.0) for at in range(1, 5))]
    (found,) = advice(run_with(tmp_path, rows))
    assert (found.id, found.layer, found.severity, found.step) == ("dead-units", "0.conv", "severe", 3)
    assert found.change is not None
    assert (found.change.before, found.change.after) == ("lr=0.5", "lr=0.05")
    assert check(Source("r.leaven", found.change.recipe, tmp_path)).recipe is not None


def test_exploding_gradients_are_named_and_clipped(tmp_path: Path) -> None:
    norms = [1.0, 1.2, 0.9, 1.1, 500.0]
    rows = [{**row, "gradient": norm} for row, norm in zip(steps(2.3, 2.2, 2.1, 2.0, 9.0), norms, strict=True)]
    (found,) = advice(run_with(tmp_path, [*rows, layer(5, gradient=499.0)]))
    assert (found.id, found.layer, found.step) == ("exploding-gradients", "0.conv", 5)
    assert found.change is not None
    assert found.change.after == "train clip=1.0"


def test_a_loss_that_is_not_a_number_is_found_with_the_first_layer_that_has_it(tmp_path: Path) -> None:
    (found,) = advice(run_with(tmp_path, [layer(2, nan=3), *steps(2.3, "nan")]))
    assert (found.id, found.layer, found.step) == ("nan-loss", "0.conv", 2)


# -- reading


def test_a_torn_last_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    run = run_with(tmp_path, steps(2.3, 2.0))
    file = run / "training.jsonl"
    line = json.dumps({"kind": "step", "phase": 0, "step": 3, "loss": 1.5}) + "\n"
    first = training(run)
    with file.open("a") as opened:
        opened.write(line[:20])
    assert new_rows(run, first.next).rows == []
    with file.open("a") as opened:
        opened.write(line[20:])
    assert [row["loss"] for row in new_rows(run, first.next).rows] == [1.5]
    assert training(run).curve("loss") == ((1, 2.3), (2, 2.0), (3, 1.5))


def test_a_record_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    run = run_with(tmp_path, steps(2.3, 2.0, 1.5))
    end = training(run).next
    run_with(tmp_path, steps(2.3))
    assert len(new_rows(run, end).rows) == 1


def test_of_many_points_the_peaks_are_kept() -> None:
    points = [(at, 1.0 + at % 7 / 100) for at in range(100_000)]
    points[777] = (777, 99.0)
    found = thinned(points, 1000)
    assert len(found) <= 1000
    assert (777, 99.0) in found
    assert (found[0], found[-1]) == (points[0], points[-1])
