"""What a run tells while it goes on: a bar where a person watches, a line per epoch where nobody does."""

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from tqdm import tqdm


class Progress:
    """One epoch's bar, or nothing where there is no terminal."""

    def __init__(self, title: str, total: int, done: int, is_shown: bool) -> None:
        watched = is_shown and _is_terminal(sys.stderr)
        self._bar: Any = tqdm(total=total, initial=done, desc=title, unit="batch", leave=False) if watched else None

    def advance(self, loss: float | None, items_per_second: float, score: str) -> None:
        """One batch more."""
        if self._bar is None:
            return
        words = {"loss": f"{loss:.4f}"} if loss is not None else {}
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
    told = "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
    return f"{title}  {told}  {seconds:.1f} s"


def scores_table(scores: Mapping[str, float]) -> str:
    """Scores as a small table, a line each."""
    width = max((len(name) for name in scores), default=0)
    return "\n".join(f"  {name:<{width}}  {value:.4f}" for name, value in scores.items())


def say(text: str) -> None:
    """A line to the person or the log, above a bar if there is one."""
    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


def _is_terminal(stream: TextIO) -> bool:
    return stream is not None and stream.isatty()
