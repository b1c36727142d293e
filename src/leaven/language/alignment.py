"""Columns: how things that stand below each other are lined up.

Decides positions only. Whether the author wants things lined up is decided in `formatter.py`, except for the
comments behind lines, whose neighbours are known only once all lines are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from leaven.language.pretty_printer import WIDTH, Line

_REMARK_GAP = 2
_REMARK_PADDING = 3  # from this many blanks on, a comment was pushed away on purpose

Row = Sequence[str | None]


def tabulate(rows: Sequence[Row], gaps: Mapping[int, int], indent: int, may_overflow: bool) -> list[str]:
    """The rows as lines; cells of a column in `gaps` are lined up, that many blanks behind the longest line so far.

    Where this would push a line past the limit, nothing is lined up.
    """
    texts = [row[0] or "" for row in rows]
    for column in range(1, max(len(row) for row in rows)):
        members = [index for index, row in enumerate(rows) if column < len(row) and row[column] is not None]
        start = max((len(texts[index]) for index in members), default=0) + gaps.get(column, 1)
        if column in gaps and indent + start > WIDTH:
            return [plain(row) for row in rows]
        for index in members:
            before = texts[index].ljust(start) if column in gaps else f"{texts[index]} "
            texts[index] = f"{before}{rows[index][column]}"
    if not may_overflow and any(indent + len(text) > WIDTH for text in texts):
        return [plain(row) for row in rows]
    return texts


def plain(row: Row) -> str:
    """A row with one blank between its cells."""
    return " ".join(cell for cell in row if cell is not None)


def write_lines(lines: Sequence[Line]) -> str:
    """The text of the lines, with the comments behind them in place."""
    written: list[str] = []
    for section in _sections(lines):
        column = _remark_column(section)
        for line in section:
            text = f"{'':{line.indent}}{line.text}" if line.text else ""
            if line.remark:
                gap = max(column - line.width, _REMARK_GAP)
                text = f"{text}{'':{gap}}{line.remark.text}"
            written.append(f"{text}\n")
    return "".join(written)


def _sections(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Stretches of lines whose comments belong together: blank lines, comments and braces part them."""
    section: list[Line] = []
    for line in lines:
        if section and line.text.startswith("}"):
            yield section
            section = []
        section.append(line)
        if not line.text or line.text.startswith("#") or line.text.endswith("{"):
            yield section
            section = []
    yield section


def _remark_column(section: Sequence[Line]) -> int:
    """Where the comments of a section begin if its author lined them up or padded them; otherwise 0."""
    lines = [(line.width, line.remark) for line in section if line.remark and line.width <= WIDTH]
    is_padded = any(remark.blanks is not None and remark.blanks >= _REMARK_PADDING for _, remark in lines)
    is_aligned = len({remark.span.column for _, remark in lines}) == 1
    if not lines or not (is_padded or is_aligned):
        return 0
    return max(width for width, _ in lines) + _REMARK_GAP
