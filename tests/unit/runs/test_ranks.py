"""`leaven run` on two devices: what it says when one of its processes is killed or asked to stop."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

RECIPE = """import "mine.py" as mine
model mine.Net()
data  digits()
optimizer adamw(lr=1e-3)
train epochs=50, batch=32, devices=2
"""
MINE = """import time

from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.head = nn.Linear(64, num_classes)

    def forward(self, images):
        time.sleep(0.02 * self.training)
        return self.head(images[:, 0].flatten(1))
"""


def begin(folder: Path) -> "subprocess.Popen[bytes]":
    (folder / "two.leaven").write_text(RECIPE)
    (folder / "mine.py").write_text(MINE)
    words = [sys.executable, "-m", "leaven", "run", "two.leaven", "--name", "two"]
    return subprocess.Popen(words, cwd=folder, stdout=(folder / "out").open("wb"), stderr=subprocess.STDOUT)


def second_rank(first: int) -> int | None:
    """The process that a run has started, which has become the second rank."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            is_child = int(file.read_text().rpartition(")")[2].split()[1]) == first
            if is_child and b"\0LOCAL_RANK=1\0" in b"\0" + file.with_name("environ").read_bytes():
                return int(file.parent.name)
        except OSError:
            continue
    return None


def wait(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_over(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_that_is_killed_is_named_with_how_to_resume(tmp_path: Path, killed: int) -> None:
    run, out = begin(tmp_path), tmp_path / "out"
    wait(lambda: b"train 1/50" in out.read_bytes())
    second = second_rank(run.pid)
    assert second is not None
    os.kill(second if killed else run.pid, signal.SIGKILL)
    run.wait(60)
    wait(lambda: is_over(second))
    named = "rank 1 was ended by SIGKILL" if killed else "rank 0 has ended, or was killed"
    assert out.read_text().endswith(f"error: {named}\nhelp: to resume: leaven resume runs/two/two\n")


@pytest.mark.slow
@pytest.mark.parametrize("asked", [0, 1])
def test_a_signal_while_ranks_start_is_a_stop(tmp_path: Path, asked: int) -> None:
    run, out = begin(tmp_path), tmp_path / "out"
    wait(lambda: second_rank(run.pid))
    second = second_rank(run.pid)
    assert second is not None
    os.kill(second if asked else run.pid, signal.SIGTERM)
    assert run.wait(60) in (130, -signal.SIGTERM)
    wait(lambda: is_over(second))
    assert "error" not in out.read_text()
    assert "Traceback" not in out.read_text()
