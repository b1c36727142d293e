"""Documents: what is to be written, with the places where a line may end, and how they become lines.

A group is written on one line if it fits and nothing in it asks for lines of its own; otherwise each of its own
places becomes a line end, and the groups inside decide for themselves. Which places a recipe has is decided in
`format_values.py` and `formatter.py`. Nothing here recurses: a document may be nested as deep as a recipe.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from leaven.language.source import Span

WIDTH = 100
INDENT = 4


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment, and where its author put it."""

    text: str
    span: Span
    blanks: int | None  # before it on its line; None where it has the line to itself

    @property
    def is_trailing(self) -> bool:
        return self.blanks is not None


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a line may end; on one line it is written as `flat`."""

    flat: str = ""


@dataclass(frozen=True, slots=True)
class Nest:
    """Lines that begin in here are indented one step more."""

    doc: "Doc"


@dataclass(frozen=True, slots=True)
class OnlyBroken:
    """Written only where the group around it is on several lines: the comma after the last item."""

    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """All on one line, or broken at each of its places. A remark inside must come with `is_broken`."""

    doc: "Doc"
    is_broken: bool = False


Doc = str | Remark | Break | Nest | OnlyBroken | Group | tuple["Doc", ...]


@dataclass(slots=True)
class Line:
    """A line of the result; the remark, if any, is the comment behind its text."""

    indent: int
    text: str
    remark: Remark | None = None

    @property
    def width(self) -> int:
        return self.indent + len(self.text)


class _Task(NamedTuple):
    """A document still to be written, and how."""

    doc: Doc
    indent: int
    is_flat: bool


def flat(doc: Doc) -> str | None:
    """The document on one line, or None if a part of it asks for lines of its own."""
    written: list[str] = []
    todo: list[Doc] = [doc]
    while todo:
        match todo.pop():
            case str() as text:
                written.append(text)
            case Break(flat=text):
                written.append(text)
            case Nest(doc=inner):
                todo.append(inner)
            case Group(doc=inner, is_broken=is_broken):
                if is_broken:
                    return None
                todo.append(inner)
            case tuple() as parts:
                todo.extend(reversed(parts))
            case Remark():
                return None
            case OnlyBroken():
                pass
    return "".join(written)


def lay_out(doc: Doc, column: int, indent: int, reserve: int = 0) -> list[Line]:
    """The document's lines, the first of which starts at `column`; the last leaves room for `reserve` characters."""
    text_on_one_line = flat(doc)
    if text_on_one_line is not None and column + len(text_on_one_line) + reserve <= WIDTH:
        return [Line(indent, text_on_one_line)]
    lines = [Line(indent, "")]
    column_at = column
    todo = [_Task(doc, indent, is_flat=False)]
    while todo:
        task = todo.pop()
        match task.doc:
            case str() as text:
                lines[-1].text += text
                column_at += len(text)
            case Break(flat=text) if task.is_flat:
                lines[-1].text += text
                column_at += len(text)
            case Break():
                lines.append(Line(task.indent, ""))
                column_at = task.indent
            case Group(doc=inner, is_broken=is_broken):
                room = WIDTH - column_at
                is_flat = task.is_flat or (not is_broken and _fits(inner, todo, room, reserve))
                todo.append(_Task(inner, task.indent, is_flat))
            case Remark() as remark:
                lines[-1].remark = remark
            case OnlyBroken(text=text):
                if not task.is_flat:
                    lines[-1].text += text
                    column_at += len(text)
            case _:
                todo.extend(reversed([*_opened(task)]))
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
            case str() as text:
                room -= len(text)
            case Break(flat=text):
                if not task.is_flat:
                    return True
                room -= len(text)
            case Group(is_broken=True) if task.is_flat:
                return False
            case Remark():
                pass
            case OnlyBroken(text=text):
                room -= 0 if task.is_flat else len(text)
            case _:
                todo.append(_opened(task))
    return False


def _opened(task: _Task) -> Iterator[_Task]:
    """What a nest, a group or a sequence consists of, one after another, so that a long list is read only as needed."""
    match task.doc:
        case Nest(doc=inner):
            yield _Task(inner, task.indent + INDENT, task.is_flat)
        case Group(doc=inner):
            yield _Task(inner, task.indent, task.is_flat)
        case tuple() as parts:
            for part in parts:
                yield _Task(part, task.indent, task.is_flat)
