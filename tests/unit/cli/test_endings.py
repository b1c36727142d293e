"""How a command ends that can't go on: in a line, with an exit code that says why, and with nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leaven.catalog import library

RECIPE = "model resnet18()\ndata digits()\n"
COMMAND = [sys.executable, "-m", "leaven"]


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    library.prepare(lambda line: None)
    file = tmp_path / "first.leaven"
    file.write_text(RECIPE)
    return str(file)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", [["show"], ["check"], ["check", "--json"], ["--help"]])
def test_output_that_cant_be_written_is_no_bug_of_ours(words: list[str], recipe: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *words, recipe], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 74
    assert done.stderr == "could not write the output: No space left on device\n"


def test_a_reader_that_has_enough_is_no_trouble(recipe: str) -> None:
    words = ["catalog", "search", "--limit", "10000"]
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.skipif(os.name == "nt", reason="signals are another matter there")
@pytest.mark.parametrize("is_from_terminal", [True, False])
def test_ctrl_c_while_the_libraries_are_read(is_from_terminal: bool, recipe: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    process = subprocess.Popen(
        [*COMMAND, "check", recipe],
        env={**os.environ, "LEAVEN_CACHE": str(cache)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("reading the installed libraries")
    helper = _child(process.pid)
    (os.killpg if is_from_terminal else os.kill)(process.pid, signal.SIGINT)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert said.strip() == "interrupted"
    assert list(cache.glob("index/*")) == []
    assert helper is None or _ends(helper)


def _child(pid: int) -> int | None:
    """The helper that a process started, once it is at work, where the system tells."""
    told = Path(f"/proc/{pid}/task/{pid}/children")
    deadline = time.monotonic() + 10
    while told.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
        for child in told.read_text().split():
            if b"leaven.facts" in Path(f"/proc/{child}/cmdline").read_bytes():
                time.sleep(0.1)  # the one that started it has to notice that it could
                return int(child)
    return None


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # nobody has asked yet how it ended
            return True
        time.sleep(0.01)
    return False
