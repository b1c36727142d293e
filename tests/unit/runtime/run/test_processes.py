"""Several processes train one model: the metrics and weights of one process, up to the order of summation.

The models have no normalisation over a batch, or a frozen one: its statistics are of what each process sees.
"""

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch
from tests import at_work
from tests.at_work import Moment

from leaven import bundle

RECIPE = """
model conv(8) -> conv(16, stride=2, norm=false) -> global_pool() -> linear(classes)
data digits() { train random_crop(8, padding=1); split train=163 samples, val=41 samples, test=37 samples }
optimizer sgd(lr=0.1, momentum=0.9)
schedule cosine()
phase "one", epochs=1 { freeze "0" }
phase "two", epochs=2 { freeze "0" }
train batch=16, accumulate=2, clip=1.0
"""  # 11 batches in each epoch, the last of 3 samples; 6 steps
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # 32-bit sums in another order, over 18 steps
COUNTS = [2, pytest.param(4, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program, and a run of it in one process."""
    file = at_work.program(tmp_path_factory.mktemp("alone"), RECIPE)
    at_work.run(file, "--output", "alone")
    return file, at_work.run_folder(file, "alone")


def scores(folder: Path) -> dict[str, float]:
    """All scores of a run: those of every epoch, and the final ones."""
    rows = list(csv.DictReader((folder / "metrics.csv").open(encoding="utf-8")))
    left_out = ("phase", "epoch", "seconds")
    found = {f"{at} {name}": float(row[name]) for at, row in enumerate(rows) for name in row if name not in left_out}
    return found | json.loads((folder / "scores.json").read_text())


def weights(folder: Path, name: str = "last.ckpt") -> dict[str, torch.Tensor]:
    saved = torch.load(folder / name, weights_only=True)
    return dict(saved["state"]["model"] if "state" in saved else saved["model"])


def assert_close(folder: Path, other: Path) -> None:
    """Both runs have the same metrics and weights, up to the order of summation."""
    assert scores(folder) == pytest.approx(scores(other), rel=1e-4, abs=1e-5)
    for name in ("last.ckpt", "best.ckpt"):
        for key, weight in weights(folder, name).items():
            torch.testing.assert_close(weight, weights(other, name)[key], **CLOSE)


def assert_equal(folder: Path, other: Path) -> None:
    """Both runs have the same metrics and weights, bit for bit."""
    assert scores(folder) == scores(other)
    for name in ("last.ckpt", "best.ckpt"):
        one, another = weights(folder, name), weights(other, name)
        assert all(torch.equal(one[key], another[key]) for key in one)


@pytest.mark.parametrize("count", COUNTS)
def test_several_processes_end_with_the_metrics_and_weights_of_one(alone: tuple[Path, Path], count: int) -> None:
    file, one = alone
    output = f"by-{count}"
    at_work.run_processes(count, file, "--output", output)
    assert_close(at_work.run_folder(file, output), one)


@pytest.mark.parametrize("count", COUNTS)
def test_stopped_in_an_epoch_and_resumed_by_as_many_they_end_with_the_same_bytes(tmp_path: Path, count: int) -> None:
    file = at_work.program(tmp_path, RECIPE)
    at_work.run_processes(count, file, "--output", "whole")
    at_work.interrupt_processes(count, file, "--output", "stopped", at=Moment(step=9))
    folder = at_work.run_folder(file, "stopped")
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    assert (saved["phase"], saved["epoch"], saved["batch"]) == (1, 0, 6)
    at_work.run_processes(count, file, "--resume", str(folder))
    assert_equal(folder, at_work.run_folder(file, "whole"))


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), pytest.param(2, 3, marks=pytest.mark.slow)])
def test_resumed_by_another_number_of_processes_the_epoch_goes_on_where_it_was(
    alone: tuple[Path, Path], before: int, after: int
) -> None:
    file, one = alone
    output = f"{before}-to-{after}"
    at_work.interrupt_processes(before, file, "--output", output, at=Moment(step=9))
    folder = at_work.run_folder(file, output)
    said = at_work.run_processes(after, file, "--resume", str(folder)).said
    assert f"instead of {before}: sums are added in another order" in said
    assert_close(folder, one)
    lock = json.loads((folder / "lock.json").read_text())
    assert lock["processes"] == after
    assert lock["earlier_processes"] == [{"processes": before, "until": {"phase": 1, "epoch": 0, "batch": 6}}]


# -- each process has a part of every parameter

SHARDED = """
model conv(8, norm=false) -> flatten() -> linear(600) -> relu() -> linear(600) -> linear(classes)
data digits() { split train=163 samples, val=41 samples, test=37 samples }
optimizer adamw(lr=1e-3)
phase "one", epochs=1 { freeze "0" }
phase "two", epochs=2, keep=optimizer
train batch=16, accumulate=2, clip=1.0, strategy=fsdp
"""  # one linear layer is gathered by itself


@pytest.fixture(scope="module")
def not_sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = at_work.program(tmp_path_factory.mktemp("whole"), SHARDED.replace("strategy=fsdp", "strategy=auto"))
    at_work.run(file, "--output", "alone")
    return at_work.run_folder(file, "alone")


@pytest.fixture(scope="module")
def sharding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return at_work.program(tmp_path_factory.mktemp("sharding"), SHARDED)


def test_sharded_training_ends_with_the_metrics_and_weights_of_one_process(not_sharded: Path, sharding: Path) -> None:
    at_work.run_processes(2, sharding, "--output", "by-2")
    folder = at_work.run_folder(sharding, "by-2")
    assert_close(folder, not_sharded)
    image = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    answers = [bundle.load(run).model(image) for run in (folder, not_sharded)]
    torch.testing.assert_close(*answers, **CLOSE)


@pytest.mark.slow
def test_a_sharded_run_that_was_stopped_is_resumed_sharded_or_whole(not_sharded: Path, sharding: Path) -> None:
    at_work.run_processes(2, sharding, "--output", "uncut")
    at_work.interrupt_processes(2, sharding, "--output", "stopped", at=Moment(step=9))
    folder = at_work.run_folder(sharding, "stopped")
    shutil.copytree(folder, sharding.parent / "whole")
    at_work.run_processes(2, sharding, "--resume", str(folder))
    assert_equal(folder, at_work.run_folder(sharding, "uncut"))
    plain = at_work.program(sharding.parent, SHARDED.replace("strategy=fsdp", "strategy=auto"), "plain")
    at_work.run(plain, "--resume", "whole")
    assert_close(sharding.parent / "whole", not_sharded)
