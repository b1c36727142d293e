"""Tables of inputs: what a bundle remembers of the one that its model was trained on, and the rows of those like it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leaven.bundle.inputs.protocol import InputKind
from leaven.formats.tables import PLAIN, Layout, layout_like, open_table
from leaven.runtime.failures import Failure

_KINDS: dict[str, Any] = {"separator": str, "header": bool, "quote": str | None, "encoding": str}


def table_to_json(takes: InputKind) -> dict[str, Any]:
    """What is unusual about the table of the training, as entries of a bundle."""
    layout = {name: value for name, value in takes.layout._asdict().items() if value != getattr(PLAIN, name)}
    entries = {"columns": list(takes.columns), "ending": takes.ending, "layout": layout}
    return {name: value for name, value in entries.items() if value}


def table_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields about a table that a bundle has; settings of the layout that it should not have are left out."""
    layout = data.get("layout")
    settings = layout if isinstance(layout, dict) else {}
    known = {
        name: settings[name] for name, kind in _KINDS.items() if name in settings and isinstance(settings[name], kind)
    }
    names = settings.get("columns")
    known["columns"] = tuple(map(str, names)) if isinstance(names, list | tuple) else ()
    columns = tuple(map(str, data.get("columns", ())))
    return {"columns": columns, "ending": str(data.get("ending", "")), "layout": Layout(**known)}


def rows_of(file: Path, columns: Sequence[str], layout: Layout, naming: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Where each row of a table is, and its cells in these columns; a Failure where they can't be read.

    Its layout may be that of the training. `naming` says how to name other columns.
    """
    try:
        table = open_table(file, layout_like(file, columns, layout))
        there = table.columns()
        if missing := [column for column in columns if column not in there]:
            help = f"its columns are {', '.join(there[:8])}; {naming}"
            raise Failure(f"{file} has no column `{missing[0]}`", help)
        yield from table.rows(columns)
    except (OSError, ValueError) as problem:
        raise Failure(f"{file} can't be read: {getattr(problem, 'strerror', None) or problem}") from None
