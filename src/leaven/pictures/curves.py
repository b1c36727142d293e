"""The curves of a run: losses and metrics by epoch, with its phases and best epochs."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from leaven.pictures.figure import BLUE, COLORS, GREY, ORANGE, panels, png
from leaven.terminal.score_text import score_text

MOST_METRICS = 8
ROOM = 44  # letters that fit above a panel
_COLUMNS = 3
_LOSSES = {"train.loss": GREY, "val.loss": BLUE}

Rows = Sequence[Mapping[str, Any]]


def draw_curves(rows: Rows, names: Sequence[str], best: Mapping[str, int]) -> bytes:
    """One panel for the losses and one per metric, by epochs counted over all phases; `best` has one of each phase."""
    losses = [name for name in names if name in _LOSSES]
    metrics = [name for name in names if name not in _LOSSES][:MOST_METRICS]
    shown = [*([losses] if losses else []), *([name] for name in metrics)]
    with panels(len(shown), _COLUMNS, 4.4 if len(shown) > 1 else 5.5, 3.2) as (figure, grid):
        for axes, panel in zip(grid, shown, strict=True):
            _draw_panel(axes, rows, panel, best)
        return png(figure)


def _draw_panel(axes: Any, rows: Rows, names: Sequence[str], best: Mapping[str, int]) -> None:
    epochs = range(1, len(rows) + 1)
    marker = "o" if len(rows) <= 30 else ""
    for name in names:
        color = _LOSSES.get(name, COLORS[2])
        values = [_number(row.get(name)) for row in rows]
        axes.plot(epochs, values, color=color, marker=marker, markersize=3, label=name)
    axes.set_title("loss" if len(names) > 1 else names[0], pad=_pad(rows))
    axes.set_xlabel("epoch")
    axes.grid(axis="y")
    axes.set_xlim(0.5, len(rows) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _mark_best(axes, rows, names[-1], best)
    _mark_phases(axes, rows)
    if len(names) > 1:
        axes.legend(loc="best")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _mark_best(axes: Any, rows: Rows, name: str, best: Mapping[str, int]) -> None:
    """A ring around the best epoch of every phase; the value of the last one, which is saved, is beside the title."""
    found = [(at, row) for at, row in enumerate(rows, 1) if best.get(row["phase"]) == row["epoch"]]
    points = [(at, value) for at, row in found if math.isfinite(value := _number(row.get(name)))]
    ring = {"markerfacecolor": "none", "markeredgecolor": ORANGE, "markeredgewidth": 1.6, "clip_on": False}
    for at, value in points:
        axes.plot([at], [value], "o", markersize=8, **ring)
    if points:
        at, value = points[-1]
        small = {"fontweight": "normal", "fontsize": 9}
        axes.set_title(f"best epoch {at}: {score_text(value)}", loc="right", color=ORANGE, pad=_pad(rows), **small)


def _pad(rows: Rows) -> int:
    """How far above a panel its title is: over the names of the phases, if there are several."""
    return 17 if rows[0]["phase"] != rows[-1]["phase"] else 6


def _mark_phases(axes: Any, rows: Rows) -> None:
    """A line between phases, and their names above; of one phase, nothing."""
    phases = [(name, len(list(group))) for name, group in groupby(rows, key=lambda row: row["phase"])]
    if len(phases) < 2:
        return
    start = 0.5
    for number, (name, count) in enumerate(phases):
        if number:
            axes.axvline(start, color=GREY, linewidth=1, linestyle=(0, (2, 2)))
        room = round(ROOM * count / len(rows))
        shown = name if len(name) <= room else f"{name[: room - 1]}…" if room > 3 else ""
        above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        axes.text(start + count / 2, 1.01, shown, color=GREY, **above)
        start += count
