"""Drafts: the statements of a recipe before it is known which lines they take.

Decides which comment and which blank line belongs where, and notes what the author padded. Made in one walk in the
order of the text. The lines are left to `formatter.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from leaven.language import syntax
from leaven.language.alignment import Row, plain
from leaven.language.format_values import ValueWriter, blanks_before, has_line_end, next_token, pop_trailing
from leaven.language.pretty_printer import WIDTH, Doc, Remark, flat
from leaven.language.source import Source

_BLANK_LINE = re.compile(r"(?>\r\n|\n|\r)[ \t\f]*[\r\n]")


@dataclass(slots=True)
class Item:
    """One argument, the comments on the lines before it, and the one behind it."""

    doc: Doc
    is_pipeline: bool
    before: list[Remark] = field(default_factory=list)
    behind: Remark | None = None


@dataclass(slots=True)
class Draft:
    """A statement: its first word, what may be broken over lines, and what the columns of a table would hold."""

    word: str
    items: list[Item]
    cells: list[Doc | None]
    blanks: dict[int, int]  # that its author put before each cell; the block counts as the last one
    block: "Block | None" = None
    remark: Remark | None = None

    def row(self, width: int = 0) -> Row | None:
        """The cells on one line, the first with the name, `width` wide; None for a statement that needs several."""
        cells = [None if cell is None else flat(cell) for cell in self.cells]
        if any(cell is not None and text is None for cell, text in zip(self.cells, cells, strict=True)):
            return None
        if any(item.before or item.behind for item in self.items) or (self.block and not self.block.short):
            return None
        start = [f"{self.word:{width}} {cells[0]}", *cells[1:]] if cells else [self.word]
        return [*start, self.block.short if self.block else None]


@dataclass(slots=True)
class Block:
    """What stands in braces."""

    entries: "list[Entry]"
    remark: Remark | None  # behind the opening brace
    short: str | None  # on one line, if its author wrote it so or there is nothing in it

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.remark


@dataclass(slots=True)
class Entry:
    """A statement, or a comment on a line of its own; `is_apart` tells that a blank line precedes it."""

    content: Draft | Remark
    is_apart: bool


def draft_recipe(tree: syntax.Tree) -> list[Entry]:
    """The drafts of all statements, with the comments between them."""
    drafter = _Drafter(tree)
    end = len(tree.source.text)
    first = tree.statements[0].span.start if tree.statements else end
    return drafter.body(tree.statements, drafter.comments.take(first), 0, end)


class _Entries:
    """Grows a list of entries, looking for blank lines in the text between them."""

    def __init__(self, source: Source, start: int) -> None:
        self.text = source.text
        self.done = start
        self.list: list[Entry] = []

    def add(self, content: Draft | Remark, start: int, end: int) -> None:
        is_apart = bool(self.list) and _BLANK_LINE.search(self.text, self.done, start) is not None
        self.list.append(Entry(content, is_apart))
        self.skip(end)

    def skip(self, end: int) -> None:
        self.done = max(self.done, end)


class _Drafter:
    """Walks the tree once, in the order of the text."""

    def __init__(self, tree: syntax.Tree) -> None:
        self.source = tree.source
        self.values = ValueWriter(tree)
        self.comments = self.values.comments

    def body(
        self, statements: Sequence[syntax.AnyStatement], remarks: Sequence[Remark], start: int, end: int
    ) -> list[Entry]:
        """The entries between two offsets; `remarks` come before the first statement."""
        entries = _Entries(self.source, start)
        for remark in remarks:
            entries.add(remark, remark.span.start, remark.span.end)
        starts = [*(statement.span.start for statement in statements), end]
        for statement, following in zip(statements, starts[1:], strict=True):
            for remark in self._homeless(statement):
                entries.add(remark, statement.span.start, remark.span.end)
            draft = self.draft(statement)
            entries.add(draft, statement.span.start, statement.span.end)
            behind = self.comments.take(following)
            draft.remark = pop_trailing(behind)
            if draft.remark:
                entries.skip(draft.remark.span.end)
            for remark in behind:
                entries.add(remark, remark.span.start, remark.span.end)
        return entries.list

    def _homeless(self, statement: syntax.AnyStatement) -> list[Remark]:
        """The comments in a statement's first value that can't stay in it: they go before the statement."""
        match statement:
            case syntax.Statement(arguments=(first, *_)):
                return self.comments.take_homeless(first.span.end, first)
            case syntax.Let(value=value):
                return self.comments.take_homeless(value.span.end, value)
            case syntax.Arg(choices=choices, default=default, span=span):
                return self.comments.take_homeless(span.end, *(part for part in (choices, default) if part))
            case _:
                return []

    def draft(self, statement: syntax.AnyStatement) -> Draft:
        match statement:
            case syntax.Statement():
                return self._statement(statement)
            case syntax.Arg():
                return self._arg(statement)
            case syntax.Let(name=name, value=value):
                blanks = {0: 1, 1: self._blanks(self._find("=", name.span.end))}
                return _draft("let", [name.path, ("= ", self.values.write(value))], blanks)
            case syntax.Extends(target=target):
                return _draft("extends", [target.span.text], {0: self._blanks(target.span.start)})
            case syntax.Import(target=target, alias=alias):
                doc = f"{target.span.text} as {alias.path}" if alias else target.span.text
                return _draft("import", [doc], {0: self._blanks(target.span.start)})
            case syntax.Broken():
                raise ValueError("a recipe with mistakes in its syntax can't be formatted")
            case _:
                assert_never(statement)

    def _arg(self, node: syntax.Arg) -> Draft:
        blanks = {0: 1, 1: self._blanks(node.type.span.start)}
        cells: list[Doc | None] = [f"{node.name.path}:", node.type.path, None, None]
        if node.choices:
            cells[1] = (node.type.path, self.values.write(node.choices))
        if node.default:
            blanks[2] = self._blanks(self._find("=", (node.choices or node.type).span.end))
            cells[2] = ("= ", self.values.write(node.default))
        if node.help:
            blanks[3] = self._blanks(node.help.span.start)
            cells[3] = node.help.span.text
        return _draft("arg", cells, blanks)

    def _statement(self, node: syntax.Statement) -> Draft:
        items: list[Item] = []
        blanks = {0: self._blanks(next_token(self.source, node.name.span.end))}
        for index, argument in enumerate(node.arguments):
            remarks = self.comments.take(argument.span.start)
            if items:
                items[-1].behind = pop_trailing(remarks)
                blanks[index] = self._blanks_after_comma(node.arguments[index - 1].span.end, argument.span.start)
            remarks += self.comments.take_homeless(argument.span.end, argument) if items else []
            is_pipeline = isinstance(argument.value, syntax.Pipeline)
            items.append(Item(self.values.write(argument), is_pipeline, remarks))
        cells: list[Doc | None] = [(item.doc, ",") for item in items[:-1]]
        cells += [item.doc for item in items[-1:]]
        block = None
        if node.block:
            blanks[len(cells)] = self._blanks(node.block.span.start)
            block = self._block(node.block)
        return Draft(node.name.path, items, cells, blanks, block)

    def _block(self, node: syntax.Block) -> Block:
        span = node.span
        remarks = self.comments.take(node.statements[0].span.start if node.statements else span.end)
        behind = pop_trailing(remarks)
        entries = self.body(node.statements, remarks, span.start, span.end)
        has_remarks = behind is not None or bool(remarks)
        is_on_one_line = not has_line_end(self.source, span.start, span.end)
        may_be_short = not has_remarks and (is_on_one_line or not entries)
        return Block(entries, behind, _short(entries) if may_be_short else None)

    # -- what the author padded

    def _blanks(self, offset: int) -> int:
        return blanks_before(self.source, offset) or 0

    def _blanks_after_comma(self, start: int, end: int) -> int:
        """The blanks behind the comma between two arguments, if they are on one line."""
        if has_line_end(self.source, start, end):
            return 0
        return self._blanks(next_token(self.source, self._find(",", start) + 1))

    def _find(self, character: str, start: int) -> int:
        return self.source.text.index(character, start)


def _short(entries: Sequence[Entry]) -> str | None:
    """The statements of a block on one line, unless there is a comment among them or they can't possibly fit."""
    if not entries:
        return "{}"
    texts: list[str] = []
    for entry in entries:
        row = entry.content.row() if isinstance(entry.content, Draft) else None
        if row is None or len(texts) > WIDTH:
            return None
        texts.append(plain(row))
    text = f"{{ {'; '.join(texts)} }}"
    return text if len(text) <= WIDTH else None


def _draft(word: str, cells: list[Doc | None], blanks: dict[int, int]) -> Draft:
    """A statement that has no arguments to break between: its cells are one item."""
    parts: list[Doc] = []
    for cell in cells:
        if cell is not None:
            parts += [" ", cell] if parts else [cell]
    return Draft(word, [Item(tuple(parts), is_pipeline=False)], cells, blanks)
