"""The data of a run, opened again: the same samples, so the model has the scores that the run printed."""

import json
from pathlib import Path

import pytest
from PIL import Image
from tests import at_work

from leaven import bundle
from leaven.formats.run_folder import BUNDLE, LOCK, PROGRAM, SCORES
from leaven.lab.run_data import data_of, has_run
from leaven.runtime.failures import Failure

DIGITS = """
model conv(8) -> global_pool() -> linear(classes)
data  digits() {{ split train=200 samples, val=50 samples, test={test} samples, seed=3; {more} }}
train epochs=1, batch=32, seed=1
"""
LABELS = """
model conv(8) -> global_pool() -> linear(classes)
data  csv("images/table.csv", image="file", labels="tags") { eval resize([12, 12]) }
train epochs=1, batch=8
"""


def run(folder: Path, recipe: str) -> Path:
    """The folder of a finished run."""
    made = at_work.new_run(folder, recipe)
    at_work.run(made / PROGRAM, "--resume", str(made))
    return made


def test_the_scores_are_those_of_the_run(tmp_path: Path) -> None:
    made = run(tmp_path, DIGITS.format(test=40, more=""))
    with data_of(made) as data:
        found = bundle.load(made).evaluate(data)
        whole = bundle.load(made).evaluate(data, split="train")
    assert (found.count, whole.count) == (40, 200)
    assert found.scores["accuracy"] == pytest.approx(json.loads((made / SCORES).read_text())["test.accuracy"])


def test_without_a_test_split_it_is_the_validation_split(tmp_path: Path) -> None:
    made = run(tmp_path, DIGITS.format(test=0, more=""))
    with data_of(made) as data:
        assert bundle.load(made).evaluate(data).count == 50


def test_files_are_found_from_any_folder_and_must_be_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "images").mkdir()
    rows = ["file,tags"]
    for number in range(40):
        Image.new("RGB", (16, 16), (6 * number, 0, 0)).save(tmp_path / "images" / f"{number}.png")
        rows.append(f"{number}.png,{'dark' if number < 20 else 'light;even' if number % 2 else 'light'}")
    table = tmp_path / "images" / "table.csv"
    table.write_text("\n".join(rows))
    made = run(tmp_path, LABELS.replace('"images/table.csv"', f'"{table}"'))
    monkeypatch.chdir("/")
    with data_of(made) as data:
        assert bundle.load(made).evaluate(data).count == 4
    table.write_text("\n".join(rows[:-1]))
    with pytest.raises(Failure, match="has other samples than when the run was started"), data_of(made):
        pass
    table.unlink()
    with pytest.raises(Failure, match="the data of the run can't be opened: ") as caught, data_of(made):
        pass
    assert caught.value.help == "give labelled data: `data=`"


def test_python_code_runs_only_if_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\ndef same(image):\n    return image\n")
    made = run(tmp_path, f'import "mine.py" as mine\n{DIGITS.format(test=40, more="eval mine.same -> to_tensor()")}')
    (tmp_path / "was_run").unlink()
    with pytest.raises(Failure, match="not run unless you trust it"), data_of(made):
        pass
    assert not (tmp_path / "was_run").exists()
    here = Path.cwd()
    with data_of(made, trust_code=True) as data:
        assert len(data.predefined["test"]) == 40
    assert (tmp_path / "was_run").exists()
    assert Path.cwd() == here


def test_a_bundle_knows_whether_it_is_in_its_run(tmp_path: Path) -> None:
    (tmp_path / PROGRAM).write_text("")
    assert not has_run(tmp_path / BUNDLE)
    (tmp_path / LOCK).write_text('{"seed": 0}')
    assert has_run(tmp_path / BUNDLE)
