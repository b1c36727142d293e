"""Tables on the screen."""

from collections.abc import Sequence

from leaven.terminal.visible import visible


def left_aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as columns, all to the left; what would command the terminal is made visible."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
