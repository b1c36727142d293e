"""In a terminal, one line says what a run does and how long it still takes; elsewhere nothing but whole lines."""

import os
import re
import threading
from pathlib import Path

import pytest
from tests import at_work

from leaven.runtime.run.outlook import Pace, time_text

RECIPE = """
model conv(8) -> global_pool() -> linear(classes)
data digits() { split train=640 samples, val=640 samples, test=64 samples }
train batch=16
phase "first", epochs=2 {}
phase "second", epochs=1 {}
"""


def drawing_every_batch(program: Path) -> Path:
    """The same program, which draws its line after every batch, however soon after the last."""
    text = program.read_text(encoding="utf-8")
    at_once = "import leaven.terminal.status_line\n\nleaven.terminal.status_line._SECONDS = 0.0\n"
    program.write_text(at_once + text, encoding="utf-8")
    return program


class Terminal:
    """A terminal, and all that was written to it."""

    def __init__(self) -> None:
        self.ours, theirs = os.openpty()
        self.name = os.ttyname(theirs)
        self._theirs = theirs
        self._read = bytearray()
        self._reader = threading.Thread(target=self._gather, daemon=True)
        self._reader.start()

    def _gather(self) -> None:
        try:
            while part := os.read(self.ours, 65536):
                self._read += part
        except OSError:  # on Linux, the end
            pass

    def close(self) -> str:
        """What was written, when nobody writes any more."""
        os.close(self._theirs)
        self._reader.join(at_work.LIMIT)
        return self._read.decode()


def left_on_screen(written: str) -> str:
    """What a terminal shows in the end: each line from its last erasure on."""
    return "\n".join(line.rsplit("\x1b[K")[-1].rstrip("\r") for line in written.split("\n"))


def test_a_terminal_shows_bars_and_the_time_left_and_keeps_only_the_lines(tmp_path: Path) -> None:
    terminal = Terminal()
    program = drawing_every_batch(at_work.program(tmp_path, RECIPE))
    running = at_work.start(program, terminal=terminal.name)
    running.process.join(at_work.LIMIT)
    written = terminal.close()
    assert running.process.exitcode == 0, written
    drawn = written.split("\r\x1b[K")
    assert "reading the data…" in drawn
    assert any(re.match(r"first 1/2 training +0/40 · epoch 1/3$", line) for line in drawn)
    assert any(re.match(r"first 2/2 training .*\d/40 · epoch 2/3 · ~\d+ s left · loss \d", line) for line in drawn)
    assert any(re.match(r"second 1/1 validation .*\d/40 · epoch 3/3", line) for line in drawn)
    assert any(line.startswith("testing ") for line in drawn)
    kept = left_on_screen(written)
    assert "first 2/2  train.loss " in kept
    assert not re.search(r"/\d (training|validation) |^testing |reading the data| left", kept, re.MULTILINE), kept


def test_a_failure_does_not_leave_a_bar_behind(tmp_path: Path) -> None:
    terminal = Terminal()
    recipe = RECIPE.replace("epochs=2 {}", "epochs=2 { optimizer sgd(lr=1e30) }")
    running = at_work.start(at_work.program(tmp_path, recipe), terminal=terminal.name)
    running.process.join(at_work.LIMIT)
    written = terminal.close()
    assert running.process.exitcode == 1, written
    assert "\r\x1b[Kerror: the loss is" in written


def test_without_a_terminal_there_are_no_control_characters(tmp_path: Path) -> None:
    said = at_work.run(at_work.program(tmp_path, RECIPE), "--quick").said
    assert "second 1/1  train.loss " in said
    assert not set(said) & {"\r", "\x1b"}
    assert "left" not in said
    assert "curves" not in said, "a smoke test has none"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TestPace:
    def test_the_first_epoch_is_extrapolated_as_soon_as_there_is_something_to_go_by(self) -> None:
        clock = Clock()
        pace = Pace(clock)
        pace.begin_epoch()
        assert pace.seconds_left(0.0, 9) is None
        clock.now = 0.5
        assert pace.seconds_left(0.1, 9) is None, "half a second says little"
        clock.now = 5.0
        assert pace.seconds_left(0.5, 9) == pytest.approx(95)

    def test_measured_epochs_count_with_their_validation(self) -> None:
        clock = Clock()
        pace = Pace(clock)
        for seconds in (60.0, 10.0, 10.0, 10.0):  # the first loads the data
            pace.begin_epoch()
            clock.now += seconds
            pace.end_epoch()
        pace.begin_epoch()
        assert pace.seconds_left(0.5, 2) == pytest.approx(25)

    def test_the_rest_of_an_interrupted_epoch_is_not_taken_for_a_whole_one(self) -> None:
        clock = Clock()
        pace = Pace(clock)
        pace.begin_epoch(0.9)
        clock.now = 2.0
        pace.end_epoch()
        pace.begin_epoch()
        assert pace.seconds_left(0.0, 0) == pytest.approx(20)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "~1 s"), (40.4, "~40 s"), (95, "~2 min"), (3000, "~50 min"), (7900, "~2 h 10 min"), (360_000, "~100 h")],
)
def test_an_estimate_has_few_digits(seconds: float, text: str) -> None:
    assert time_text(seconds) == f"{text} left"
