"""Tables of inputs: what a bundle remembers of the one that its model was trained on, and the rows of those like it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from leaven.formats.tables import PLAIN, Layout, is_table_like, layout_like, open_table
from leaven.runtime.failures import Failure

_KINDS: dict[str, Any] = {"separator": str, "header": bool, "quote": str | None, "encoding": str}


@dataclass(frozen=True, kw_only=True)
class FromTable:
    """Inputs that a table may have, or name."""

    columns: tuple[str, ...] = ()  # of the table that had them in the training
    layout: Layout = PLAIN  # of that table
    ending: str = ""  # of the files that it named, where it left that out

    def with_columns(self, columns: Sequence[str], layout: Layout, ending: str = "") -> Self:
        return replace(self, columns=tuple(columns), layout=layout, ending=ending)

    def is_table(self, path: Path) -> bool:
        return is_table_like(path, self.layout)

    def table_to_json(self) -> dict[str, Any]:
        """Whatever is not as usual, as entries of the bundle."""
        layout = {name: value for name, value in self.layout._asdict().items() if value != getattr(PLAIN, name)}
        entries = {"columns": list(self.columns), "ending": self.ending, "layout": layout}
        return {name: value for name, value in entries.items() if value}


def table_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `FromTable` that a bundle has; settings of the layout that it should not have are left out."""
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
