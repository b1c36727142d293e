"""What a standalone program reports about channels that were taken out."""

from collections.abc import Mapping

from leaven.plain.run import Run


def report_channels(run: Run, text: str, title: str, had: Mapping[str, int], has: Mapping[str, int]) -> None:
    """Print a text; the title is that of a figure, which only Leaven draws."""
    run.print(text)
