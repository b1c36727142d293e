"""What a run reports about channels that were taken out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leaven.formats.run_folder import pruning_file
from leaven.pictures.bars import draw_bars
from leaven.pictures.figure import BLUE, GREY

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run


def report_channels(run: "Run", text: str, title: str, had: Mapping[str, int], has: Mapping[str, int]) -> None:
    """Print a text, and save a figure of the channels of each layer before and after."""
    run.print(text)
    bars = {name: (count, has[name]) for name, count in had.items()}
    title = f"channels of each layer\n{title}"
    run.save_figure(pruning_file(run.phases - 1), lambda: draw_bars(bars, ("before", "after"), (GREY, BLUE), title))
