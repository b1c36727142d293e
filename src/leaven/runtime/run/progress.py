"""What a run prints: a progress bar in a terminal, a line per epoch everywhere."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from tqdm import tqdm

from leaven.formats.score_text import score_text


class Progress:
    """The progress bar of an epoch; nothing where there is no terminal."""

    def __init__(self, title: str, total: int, done: int, is_shown: bool) -> None:
        is_visible = is_shown and _is_terminal(sys.stderr)
        self._bar: Any = tqdm(total=total, initial=done, desc=title, unit="batch", leave=False) if is_visible else None

    def advance(self, loss: float | None, items_per_second: float, score: str) -> None:
        """One more batch is done."""
        if self._bar is None:
            return
        words = {"loss": score_text(loss)} if loss is not None else {}
        self._bar.set_postfix_str(
            ", ".join(
                [
                    *(f"{k}={v}" for k, v in words.items()),
                    *([score] if score else []),
                    f"{items_per_second:.0f} images/s",
                ]
            ),
            refresh=False,
        )
        self._bar.update(1)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def epoch_line(title: str, scores: Mapping[str, float], seconds: float) -> str:
    """`head 3/10  train.loss 0.4312  val.accuracy 0.9444  4.1 s`."""
    logged = "  ".join(f"{name} {score_text(value)}" for name, value in scores.items())
    return f"{title}  {logged}  {seconds:.1f} s"


def final_table(rows: Sequence[Mapping[str, Any]], best: Mapping[str, int], scores: Mapping[str, float]) -> str:
    """The best epoch of every phase and the test scores, as a table."""
    names = [name for name in (rows[-1] if rows else {}) if name.startswith("val.")]
    names = [name.removeprefix("val.") for name in names] or [name.removeprefix("test.") for name in scores]
    lines = [["", "epoch", *names]]
    for phase, number in best.items():
        row = next(row for row in rows if row["phase"] == phase and row["epoch"] == number)
        lines.append([phase, str(number), *(_score(row.get(f"val.{name}")) for name in names)])
    if scores:
        lines.append(["test", "", *(_score(scores.get(f"test.{name}")) for name in names)])
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        "  " + "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines
    )


def _score(value: float | None) -> str:
    return "" if value is None else score_text(value)


def say(text: str) -> None:
    """Print a line, above the progress bar if there is one."""
    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


def _is_terminal(stream: TextIO) -> bool:
    return stream is not None and stream.isatty()
