"""Columns: how adjacent lines are aligned.

Computes positions only. Whether the author aligned something is decided in `formatter.py`, except for trailing
comments, whose neighbours are known only once all lines are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from leaven.language.pretty_printer import WIDTH, Line

_COMMENT_GAP = 2
_COMMENT_PADDING = 3  # with at least this many spaces, a comment was moved to the right on purpose

Row = Sequence[str | None]


def align(rows: Sequence[Row], gaps: Mapping[int, int], indent: int, may_overflow: bool) -> list[str]:
    """The rows as lines; the cells of a column in `gaps` start that many spaces after the longest line so far.

    If that would make a line too long, nothing is aligned.
    """
    texts = [row[0] or "" for row in rows]
    for column in range(1, max(len(row) for row in rows)):
        members = [index for index, row in enumerate(rows) if column < len(row) and row[column] is not None]
        start = max((len(texts[index]) for index in members), default=0) + gaps.get(column, 1)
        if column in gaps and indent + start > WIDTH:
            return [join(row) for row in rows]
        for index in members:
            before = texts[index].ljust(start) if column in gaps else f"{texts[index]} "
            texts[index] = f"{before}{rows[index][column]}"
    if not may_overflow and any(indent + len(text) > WIDTH for text in texts):
        return [join(row) for row in rows]
    return texts


def join(row: Row) -> str:
    """A row with one space between its cells."""
    return " ".join(cell for cell in row if cell is not None)


def to_text(lines: Sequence[Line]) -> str:
    """The text of the lines, with their trailing comments aligned."""
    written: list[str] = []
    for section in _sections(lines):
        column = _comment_column(section)
        for line in section:
            text = f"{'':{line.indent}}{line.text}" if line.text else ""
            if line.comment:
                gap = max(column - line.width, _COMMENT_GAP)
                text = f"{text}{'':{gap}}{line.comment.text}"
            written.append(f"{text}\n")
    return "".join(written)


def _sections(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Adjacent lines whose comments belong together; blank lines, comment lines and braces separate them."""
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


def _comment_column(section: Sequence[Line]) -> int:
    """Where the comments of a section start if their author aligned or padded them; otherwise 0."""
    lines = [(line.width, line.comment) for line in section if line.comment and line.width <= WIDTH]
    is_padded = any(comment.spaces is not None and comment.spaces >= _COMMENT_PADDING for _, comment in lines)
    is_aligned = len({comment.span.column for _, comment in lines}) == 1
    if not lines or not (is_padded or is_aligned):
        return 0
    return max(width for width, _ in lines) + _COMMENT_GAP
