"""Curves of what models answer while an input is changed more and more, with the points where an answer flips."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from leaven.pictures.captions import cut
from leaven.pictures.figure import COLORS, GREY, INK, panels, png

_ACROSS = 2
_TITLE = 44  # letters


class Panel(NamedTuple):
    """What is drawn of one model: numbers by name at each value, and where its answer flips to what."""

    title: str
    numbers: Mapping[str, Sequence[float]]
    flips: Sequence[tuple[float, str]]


def draw_sweep(shown: Sequence[Panel], values: Sequence[float], axis: str, unit: str, neutral: float | None) -> bytes:
    """A panel for each model: its numbers over the values of an edit."""
    with panels(len(shown), _ACROSS, 5.6, 3.6) as (figure, grid):
        for axes, panel in zip(grid, shown, strict=True):
            for color, (name, numbers) in zip(COLORS, panel.numbers.items(), strict=False):
                marker = "o" if len(values) <= 40 else ""
                axes.plot(values, numbers, color=color, marker=marker, markersize=3, label=cut(name, 28))
            if neutral is not None and values[0] <= neutral <= values[-1]:
                axes.axvline(neutral, color=GREY, linewidth=1)
            for at, to in panel.flips:
                axes.axvline(at, color=INK, linewidth=1.2, linestyle=(0, (3, 3)))
                above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom", "fontsize": 8}
                axes.text(at, 1.01, cut(f"→ {to}", 24), color=INK, **above)
            axes.set_title(cut(panel.title, _TITLE), pad=18 if panel.flips else 6)
            axes.set_xlabel(axis)
            axes.set_ylabel(unit)
            axes.grid(axis="y")
            axes.legend(loc="best", fontsize=8, frameon=True, framealpha=0.85, edgecolor="none")
        return png(figure)
