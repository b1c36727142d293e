"""The model of a run that is not finished, and what is said of it."""

from pathlib import Path

import pytest
from tests import at_work
from tests.at_work import Moment

import leaven
from leaven.formats.run_folder import BUNDLE, LOCK, PROGRAM
from leaven.runs.unfinished import Unfinished, find_unfinished, not_up_to_date

pytestmark = pytest.mark.usefixtures("quick_programs")

RECIPE = """
model conv(4) -> global_pool() -> linear(classes)
data digits() { split train=64 samples, val=16 samples, test=16 samples }
train epochs=3, batch=16
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that got a Ctrl-C in its second epoch."""
    file = at_work.program(tmp_path_factory.mktemp("stopped"), RECIPE)
    at_work.interrupt(file, "--output", "runs", at=Moment(step=6))
    return max((file.parent / "runs").iterdir())


def test_code_is_not_run_without_a_word(stopped: Path) -> None:
    for meant in (stopped, stopped.parent):
        with pytest.raises(leaven.Failure, match="is not finished") as raised:
            leaven.load(meant)
        assert raised.value.help.startswith(f"`leaven finish {stopped}` saves its best epoch so far")
        assert "--trust-code" in raised.value.help
    with pytest.raises(leaven.Failure, match=r"last\.ckpt is a checkpoint, which needs the program of its run"):
        leaven.load(stopped / "last.ckpt")


def test_a_recipe_without_code_is_compiled_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = at_work.new_run(tmp_path, RECIPE)
    at_work.interrupt(folder / PROGRAM, "--resume", str(folder), at=Moment(step=6))
    model = leaven.load(folder)
    assert capsys.readouterr().err == 'unfinished run: using the best epoch so far, 1 of 3 in phase "train"\n'
    assert (model.path, len(model.classes)) == (folder / "best.ckpt", 10)
    (folder / PROGRAM).write_text((folder / PROGRAM).read_text() + "print('code of a stranger')\n")
    with pytest.raises(leaven.Failure, match="is not finished"):
        leaven.load(folder)


def test_for_those_who_trust_it_the_program_saves_the_best_epoch_so_far(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file.name: file.read_bytes() for file in stopped.iterdir()}
    run = leaven.open_run(stopped, trust_code=True)
    assert repr(run) == f"<Run {stopped}: not finished, 1 epoch>"
    model = run.model
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == 'unfinished run: using the best epoch so far, 1 of 3 in phase "train"\n'
    assert model.manifest.epoch is not None
    assert (model.manifest.epoch.number, model.path.name) == (1, "best.ckpt")
    assert {file.name: file.read_bytes() for file in stopped.iterdir()} == before


def test_a_program_that_fails_is_reported(stopped: Path) -> None:
    (stopped / "phase1.ckpt").write_bytes(b"nothing")
    try:
        with pytest.raises(leaven.Failure, match=r"phase1\.ckpt is damaged"):
            leaven.load(stopped / "phase1.ckpt", trust_code=True)
    finally:
        (stopped / "phase1.ckpt").unlink()


def test_what_is_meant(tmp_path: Path) -> None:
    for run in ("2026-11-15_20-00-00", "2026-11-16_20-00-00", "2026-11-17_20-00-00_quick"):
        (tmp_path / run).mkdir()
        (tmp_path / run / PROGRAM).touch()
    newest = tmp_path / "2026-11-16_20-00-00"
    assert find_unfinished(tmp_path) == Unfinished(newest)
    (newest / "best.ckpt").touch()
    assert find_unfinished(newest / "best.ckpt") == Unfinished(newest, "best.ckpt")
    older = tmp_path / "2026-11-15_20-00-00" / BUNDLE
    older.touch()
    assert find_unfinished(tmp_path) is None
    assert find_unfinished(newest) == Unfinished(newest)
    assert not_up_to_date(tmp_path, older) == "; 2026-11-16_20-00-00 is newer, but not finished"
    (newest / BUNDLE).touch()
    assert find_unfinished(tmp_path) is None
    assert not_up_to_date(tmp_path, newest / BUNDLE) == ""
    (newest / LOCK).write_text('{"finished": false}')
    assert not_up_to_date(tmp_path, newest / BUNDLE) == ", saved before the run was resumed"
    assert find_unfinished(newest) is None
    (tmp_path / "weights.ckpt").touch()
    assert find_unfinished(tmp_path / "weights.ckpt") is None
    assert find_unfinished("resnet18") is None
