"""The curves of a run, as a few lines for the terminal.

Decides which scores have curves. What is logged is decided in `phase.py`, how the figure looks in `pictures`.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from leaven.formats.run_folder import CURVES
from leaven.pictures.curves import draw_curves
from leaven.terminal.score_text import score_text

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run

WIDEST = 60  # columns of a curve; a longer run has several epochs in each
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"
_NOT_SCORES = ("phase", "epoch", "lr", "seconds")
_LOSSES = ("val.loss", "train.loss")

Rows = Sequence[Mapping[str, Any]]


def show_curves(run: "Run") -> None:
    """Print the curves of a run, and save them as a figure; one epoch has none."""
    rows, scores = run.scores.rows, run.scores
    if len(rows) < 2:
        return
    lines = [chart(rows, scores.monitor, getattr(sys.stdout, "encoding", None))]
    file = run.save_figure(CURVES, lambda: draw_curves(rows, score_names(rows), scores.best_epochs))
    if file is not None:
        lines.append(f"  curves: {file}")
    run.print("\n".join(["", *filter(None, lines)]))


def score_names(rows: Rows) -> list[str]:
    """The scores that have curves: losses, then metrics."""
    names = dict.fromkeys(name for row in rows for name in row if name not in _NOT_SCORES)
    return [*(name for name in reversed(_LOSSES) if name in names), *(name for name in names if name not in _LOSSES)]


def chart(rows: Rows, monitor: str, encoding: str | None) -> str:
    """`val.accuracy  ▁▄▆▇│▇██  0.1889 to 0.9722`: the score that decides, and the losses; empty for a single epoch.

    A bar separates phases. The losses have one scale, from 0, so that they can be compared.
    """
    names = [name for name in dict.fromkeys((monitor, *_LOSSES)) if name in score_names(rows)]
    if len(rows) < 2 or not names:
        return ""
    blocks, bar = (_BLOCKS, "│") if _can_print(_BLOCKS + "│", encoding) else (_ASCII, "|")
    losses = [row[name] for row in rows for name in _LOSSES if _is_number(row.get(name))]
    lines = []
    for name in names:
        values = [row[name] for row in rows if _is_number(row.get(name))]
        if not values:
            continue
        low, high = (0.0, max(losses)) if name in _LOSSES and min(losses) >= 0 else (min(values), max(values))
        line = bar.join(_blocks(each, low, high, blocks) for each in _per_column(rows, name))
        lines.append((name, line, f"{score_text(values[0])} to {score_text(values[-1])}"))
    width = max((len(name) for name, _, _ in lines), default=0)
    return "\n".join(f"  {name:<{width}}  {line}  {numbers}" for name, line, numbers in lines)


def _can_print(text: str, encoding: str | None) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _per_column(rows: Rows, name: str) -> list[list[float]]:
    """The values of a score by phase, each the mean of as many epochs as make a column."""
    share = math.ceil(len(rows) / WIDEST)
    found = []
    for _, group in groupby(rows, key=lambda row: row["phase"]):
        values = [row.get(name, math.nan) for row in group]
        chunks = [[v for v in values[at : at + share] if _is_number(v)] for at in range(0, len(values), share)]
        found.append([sum(chunk) / len(chunk) if chunk else math.nan for chunk in chunks])
    return found


def _blocks(values: Sequence[float], low: float, high: float, blocks: str) -> str:
    spread = (high - low) or 1.0
    top = len(blocks) - 1
    return "".join(" " if math.isnan(v) else blocks[round(top * (v - low) / spread)] for v in values)
