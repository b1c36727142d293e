"""A confusion matrix, of two classes or a thousand."""

from collections.abc import Sequence
from typing import Any

from leaven.pictures.captions import columns, cut
from leaven.pictures.figure import GREY, INK, drawing, png

WITH_NUMBERS = 20  # classes up to which each cell has its number
MOST_NAMES = 60  # along an axis
_LONGEST = 24  # letters of a name


def draw_confusion(classes: Sequence[str], counts: Any) -> bytes:
    """One row per actual class, coloured by shares of that class; `counts` is a square array of integers."""
    count = len(classes)
    names = [cut(name, _LONGEST) for name in classes]
    side = min(max(1.5, 0.42 * count), 9.0)
    margin = 0.9 + 0.075 * max(map(columns, names))
    with drawing(side + margin + 1.0, side + margin) as figure:
        axes = figure.subplots()
        totals = counts.sum(axis=1, keepdims=True)
        shares = counts / totals.clip(min=1)
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        _name_axes(axes, names)
        if count <= WITH_NUMBERS:
            _write_numbers(axes, counts, shares)
        bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 2.5 / side) if side > 2.5 else 1.0, aspect=12)
        bar.outline.set_visible(False)
        bar.set_label("share of the actual class", color=GREY)
        return png(figure)


def _name_axes(axes: Any, names: Sequence[str]) -> None:
    """Names along both axes; of very many classes, those at even steps."""
    step = -(-len(names) // MOST_NAMES)
    places = range(0, len(names), step)
    size = 8 if len(names) <= 25 else 6
    shown = [names[at] for at in places]
    is_short = max(map(columns, shown)) <= 3 and len(shown) <= 25
    axes.set_xticks(places, shown, rotation=0 if is_short else 90, fontsize=size)
    axes.set_yticks(places, shown, fontsize=size)
    axes.tick_params(length=0 if step == 1 else 2)
    axes.set_xlabel("predicted")
    axes.set_ylabel("actual")
    axes.spines[:].set_visible(False)


def _write_numbers(axes: Any, counts: Any, shares: Any) -> None:
    """The number in each cell; none is a dot."""
    largest = len(str(counts.max()))
    size = 8 if largest <= 3 else 6
    for row in range(len(counts)):
        for column in range(len(counts)):
            number = int(counts[row, column])
            color = "white" if shares[row, column] > 0.6 else INK if number else GREY
            axes.text(column, row, str(number) if number else "·", ha="center", va="center", color=color, fontsize=size)
