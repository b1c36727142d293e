"""What a run prints: its data, a progress bar in a terminal, a line per epoch everywhere."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from leaven.terminal import status_line
from leaven.terminal.score_text import score_text
from leaven.terminal.table import aligned
from leaven.terminal.visible import visible, visible_lines

_SHORTEST_BAR, _LONGEST_BAR = 8, 20
_MOST_NAMED = 8
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(eq=False)
class Bar:
    """How much of a loop is done, in the status line. `facts` are asked for when the line is drawn."""

    title: str
    total: int
    done: int = 0
    facts: Callable[[], Sequence[str]] = tuple
    is_shown: bool = True

    def __post_init__(self) -> None:
        if self.is_shown and status_line.is_watched():
            status_line.show(self._text())

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self.done += count
        if self.is_shown:
            status_line.update(self._text)

    def close(self) -> None:
        if self.is_shown:
            status_line.erase()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self.close()

    def _text(self) -> str:
        """`all 2/3 training ███████▍      20/45 · epoch 12/13 · ~40 s left`; without the last ones if it is narrow."""
        before, after = f"{self.title} ", [f" {self.done:,}/{self.total:,}", *self.facts()]
        room = status_line.width() - 1 - len(before)
        while len(after) > 1 and len(" · ".join(after)) + _SHORTEST_BAR > room:
            after.pop()
        end = " · ".join(after)
        return before + _bar(self.done / max(1, self.total), min(_LONGEST_BAR, room - len(end))) + end


def _bar(part: float, width: int) -> str:
    full, rest = divmod(round(min(1.0, part) * max(0, width) * 8), 8)
    return ("█" * full + _EIGHTHS[rest].strip()).ljust(width)


def final_table(rows: Sequence[Mapping[str, Any]], best: Mapping[str, int], scores: Mapping[str, float]) -> str:
    """The best epoch of every phase and the test scores, as a table."""
    names = [name for name in (rows[-1] if rows else {}) if name.startswith("val.")]
    names = [name.removeprefix("val.") for name in names] or [name.removeprefix("test.") for name in scores]
    lines = [["", "epoch", *names]]
    for phase, number in best.items():
        row = next(row for row in rows if row["phase"] == phase and row["epoch"] == number)
        lines.append([visible(phase), str(number), *(_score(row.get(f"val.{name}")) for name in names)])
    if scores:
        lines.append(["test", "", *(_score(scores.get(f"test.{name}")) for name in names)])
    return "\n".join(f"  {line}" for line in aligned(lines, numbers=range(1, len(lines[0]))))


def _score(value: float | None) -> str:
    return "" if value is None else score_text(value)


def data_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the fingerprint of the data differs from that of the data that a run was started with."""
    if then.get("outputs") != now["outputs"]:
        before, after = _few(then.get("outputs", ())), _few(now["outputs"])
        return f"the model predicted {before} when the run was started, now {after}"
    for split in ("train", "val", "test"):
        if then.get(split) != now[split]:
            return f"{split} had {then.get(split)} samples when the run was started, now {now[split]}"
    return "the data has other samples than when the run was started"


def skipped_line(samples: Sequence[str]) -> str:
    """`2 samples could not be read and were skipped: a.jpg, b.jpg`."""
    verb = "sample could not be read and was" if len(samples) == 1 else "samples could not be read and were"
    return f"{len(samples)} {verb} skipped: {_few(samples)}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(visible, names[:_MOST_NAMED])) + (", …" if len(names) > _MOST_NAMED else "")


def say(text: str) -> None:
    """Print a line, in place of the status line if there is one."""
    status_line.erase()
    print(visible_lines(text), file=sys.stdout, flush=True)
