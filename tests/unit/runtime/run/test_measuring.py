"""Settings that a run measures: it ends as if its recipe had named them, and is resumed without measuring again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import at_work
from tests.at_work import Moment

DATA = "data digits() { split train=90 samples, val=40 samples, test=40 samples }\n"
MODEL = "model conv(8) -> conv(8, stride=2) -> global_pool() -> dropout(0.2) -> linear(classes)\n"
RECIPE = f"{MODEL}{DATA}train epochs=2, "
SLOW_AT_32 = """
import time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.norm = nn.BatchNorm2d(1)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(64, classes)

    def forward(self, images):
        if not torch.is_autocast_enabled("cpu"):
            time.sleep(0.02)  # as an operation that is slow, however busy the machine is
        return self.head(self.drop(self.norm(images).flatten(1)))
"""


def weights(file: Path, output: str) -> dict[str, torch.Tensor]:
    saved = torch.load(at_work.run_folder(file, output) / "last.ckpt", weights_only=True)
    return dict(saved["state"]["model"])


def measured(file: Path, output: str) -> list[dict[str, Any]]:
    lock = json.loads((at_work.run_folder(file, output) / "lock.json").read_text())
    return list(lock.get("measured", []))


def assert_same(file: Path, output: str, other: Path, other_output: str) -> None:
    one, two = weights(file, output), weights(other, other_output)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_it_ends_as_if_the_recipe_had_named_the_precision(tmp_path: Path) -> None:
    auto = at_work.program(tmp_path, f'{RECIPE}precision=auto\nfreeze "0"')
    said = at_work.run(auto, "--output", "auto").said
    (found,) = measured(auto, "auto")
    assert found["chosen"] in ("32-true", "bf16-mixed")
    assert min(found["numbers"].values()) > 0
    assert f"train: precision {found['told']}\n" in said
    named = at_work.program(tmp_path, f'{RECIPE}precision={found["chosen"].partition("-")[0]}\nfreeze "0"', "named")
    at_work.run(named, "--output", "named")
    assert measured(named, "named") == []
    assert_same(auto, "auto", named, "named")


def test_bf16_is_used_where_it_is_faster_and_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(SLOW_AT_32)
    recipe = f'import "own.py"\nmodel own.Net()\n{DATA}train epochs=2, precision='
    auto, named = at_work.program(tmp_path, f"{recipe}auto"), at_work.program(tmp_path, f"{recipe}bf16", "named")
    said = at_work.run(auto, "--output", "auto").said
    assert "train: precision bf16; 32 would take " in said
    at_work.run(named, "--output", "named")
    assert_same(auto, "auto", named, "named")


def test_a_resumed_run_uses_what_was_measured_before(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, f"{RECIPE}precision=auto")
    at_work.kill(file, "--output", "killed", at=Moment(step=2))
    lock = at_work.run_folder(file, "killed") / "lock.json"
    written = json.loads(lock.read_text())
    written["measured"][0]["chosen"] = "bf16-mixed"
    lock.write_text(json.dumps(written))
    resumed = at_work.run(file, "--resume", str(lock.parent))
    assert "precision" not in resumed.said
    named = at_work.program(tmp_path, file.with_suffix(".leaven").read_text().replace("auto", "bf16"), "named")
    at_work.run(named, "--output", "named")
    assert_same(file, "killed", named, "named")


def test_a_smoke_test_does_not_measure(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, f"{RECIPE}precision=auto")
    assert "precision" not in at_work.run(file, "--quick", "--output", "quick").said
    assert measured(file, "quick") == []


def test_a_model_that_fails_is_reported_where_it_is_trained(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(SLOW_AT_32.replace("nn.Linear(64", "nn.Linear(63"))
    file = at_work.program(tmp_path, f'import "own.py"\nmodel own.Net()\n{DATA}train epochs=2, precision=auto')
    running = at_work.start(file, "--output", "auto")
    assert running.end() == 1
    assert "mat1 and mat2 shapes cannot be multiplied" in running.said


SLOW_START = """
import time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.head = nn.Linear(64, classes)

    def forward(self, images):
        if len(images) > MOST:
            raise torch.OutOfMemoryError("out of memory")
        time.sleep(0.02)
        return self.head(images.flatten(1))
