"""Two models compared: on the samples of a folder or of their runs, with what differs between them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from tests import at_work
from tests.unit.bundle.conftest import save_colours

from leaven.cli.main import leaven
from leaven.formats.run_folder import PROGRAM, SCORES
from leaven.lab import compare
from leaven.lab.comparison.seeds import ONE_SEED
from leaven.runtime.failures import Failure
from leaven.tasks.classification import Classes
from leaven.tasks.regression.evaluation import Evaluation as Errors
from leaven.tasks.regression.target import Quantities

RECIPE = """
model conv({width}) -> global_pool() -> linear(classes)
data  digits() {{ split train=200 samples, val=50 samples, test=60 samples, seed={split} }}
train epochs=1, batch=32, seed={seed}
"""


@pytest.fixture
def colours_folder(tmp_path: Path) -> Path:
    """Five images of each colour."""
    for name in ("red", "green", "blue"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (20 + number, 20), name).save(tmp_path / "data" / name / f"{number}.png")
    return tmp_path / "data"


def test_the_better_of_two_models_is_named(
    colours_file: Path, make_colours: Callable[..., Path], colours_folder: Path
) -> None:
    worse = make_colours("worse.bundle", "green", "red", "blue")  # takes red for green, and green for red
    found = compare(worse, colours_file, data=colours_folder)
    assert found.words == "B is better: of 10 samples that only one of them gets right, B gets 10; p = 0.002"
    assert found.paired is not None
    assert {Path(sample).parent.name for sample in found.paired.only_b} == {"red", "green"}
    assert {Path(sample).parent.name for sample in found.paired.both} == {"blue"}
    assert found.claim == ONE_SEED
    assert ONE_SEED in str(found)


def test_a_model_is_no_better_than_itself(colours_file: Path, colours_folder: Path) -> None:
    found = compare(colours_file, colours_file, data=colours_folder)
    assert found.words == "no difference: both get the same samples right"
    assert found.differences == ()
    assert all(one.is_same and one.distance == 0 for one in found.layers)
    assert "the weights of these layers are the same" in str(found)


def test_without_samples_the_rest_is_compared(colours_file: Path) -> None:
    found = compare(colours_file, "efficientnet_lite0")
    assert found.words.startswith("answers are not compared: neither is in the folder of a run")
    small, large = found.costs
    assert (large.parameters, large.shape) == (4_652_008, (3, 224, 224))
    assert (large.flops or 0) > 1000 * (small.flops or 0) > 0
    assert (large.milliseconds or 0) > (small.milliseconds or 0) > 0


def test_recipes_are_compared_without_training(tmp_path: Path) -> None:
    a, b = tmp_path / "a.leaven", tmp_path / "b.leaven"
    a.write_text(RECIPE.format(width=8, split=3, seed=1))
    b.write_text(RECIPE.format(width=16, split=3, seed=1))
    found = compare(a, b)
    assert [one.what for one in found.differences] == ["model Conv"]
    assert [cost.parameters for cost in found.costs] == [178, 346]
    assert [one.is_same for one in found.layers] == [False, False, False]
    assert found.claim == ""
    assert "a recipe has no trained model" in found.words


def test_names_of_classes_and_files_do_not_command_the_terminal(tmp_path: Path) -> None:
    hostile = ("\x1b[31mred", "<img onerror=x>", "blue")
    model = save_colours(tmp_path / "a.bundle", target=Classes(hostile))
    data = [(Image.new("RGB", (20, 20), "red"), hostile[0]), (Image.new("RGB", (20, 20), "blue"), hostile[1])]
    found = compare(model, save_colours(tmp_path / "\x1b[2Jb.bundle", target=Classes(hostile)), data=data)
    assert "\x1b" not in str(found)
    assert "\x1b" not in repr(found)


def test_texts_are_compared_alike(reviews_file: Path) -> None:
    data = [("a good film", "good"), ("a bad film", "bad"), ("a good film", "bad")]
    found = compare(reviews_file, reviews_file, data=data)
    assert found.measured is not None
    assert found.measured[0].inputs == "texts"
    assert set(found.measured[0].errors) == {"a good film", "a bad film", "a good film (2)"}
    assert (found.costs[0].flops or 0) > 0


def test_the_command_prints_the_result_or_json(
    colours_file: Path, make_colours: Callable[..., Path], colours_folder: Path
) -> None:
    words = ["compare", str(make_colours("worse.bundle", "green", "red", "blue")), str(colours_file)]
    shown = CliRunner().invoke(leaven, [*words, "--data", str(colours_folder)])
    assert shown.exit_code == 0, shown.output
    assert "B is better: of 10 samples" in shown.stdout
    told = json.loads(CliRunner().invoke(leaven, [*words, "--data", str(colours_folder), "--json"]).stdout)
    assert told["paired"]["counts"] == {"only_a": 0, "only_b": 10, "both": 5, "neither": 0}
    assert told["claim_about_training"] == ONE_SEED
    missing = CliRunner().invoke(leaven, [*words, "--data", "nowhere"])
    assert missing.exit_code != 0
    assert "nowhere" in missing.output


def test_numbers_are_compared_by_their_errors() -> None:
    target = Quantities(("age",), ((30.0, 10.0),))
    actual, predicted = np.array([[20.0], [40.0]]), np.array([[22.0], [37.0]])
    measured = Errors(target, ("a", "b"), actual, predicted)
    assert [measured.error(at) for at in range(2)] == [2.0, 3.0]
    assert measured.graded_by == "absolute error"


@pytest.mark.slow
def test_runs_are_compared_on_what_they_kept_for_testing(tmp_path: Path) -> None:
    def run(name: str, *, split: int = 3, seed: int = 1) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        made = at_work.new_run(folder, RECIPE.format(width=8, split=split, seed=seed))
        at_work.run(made / PROGRAM, "--resume", str(made))
        return made

    a, b, other = run("a"), run("b", seed=2), run("c", split=4)
    found = compare(a, b)
    assert found.measured is not None
    recorded = [json.loads((each / SCORES).read_text())["test.accuracy"] for each in (a, b)]
    assert [1 - each.mean_error for each in found.measured] == pytest.approx(recorded)
    assert [(one.what, one.a, one.b) for one in found.differences] == [("seed", "1", "2")]
    assert compare(a, other).words.startswith("not paired: the samples differ")
    assert compare(a, b / "model.bundle").paired == found.paired
    alone = tmp_path / "alone.bundle"
    alone.write_bytes((b / "model.bundle").read_bytes())
    unknown = compare(a, alone)
    assert unknown.paired == found.paired
    assert unknown.notes == ("the samples are those that A kept for testing; B may have been trained on them",)
    groups = compare(a.parent, b.parent, seeds=True)
    assert groups.words == ONE_SEED
    assert (groups.differences, groups.notes) == ((), ())
    apart = compare(a.parent, other.parent, seeds=True)
    assert apart.notes == ("the runs were not all measured on the same samples",)
    with pytest.raises(Failure, match="no finished runs"):
        compare(tmp_path, b, seeds=True)
