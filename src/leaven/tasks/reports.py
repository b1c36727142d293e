"""Parts of the reports and cards of several tasks: names, numbers and tables as text."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leaven.terminal.visible import in_markdown, visible

if TYPE_CHECKING:
    from leaven.tasks.protocol import Table

MOST_NAMES = 100  # on the card of a bundle
MOST_ROWS = 30  # of a table in a report


def names_on_card(names: Sequence[str]) -> str:
    """Names on the card of a bundle; of many, the first."""
    more = [f"and {len(names) - MOST_NAMES} more, listed in `bundle.json`"] if len(names) > MOST_NAMES else []
    return ", ".join([*map(in_markdown, names[:MOST_NAMES]), *more])


def finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """The scores for JSON, which has neither NaN nor infinity."""
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def worst_first(scores: Mapping[str, Mapping[str, float]], by: str) -> list[str]:
    """Names in the order of a table: many are sorted by a score, as only the worst are told."""
    return sorted(scores, key=lambda name: scores[name][by]) if len(scores) > MOST_ROWS else list(scores)


def table_lines(table: "Table", one: str, many: str) -> list[str]:
    """A table with a row per name, headed by what one is called; of many, those with the worst scores."""
    title = one if len(table.rows) <= MOST_ROWS else f"the {MOST_ROWS} worst {many}"
    return aligned([[title, *table.heads[1:]], *table.rows[:MOST_ROWS]])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as columns, the first to the left and the others to the right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
