"""Numbers by name as horizontal bars, one or several to a name."""

from collections.abc import Mapping, Sequence

from leaven.pictures.captions import columns, cut
from leaven.pictures.figure import COLORS, GREY, drawing, png

MOST = 60  # names
_LONGEST = 40  # letters of a name


def draw_bars(
    values: Mapping[str, Sequence[float]], heads: Sequence[str], colors: Sequence[str] = COLORS, title: str = ""
) -> bytes:
    """A bar for each head beside each name, with its value; of very many names, the first."""
    shown = list(values.items())[:MOST]
    names = [cut(name, _LONGEST) for name, _ in shown]
    thick = 0.8 / len(heads)
    high = 1.0 + 0.19 * len(heads) * len(shown) + 0.2 * title.count("\n")
    with drawing(4.2 + 0.075 * max(map(columns, names), default=0), high) as figure:
        axes = figure.subplots()
        for number, head in enumerate(heads):
            places = [at + (number - (len(heads) - 1) / 2) * thick for at in range(len(shown))]
            numbers = [row[number] for _, row in shown]
            bars = axes.barh(places, numbers, height=0.88 * thick, color=colors[number], label=head)
            axes.bar_label(bars, [f"{value:.4g}" for value in numbers], padding=3, fontsize=7, color=GREY)
        axes.set_yticks(range(len(shown)), names)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.margins(x=0.12)
        axes.grid(axis="x")
        figure.legend(loc="outside lower right", ncols=len(heads))
        if title:
            figure.suptitle(title, x=0.02, ha="left", fontsize=9)
        if len(values) > len(shown):
            axes.set_xlabel(f"the first {len(shown)} of {len(values)}", color=GREY)
        return png(figure)
