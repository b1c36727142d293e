"""Numbers of a model's layers as bars, a panel for each kind of number."""

import math
from collections.abc import Mapping, Sequence

from leaven.pictures.figure import COLORS, drawing, png

_MOST = 60  # layers that are readable


def draw_layers(paths: Sequence[str], columns: Mapping[str, Sequence[float | None]]) -> bytes:
    """A bar for each layer in each panel; of many layers, the first."""
    shown = [path if len(path) <= 40 else f"…{path[-39:]}" for path in paths[:_MOST]]
    with drawing(4 * len(columns) + 2, max(2.0, 0.2 * len(shown) + 1)) as figure:
        panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axes, (title, values), color in zip(panels, columns.items(), COLORS, strict=False):
            axes.barh(range(len(shown)), [_bar(value) for value in values[:_MOST]], color=color)
            axes.set_title(title)
            axes.grid(axis="x")
        panels[0].set_yticks(range(len(shown)), shown)
        panels[0].invert_yaxis()
        return png(figure)


def _bar(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0
