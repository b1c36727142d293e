"""Lines with a remark to the right of each, as `leaven show` and `leaven plan` print them.

Without a width, the remarks stand in one column and lines are as long as they are. In a terminal, remarks are wrapped,
and lines are continued on the next one; what is printed is then still a recipe.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator

from leaven.terminal.width import columns

Line = tuple[str, str]  # the text, and the remark

MARK = "  # "
COMMA = r", +"  # where a statement may be continued
SPACE = r" +"
_ROOM = 34  # columns for the remarks that a narrow terminal keeps free
_STRING = r'"(?:\\.|[^"\\])*"'


def aligned(
    lines: Iterable[Line], column: int, width: int | None = None, at: str = COMMA, hanging: int = 0
) -> list[Line]:
    """The lines, padded so that all remarks begin in a column; fitted to a width, if one is given.

    Lines that are too long for it are continued where the pattern `at` matches, never inside of quotes, and indented by
    four more columns, but at least by `hanging`.
    """
    lines = list(lines)
    if width is None or all(columns(joined(line)) < width for line in _padded(lines, column)):
        return list(_padded(lines, column))
    lengths = [columns(text) for text, remark in lines if remark]
    column = max((length for length in lengths if length <= min(column, width - _ROOM)), default=0)
    return [fitted for line in lines for fitted in _fitted(line, column, width - 1, at, hanging)]


def joined(line: Line) -> str:
    """A line as it is printed."""
    text, remark = line
    return f"{text}{MARK}{remark}" if remark else text


def _padded(lines: Iterable[Line], column: int) -> Iterator[Line]:
    for text, remark in lines:
        yield (text + " " * (column - columns(text)) if remark else text), remark


def _fitted(line: Line, column: int, width: int, at: str, hanging: int) -> Iterator[Line]:
    """A line as several: the text first, the remark beside it, or below it where there is no room."""
    text, remark = line
    *before, last = _continued(text, width, at, hanging)
    yield from ((part, "") for part in before)
    if not remark or (columns(joined((last, remark))) <= width and columns(last) > column):
        yield last, remark
        return
    remarks = textwrap.wrap(remark, width - column - len(MARK), break_long_words=False, break_on_hyphens=False)
    if columns(last) > column:
        yield last, ""
    else:
        yield from _padded([(last, remarks.pop(0))], column)
    yield from _padded((("", part) for part in remarks), column)


def _continued(text: str, width: int, at: str, hanging: int) -> list[str]:
    """A text on as many lines as it needs, the further ones indented."""
    bare = text.lstrip()
    first = len(text) - len(bare)
    lines = [" " * first]
    for part in re.findall(rf"(?:{_STRING}|(?!{at}).)+(?:{at})?", bare):
        if lines[-1].strip() and columns(lines[-1] + part.rstrip()) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append(" " * max(first + 4, hanging))
        lines[-1] += part
    return lines
