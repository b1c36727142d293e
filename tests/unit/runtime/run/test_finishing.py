"""A run that was stopped, however, has a model: that of its best epoch so far. It can still be resumed."""

import argparse
import json
import signal
import sys
from pathlib import Path

import pytest
import torch
from tests import at_work
from tests.at_work import Moment
from tests.unit.runtime.run.test_resuming import RECIPE, assert_same, weights

from leaven import bundle
from leaven.runtime.run import arguments

SMALL = """
model conv(4) -> conv(8) -> global_pool() -> linear(classes)
data digits() { split train=64 samples, val=40 samples, test=40 samples }
optimizer sgd(lr=0.1)
train batch=16
"""  # 4 steps in each epoch


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program, and a run of it that nothing interrupted: 40 steps an epoch, phases of 2 and 3 epochs."""
    file = at_work.program(tmp_path_factory.mktemp("whole"), RECIPE)
    at_work.run(file, "--output", "whole")
    return file, at_work.run_folder(file, "whole")


def killed(file: Path, output: str, at: Moment) -> Path:
    at_work.kill(file, "--output", output, at=at)
    return at_work.run_folder(file, output)


def lock(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "lock.json").read_text())
    return found


def assert_saved(model: bundle.Bundle, state: dict[str, torch.Tensor]) -> None:
    """A bundle has these weights."""
    assert all(torch.equal(value, state[name]) for name, value in model.model.state_dict().items())


@pytest.mark.parametrize(
    ("moment", "phase"),
    [
        (Moment(file="last.ckpt"), "one"),  # the best epoch is saved, and nothing else
        (Moment(step=81), "one"),  # in the first epoch of the second phase
        (Moment(step=150), "two"),
    ],
    ids=str,
)
def test_the_best_epoch_so_far_is_saved_and_the_run_can_still_be_resumed(
    whole: tuple[Path, Path], moment: Moment, phase: str
) -> None:
    file, uncut = whole
    folder = killed(file, f"finished-{moment}", moment)
    best = torch.load(folder / "best.ckpt", weights_only=True)
    running = at_work.run(file, "--resume", str(folder), "--finish")
    assert running.epochs == [], "nothing is trained"
    model = bundle.load(folder)
    assert_saved(model, best["model"])
    assert model.manifest.epoch is not None
    assert (model.manifest.epoch.phase, model.manifest.epoch.number) == (phase, best["epoch"])
    assert list(model.scores) == ["test.accuracy"]
    assert ('left out: phase "two"' in running.said) == (phase == "one")
    assert lock(folder)["finished"]
    at_work.run(file, "--resume", str(folder))
    assert_same(folder, uncut)
    assert_saved(bundle.load(folder), weights(uncut, "best.ckpt"))


def test_a_run_whose_phases_are_done_ends_as_it_would_have(whole: tuple[Path, Path]) -> None:
    file, uncut = whole
    folder = killed(file, "done", Moment(file="model.bundle"))
    at_work.run(file, "--resume", str(folder), "--finish")
    assert_same(folder, uncut)
    assert bundle.load(folder).scores == bundle.load(uncut).scores
    assert (lock(folder)["finished"], lock(folder)["trained"]) == (True, True)


def test_before_the_first_epoch_has_ended_there_is_nothing_to_save(whole: tuple[Path, Path]) -> None:
    file, _ = whole
    at_work.interrupt(file, "--output", "early", at=Moment(step=5))
    folder = at_work.run_folder(file, "early")
    running = at_work.start(file, "--resume", str(folder), "--finish")
    assert running.end() == 1
    assert "error: no epoch has ended yet, so there is nothing to save" in running.said
    assert f"leaven resume {folder}" in running.said
    assert not (folder / "model.bundle").exists()


@pytest.mark.parametrize(
    ("checkpoint", "phase"), [("phase1.ckpt", "one"), ("last.ckpt", "two"), ("best.ckpt", "two")], ids=str
)
def test_a_snapshot_of_any_checkpoint_leaves_the_run_as_it_is(
    whole: tuple[Path, Path], checkpoint: str, phase: str, tmp_path: Path
) -> None:
    file, uncut = whole
    before = {each.name: each.read_bytes() for each in uncut.iterdir() if each.is_file()}
    at_work.run(file, "--resume", str(uncut), "--finish", checkpoint, "--snapshot", str(tmp_path / "snap.bundle"))
    assert {each.name: each.read_bytes() for each in uncut.iterdir() if each.is_file()} == before
    model = bundle.load(tmp_path / "snap.bundle")
    if checkpoint != "last.ckpt":
        assert_saved(model, weights(uncut, checkpoint))
    else:  # the average, which the phase leaves in the model at its end
        state = torch.load(uncut / checkpoint, weights_only=True)["state"]["ema"]
        assert_saved(model, {name.removeprefix("module."): value for name, value in state.items()})
    assert not any(name.startswith("test.") for name in model.scores), "the test split is measured once, at the end"
    assert (model.manifest.epoch is None) == (checkpoint == "phase1.ckpt")


def test_a_run_that_is_going_is_left_alone_but_can_be_looked_at(whole: tuple[Path, Path], tmp_path: Path) -> None:
    file, _ = whole
    running = at_work.start(file, "--output", "going", moment=Moment(step=100), number=signal.SIGSTOP)
    try:
        running.until("one 2/2")
        folder = at_work.run_folder(file, "going")
        for flags in (["--finish"], []):
            refused = at_work.start(file, "--resume", str(folder), *flags)
            assert refused.end() == 1
            assert f"error: {folder} is still running" in refused.said
        at_work.run(file, "--resume", str(folder), "--finish", "--snapshot", str(tmp_path / "snap.bundle"))
        assert list(bundle.load(tmp_path / "snap.bundle").scores) == ["val.loss", "val.accuracy"]
        assert not (folder / "model.bundle").exists()
    finally:
        running.process.kill()
        running.process.join()


def test_pruning_that_was_not_reached_is_left_out(tmp_path: Path) -> None:
    recipe = SMALL + 'phase "learn", epochs=3\nphase "shrink", epochs=0 { prune structured(), amount=50% }\n'
    file = at_work.program(tmp_path, recipe)
    cut, done = killed(file, "cut", Moment(step=6)), killed(file, "done", Moment(file="model.bundle"))
    for folder in (cut, done):
        at_work.run(file, "--resume", str(folder), "--finish")
    assert not bundle.load(cut).manifest.sizes
    assert bundle.load(done).manifest.sizes


def test_masks_that_were_not_complete_are_left_out(tmp_path: Path) -> None:
    phases = 'phase "learn", epochs=1\nphase "thin", epochs=4 { prune unstructured(), amount=80%, over=3 epochs }\n'
    file = at_work.program(tmp_path, SMALL + phases)
    for output, step, zeros in (("before", 10, False), ("after", 18, True)):
        folder = killed(file, output, Moment(step=step))
        at_work.run(file, "--resume", str(folder), "--finish")
        state = bundle.load(folder).model.state_dict()
        assert any(bool((value == 0).float().mean() > 0.7) for value in state.values() if value.ndim == 4) == zeros


def test_adapters_are_merged(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, SMALL + 'phase "adapt", epochs=3 { lora rank=2, on=all }\n')
    folder = killed(file, "cut", Moment(step=6))
    at_work.run(file, "--resume", str(folder), "--finish")
    assert bundle.load(folder).manifest.epoch.number == 1  # type: ignore[union-attr]


def test_with_keep_last_the_last_weights_are_saved(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, SMALL + 'checkpoint keep=last\nphase "learn", epochs=3\n')
    at_work.interrupt(file, "--output", "cut", at=Moment(step=6))
    folder = at_work.run_folder(file, "cut")
    running = at_work.run(file, "--resume", str(folder), "--finish")
    assert "using the last weights" in running.said
    assert_saved(bundle.load(folder), weights(folder, "last.ckpt"))


def test_without_a_test_split_the_scores_are_those_of_the_chosen_epoch(tmp_path: Path) -> None:
    recipe = SMALL.replace("val=40 samples, test=40 samples", "val=40 samples, test=0%") + 'phase "learn", epochs=2\n'
    file = at_work.program(tmp_path, recipe)
    at_work.run(file)
    folder = at_work.run_folder(file)
    model = bundle.load(folder)
    assert model.manifest.epoch is not None
    row = (folder / "metrics.csv").read_text().splitlines()[model.manifest.epoch.number].split(",")
    assert model.scores == pytest.approx({"val.loss": float(row[3]), "val.accuracy": float(row[4])})
    assert json.loads((folder / "scores.json").read_text()) == model.scores
    assert "| val.accuracy | " in model.card
    assert f'Saved after epoch {model.manifest.epoch.number} of 2 in phase "learn".' in model.card


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        (["--finish"], "--finish needs --resume"),
        (["--more-epochs", "1"], "--more-epochs needs --resume"),
        (["--snapshot", "a.bundle"], "--snapshot needs --finish"),
    ],
)
def test_flags_that_need_others_say_so(
    flags: list[str], needed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["program.py", *flags])
    with pytest.raises(SystemExit, match="2"):
        arguments.parse(argparse.ArgumentParser(), output="runs")
    assert needed in capsys.readouterr().err


def test_a_phase_that_is_not_announced_is_reported_before_it_begins(whole: tuple[Path, Path], tmp_path: Path) -> None:
    file, _ = whole
    edited = tmp_path / "edited.py"
    edited.write_text(file.read_text().replace('with run.training("one", "two"):', 'with run.training("one"):'))
    running = at_work.start(edited, "--output", str(tmp_path / "runs"))
    assert running.end() == 1
    assert 'the phase "two" is not announced' in running.said
    assert 'run.training(…, "two"):`' in running.said


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ('run.training("one", "two")', "run.training()"),
        ("phase.setup(", "phase.begin("),
        ("warmup_share=", "warmup="),
        ("epochs=3)", "epochs=3, is_last=True)"),
    ],
)
def test_a_program_of_an_older_version_is_to_be_generated_again(
    whole: tuple[Path, Path], tmp_path: Path, now: str, before: str
) -> None:
    file, _ = whole
    older = tmp_path / "older.py"
    assert now in file.read_text()
    older.write_text(file.read_text().replace(now, before))
    running = at_work.start(older, "--output", str(tmp_path / "runs"))
    assert running.end() == 1
    assert "the program does not fit this version of Leaven" in running.said
    assert "generate it again" in running.said
