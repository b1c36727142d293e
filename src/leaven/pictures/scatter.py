"""Actual numbers against predicted ones."""

from collections.abc import Mapping
from typing import Any

from leaven.pictures.captions import cut
from leaven.pictures.figure import BLUE, GREY, panels, png

MOST = 12  # panels
_ACROSS = 3


def draw_scatter(pairs: Mapping[str, tuple[Any, Any]]) -> bytes:
    """A panel for each number, with the line on which predictions would be right; of very many numbers, the first."""
    shown = list(pairs.items())[:MOST]
    with panels(len(shown), _ACROSS, 3.6, 3.6) as (figure, grid):
        for axes, (name, (actual, predicted)) in zip(grid, shown, strict=True):
            _draw_panel(axes, cut(name, 36), actual, predicted)
        return png(figure)


def _draw_panel(axes: Any, name: str, actual: Any, predicted: Any) -> None:
    low = float(min(actual.min(), predicted.min()))
    high = float(max(actual.max(), predicted.max()))
    edge = 0.04 * (high - low) or 1.0
    axes.plot([low - edge, high + edge], [low - edge, high + edge], color=GREY, linewidth=1, linestyle=(0, (3, 3)))
    few = len(actual) <= 500
    axes.scatter(actual, predicted, s=14 if few else 5, color=BLUE, alpha=0.6 if few else 0.3, linewidths=0)
    axes.set_xlim(low - edge, high + edge)
    axes.set_ylim(low - edge, high + edge)
    axes.set_aspect("equal")
    axes.set_title(name)
    axes.set_xlabel("actual")
    axes.set_ylabel("predicted")
    axes.locator_params(nbins=5)
    axes.grid(visible=True)
