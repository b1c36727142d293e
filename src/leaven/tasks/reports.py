"""Parts of the reports and cards of several tasks: names, numbers and tables as text."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leaven.terminal import table
from leaven.terminal.visible import in_markdown, visible

if TYPE_CHECKING:
    from leaven.tasks.protocol import Table

MOST_NAMES = 100  # on the card of a bundle
MOST_ROWS = 30  # of a table in a report


def names_on_card(names: Sequence[str]) -> str:
    """Names on the card of a bundle; of many, the first."""
    more = [f"and {len(names) - MOST_NAMES} more, listed in `bundle.json`"] if len(names) > MOST_NAMES else []
    return ", ".join([*map(in_markdown, names[:MOST_NAMES]), *more])


def percent(share: float) -> str:
    """`97.1 %`."""
    return f"{100 * share:.1f} %"


def aligned_percent(share: float) -> str:
    """` 7.1 %`, as wide as `97.1 %`."""
    return f"{100 * share:5.1f} %"


def largest_first(names: Sequence[str], shares: np.ndarray, k: int) -> list[tuple[str, float]]:
    """The k names with the largest shares."""
    return [(names[at], float(shares[at])) for at in np.argsort(-shares, kind="stable")[:k]]


def share_lines(ranked: Sequence[tuple[str, float]]) -> list[str]:
    """A line for each name with its share."""
    width = max(len(visible(name)) for name, _ in ranked)
    return [f"{visible(name):<{width}}  {aligned_percent(share)}" for name, share in ranked]


def ranked_cells(ranked: Sequence[tuple[str, float]], name: str, share: str, write: Any) -> dict[str, str]:
    """Names and shares as columns of a table: `label`, `confidence`, `label_2`, `confidence_2` and so on."""
    cells: dict[str, str] = {}
    for rank, (one, its_share) in enumerate(ranked, 1):
        end = f"_{rank}" if rank > 1 else ""
        cells |= {f"{name}{end}": one, f"{share}{end}": write(its_share)}
    return cells


def finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """The scores for JSON, which has neither NaN nor infinity."""
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def score_rows(scores: Mapping[str, Mapping[str, float]], heads: Sequence[str], by: str) -> list[list[str]]:
    """For each name some of its scores, and its count. Many are sorted by a score, as only the worst are told."""
    names = sorted(scores, key=lambda name: scores[name][by]) if len(scores) > MOST_ROWS else scores
    return [[name, *(f"{scores[name][head]:.4f}" for head in heads), f"{scores[name]['count']:.0f}"] for name in names]


def table_lines(shown: "Table", one: str, many: str) -> list[str]:
    """A table with a row per name, headed by what one is called; of many, those with the worst scores."""
    title = one if len(shown.rows) <= MOST_ROWS else f"the {MOST_ROWS} worst {many}"
    return aligned([[title, *shown.heads[1:]], *shown.rows[:MOST_ROWS]])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as columns, the first to the left and the others to the right."""
    return table.aligned([[visible(cell) for cell in row] for row in rows], numbers=range(1, len(rows[0])))