"""


def with_batch(folder: Path, most: int, samples: int, batch: str) -> Path:
    """A program whose model takes as long for large batches as for small ones, up to a limit."""
    (folder / "own.py").write_text(SLOW_START.replace("MOST", str(most)))
    split = f"split train={samples} samples, val=40 samples, test=40 samples"
    recipe = f'import "own.py"\nmodel own.Net()\ndata digits() {{ {split} }}\ntrain epochs=1, batch={batch}'
    return at_work.program(folder, recipe, f"batch_{batch}")


@pytest.mark.slow
def test_batches_are_doubled_as_long_as_that_is_faster(tmp_path: Path) -> None:
    auto, named = with_batch(tmp_path, 1000, 1300, "auto"), with_batch(tmp_path, 1000, 1300, "64")
    said = at_work.run(auto, "--output", "auto").said
    assert "batch 64; 128 would leave fewer than 20 steps per epoch (" in said
    (found,) = measured(auto, "auto")
    assert (found["chosen"], list(found["numbers"])) == (64, ["32", "64"])
    at_work.run(named, "--output", "named")
    assert_same(auto, "auto", named, "named")


@pytest.mark.slow
def test_batches_that_do_not_fit_into_memory_are_not_used(tmp_path: Path) -> None:
    said = at_work.run(with_batch(tmp_path, 50, 1300, "auto"), "--output", "some").said
    assert "batch 32; 64 does not fit into memory" in said
    said = at_work.run(with_batch(tmp_path, 20, 1300, "auto"), "--output", "few").said
    assert "batch 16; 32 does not fit into memory" in said


def test_a_small_dataset_keeps_the_usual_size(tmp_path: Path) -> None:
    said = at_work.run(with_batch(tmp_path, 1000, 90, "auto"), "--output", "auto").said
    assert "batch 32; 64 would leave fewer than 20 steps per epoch\n" in said


def test_a_short_phase_is_not_compiled(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, f'{RECIPE}compile=auto\nfreeze "0"')
    assert "train: compile false; training takes only about " in at_work.run(file, "--output", "auto").said
    assert measured(file, "auto")[0]["numbers"]["plain"] > 0


NO_COMPILER = "from torch._inductor import config\nconfig.cpp.cxx = ('no-such-compiler',)\n"
DEEP = """
from torch import nn

def Net(classes=10):
    return nn.Sequential(nn.Flatten(), *[nn.Hardtanh() for _ in range(99)], nn.Linear(64, classes))
"""


@pytest.mark.slow
def test_where_there_is_no_compiler_the_run_says_so_and_trains(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(NO_COMPILER + DEEP)
    recipe = f'import "own.py"\nmodel own.Net()\n{DATA}train epochs=1000000, compile=auto'
    file = at_work.program(tmp_path, recipe)
    at_work.kill(file, "--output", "auto", at=Moment(step=3))
    (found,) = measured(file, "auto")
    assert found["chosen"] is False
    assert "torch can't compile it here: " in found["told"]


@pytest.mark.slow
def test_a_long_phase_is_compiled_if_that_pays_and_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(DEEP)
    recipe = f'import "own.py"\nmodel own.Net()\n{DATA}checkpoint every=2 steps\ntrain epochs=10000000, compile='
    weights_of = {}
    for how in ("auto", "true"):
        file = at_work.program(tmp_path, f"{recipe}{how}", how)
        at_work.kill(file, "--output", how, at=Moment(step=4))
        weights_of[how] = weights(file, how)
    assert measured(tmp_path / "auto.py", "auto")[0]["told"].startswith("true; it takes ")
    assert all(torch.equal(value, weights_of["true"][name]) for name, value in weights_of["auto"].items())
