"""A pretty printer: documents with places where a line may end, and how they become lines.

A group is written on one line if it fits and nothing in it needs a line of its own; otherwise every break of the group
ends a line, and the groups inside it decide for themselves. Which breaks a recipe has is decided in `format_values.py`
and `formatter.py`. Nothing here recurses: a document may be nested as deep as a recipe.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from leaven.language.record import Record
from leaven.language.source import Span

WIDTH = 100
INDENT = 4


class Comment(Record):
    """A comment, and where its author put it."""

    text: str
    span: Span
    spaces: int | None  # before it, if it follows something on its line


class Break(Record):
    """A place where a line may end; on one line it is written as `flat`."""

    flat: str = ""


class Indent(Record):
    """Lines that start in here are indented one level more."""

    doc: "Doc"


class IfBroken(Record):
    """Written only if its group takes several lines: the comma after the last item."""

    text: str


class Group(Record):
    """A document on one line, or broken at every break. One with a comment in it must be broken."""

    doc: "Doc"
    is_broken: bool = False


Doc = str | Comment | Break | Indent | IfBroken | Group | tuple["Doc", ...]


@dataclass(slots=True)
class Line:
    """A line of the result, and the comment after its text."""

    indent: int
    text: str
    comment: Comment | None = None

    @property
    def width(self) -> int:
        return self.indent + len(self.text)


class _Task(NamedTuple):
    """A document still to be written, and how."""

    doc: Doc
    indent: int
    is_flat: bool


def flat(doc: Doc) -> str | None:
    """The document on one line, or None if a part of it needs a line of its own."""
    written: list[str] = []
    todo = [_Task(doc, 0, is_flat=True)]
    while todo:
        task = todo.pop()
        match task.doc:
            case Comment() | Group(is_broken=True):
                return None
            case str() | Break() | IfBroken():
                written.append(_text(task))
            case _:
                todo.extend(reversed([*_parts(task)]))
    return "".join(written)


def lay_out(doc: Doc, column: int, indent: int, reserve: int = 0) -> list[Line]:
    """The document's lines. The first starts at `column`, the last leaves room for `reserve` characters."""
    one_line = flat(doc)
    if one_line is not None and column + len(one_line) + reserve <= WIDTH:
        return [Line(column, one_line)]
    lines = [Line(column, "")]
    todo = [_Task(doc, indent, is_flat=False)]
    while todo:
        task = todo.pop()
        match task.doc:
            case Break() if not task.is_flat:
                lines.append(Line(task.indent, ""))
            case str() | Break() | IfBroken():
                lines[-1].text += _text(task)
            case Comment() as comment:
                lines[-1].comment = comment
            case Group(doc=inner, is_broken=is_broken):
                room = WIDTH - lines[-1].width
                is_flat = task.is_flat or (not is_broken and _fits(inner, todo, room, reserve))
                todo.append(_Task(inner, task.indent, is_flat))
            case _:
                todo.extend(reversed([*_parts(task)]))
    return lines


def _fits(doc: Doc, rest: list[_Task], room: int, reserve: int) -> bool:
    """Whether the document on one line, and what follows it up to the next possible line end, needs at most `room`."""
    todo: list[Iterator[_Task]] = [reversed(rest), iter([_Task(doc, 0, is_flat=True)])]
    while room >= 0:
        task = next(todo[-1], None)
        if task is None:
            todo.pop()
            if not todo:
                return room >= reserve
            continue
        match task.doc:
            case Break() if not task.is_flat:
                return True
            case Group(is_broken=True) if task.is_flat:
                return False
            case Comment():
                pass
            case str() | Break() | IfBroken():
                room -= len(_text(task))
            case _:
                todo.append(_parts(task))
    return False


def _text(task: _Task) -> str:
    """The text of a document that has no parts."""
    match task.doc:
        case str() as text:
            return text
        case Break(flat=text):
            return text
        case IfBroken(text=text) if not task.is_flat:
            return text
        case _:
            return ""


def _parts(task: _Task) -> Iterator[_Task]:
    """The parts of an indent, a group or a sequence, one by one, so that a long list is read only as far as needed."""
    match task.doc:
        case Indent(doc=inner):
            yield _Task(inner, task.indent + INDENT, task.is_flat)
        case Group(doc=inner):
            yield _Task(inner, task.indent, task.is_flat)
        case tuple() as parts:
            for part in parts:
                yield _Task(part, task.indent, task.is_flat)
