"""Statements as documents, before it is known which lines they take.

Decides where each comment and blank line goes, and records how the author padded. The tree is walked once, in source
order. The lines are made in `formatter.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from leaven.language import syntax
from leaven.language.alignment import Row, join
from leaven.language.format_values import ValueFormatter, has_line_end, next_token, pop_trailing, spaces_before
from leaven.language.pretty_printer import WIDTH, Comment, Doc, flat

_BLANK_LINE = re.compile(r"(?>\r\n|\n|\r)[ \t\f]*[\r\n]")


@dataclass(slots=True)
class ArgumentDoc:
    """An argument, the comments on the lines before it, and the one after it."""

    doc: Doc
    is_pipeline: bool
    before: list[Comment] = field(default_factory=list)
    trailing: Comment | None = None


@dataclass(slots=True)
class StatementDoc:
    """A statement: its name, its arguments, and the cells that are aligned with those of its neighbours."""

    name: str
    arguments: list[ArgumentDoc]
    cells: list[Doc | None]
    spaces: dict[int, int]  # that the author put before each cell; the block counts as the last one
    block: "BlockDoc | None" = None
    comment: Comment | None = None

    def row(self, width: int = 0) -> Row | None:
        """The cells on one line, the first after the name in `width` columns; None if the statement needs several."""
        cells = [None if cell is None else flat(cell) for cell in self.cells]
        if any(cell is not None and text is None for cell, text in zip(self.cells, cells, strict=True)):
            return None
        if any(argument.before or argument.trailing for argument in self.arguments):
            return None
        if self.block and not self.block.short:
            return None
        start = [f"{self.name:{width}} {cells[0]}", *cells[1:]] if cells else [self.name]
        return [*start, self.block.short if self.block else None]


@dataclass(slots=True)
class BlockDoc:
    """The content of braces."""

    entries: "list[Entry]"
    comment: Comment | None  # after the opening brace
    short: str | None  # on one line, if its author wrote it so or it is empty


@dataclass(slots=True)
class Entry:
    """A statement, or a comment on its own line."""

    content: StatementDoc | Comment
    is_after_blank_line: bool


def recipe_entries(tree: syntax.Tree) -> list[Entry]:
    """All statements, with the comments between them."""
    formatter = _StatementFormatter(tree)
    end = len(tree.source.text)
    first = tree.statements[0].span.start if tree.statements else end
    return formatter.body(tree.statements, formatter.values.take_comments(first), 0, end)


class _StatementFormatter:
    """Walks the tree once, in source order."""

    def __init__(self, tree: syntax.Tree) -> None:
        self.source = tree.source
        self.values = ValueFormatter(tree)

    def body(
        self, statements: Sequence[syntax.AnyStatement], comments: Sequence[Comment], start: int, end: int
    ) -> list[Entry]:
        """The entries between two offsets; `comments` come before the first statement."""
        contents: list[tuple[StatementDoc | Comment, int, int]]  # each with its start and end
        contents = [(comment, comment.span.start, comment.span.end) for comment in comments]
        starts = [*(statement.span.start for statement in statements), end]
        for statement, following in zip(statements, starts[1:], strict=True):
            first, last = statement.span.start, statement.span.end
            contents += [(comment, first, comment.span.end) for comment in self._unplaced(statement)]
            doc = self._statement(statement)
            after = self.values.take_comments(following)
            doc.comment = pop_trailing(after)
            contents.append((doc, first, max(last, doc.comment.span.end) if doc.comment else last))
            contents += [(comment, comment.span.start, comment.span.end) for comment in after]
        entries: list[Entry] = []
        for content, first, last in contents:
            has_blank_line = bool(entries) and _BLANK_LINE.search(self.source.text, start, first) is not None
            entries.append(Entry(content, has_blank_line))
            start = max(start, last)
        return entries

    def _unplaced(self, statement: syntax.AnyStatement) -> list[Comment]:
        """The comments in a statement's first value that have no place there: they go before the statement."""
        match statement:
            case syntax.Statement(arguments=(first, *_)):
                return self.values.take_comments(first.span.end, first)
            case syntax.Let(value=value):
                return self.values.take_comments(value.span.end, value)
            case syntax.Arg(choices=choices, default=default, span=span):
                return self.values.take_comments(span.end, *(part for part in (choices, default) if part))
            case _:
                return []

    def _statement(self, statement: syntax.AnyStatement) -> StatementDoc:
        match statement:
            case syntax.Statement():
                return self._plain_statement(statement)
            case syntax.Arg():
                return self._arg(statement)
            case syntax.Let(name=name, value=value):
                spaces = {0: 1, 1: self._spaces(self._find("=", name.span.end))}
                return _keyword_statement("let", [name.path, ("= ", self.values.format(value))], spaces)
            case syntax.Extends(target=target):
                return _keyword_statement("extends", [target.span.text], {0: self._spaces(target.span.start)})
            case syntax.Import(target=target, alias=alias):
                doc = f"{target.span.text} as {alias.path}" if alias else target.span.text
                return _keyword_statement("import", [doc], {0: self._spaces(target.span.start)})
            case syntax.Broken():
                raise ValueError("a recipe with syntax errors can't be formatted")
            case _:
                assert_never(statement)

    def _arg(self, node: syntax.Arg) -> StatementDoc:
        spaces = {0: 1, 1: self._spaces(node.type.span.start)}
        cells: list[Doc | None] = [f"{node.name.path}:", node.type.path, None, None]
        if node.choices:
            cells[1] = (node.type.path, self.values.format(node.choices))
        if node.default:
            spaces[2] = self._spaces(self._find("=", (node.choices or node.type).span.end))
            cells[2] = ("= ", self.values.format(node.default))
        if node.help:
            spaces[3] = self._spaces(node.help.span.start)
            cells[3] = node.help.span.text
        return _keyword_statement("arg", cells, spaces)

    def _plain_statement(self, node: syntax.Statement) -> StatementDoc:
        arguments: list[ArgumentDoc] = []
        spaces = {0: self._spaces(next_token(self.source, node.name.span.end))}
        for index, argument in enumerate(node.arguments):
            comments = self.values.take_comments(argument.span.start)
            if arguments:
                arguments[-1].trailing = pop_trailing(comments)
                end, start = node.arguments[index - 1].span.end, argument.span.start
                if not has_line_end(self.source, end, start):
                    spaces[index] = self._spaces(next_token(self.source, self._find(",", end) + 1))
                comments += self.values.take_comments(argument.span.end, argument)
            is_pipeline = isinstance(argument.value, syntax.Pipeline)
            arguments.append(ArgumentDoc(self.values.format(argument), is_pipeline, comments))
        cells: list[Doc | None] = [(argument.doc, ",") for argument in arguments[:-1]]
        cells += [argument.doc for argument in arguments[-1:]]
        block = None
        if node.block:
            spaces[len(cells)] = self._spaces(node.block.span.start)
            block = self._block(node.block)
        return StatementDoc(node.name.path, arguments, cells, spaces, block)

    def _block(self, node: syntax.Block) -> BlockDoc:
        span = node.span
        comments = self.values.take_comments(node.statements[0].span.start if node.statements else span.end)
        trailing = pop_trailing(comments)
        entries = self.body(node.statements, comments, span.start, span.end)
        has_comments = trailing is not None or bool(comments)
        is_on_one_line = not has_line_end(self.source, span.start, span.end)
        may_be_short = not has_comments and (is_on_one_line or not entries)
        return BlockDoc(entries, trailing, _short(entries) if may_be_short else None)

    # -- how the author padded

    def _spaces(self, offset: int) -> int:
        return spaces_before(self.source, offset) or 0

    def _find(self, character: str, start: int) -> int:
        return self.source.text.index(character, start)


def _short(entries: Sequence[Entry]) -> str | None:
    """The statements of a block on one line, unless there is a comment among them or they are too long."""
    if not entries:
        return "{}"
    texts: list[str] = []
    for entry in entries:
        row = entry.content.row() if isinstance(entry.content, StatementDoc) else None
        if row is None or len(texts) > WIDTH:
            return None
        texts.append(join(row))
    text = f"{{ {'; '.join(texts)} }}"
    return text if len(text) <= WIDTH else None


def _keyword_statement(name: str, cells: list[Doc | None], spaces: dict[int, int]) -> StatementDoc:
    """A statement that is not broken between its cells: they are one argument."""
    parts: list[Doc] = []
    for cell in cells:
        if cell is not None:
            parts += [" ", cell] if parts else [cell]
    return StatementDoc(name, [ArgumentDoc(tuple(parts), is_pipeline=False)], cells, spaces)
