"""Values as documents: where a value may break, which parentheses it needs, and where its comments go.

A comment has a place after an opening bracket, around an item of a call or list, and around a stage of a pipeline. A
comment elsewhere (within a sum, say) moves before the item it is in or, if that would change the order of the comments,
after it. Statements and blocks are left to `format_statements.py`.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import assert_never

from leaven.language import syntax
from leaven.language.pretty_printer import Break, Comment, Doc, Group, IfBroken, Indent
from leaven.language.source import Source

_TAB = 4  # spaces that a tab counts for, whatever its width in the author's editor
_LOWEST, _SUM, _PRODUCT, _UNARY = range(4)
_PRECEDENCE = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_SPACES_AND_COMMENTS = re.compile(r"(?:\s|#[^\n]*)*")
_REST_OF_LINE_IS_EMPTY = re.compile(r"[ \t\f]*[\r\n]")
_LINE_END = re.compile(r"[\r\n]")


def pop_trailing(comments: list[Comment]) -> Comment | None:
    """Remove and return the first comment if it follows something on its line."""
    return comments.pop(0) if comments and comments[0].spaces is not None else None


def spaces_before(source: Source, offset: int) -> int | None:
    """How many spaces are before an offset, or None if the line starts with them."""
    at = offset
    width = 0
    while at > 0 and source.text[at - 1] in " \t\f":
        at -= 1
        width += _TAB if source.text[at] == "\t" else 1
    return width if at > 0 and source.text[at - 1] not in "\r\n" else None


def next_token(source: Source, offset: int) -> int:
    """Where the next token after an offset starts."""
    found = _SPACES_AND_COMMENTS.match(source.text, offset)
    assert found is not None
    return found.end()


def has_line_end(source: Source, start: int, end: int) -> bool:
    return _LINE_END.search(source.text, start, end) is not None


class ValueFormatter:
    """Makes documents of values. Must be called in source order, which is that of the comments."""

    def __init__(self, tree: syntax.Tree) -> None:
        self.source = tree.source
        self.comments = tree.comments
        self.taken = 0

    def take_comments(self, until: int, *parts: syntax.Value | syntax.Argument) -> list[Comment]:
        """The next comments that start before an offset, up to the first that has a place in one of the parts.

        Each is taken once and in order, so that none is lost and none changes places.
        """
        comments = []
        while self.taken < len(self.comments) and (span := self.comments[self.taken]).start < until:
            if any(_has_place(part, span.start) for part in parts):
                break
            self.taken += 1
            text = span.text.rstrip()
            if len(text) > 1 and not text[1].isspace() and text[1] not in "!#":
                text = f"# {text[1:]}"
            comments.append(Comment(text, span, spaces_before(self.source, span.start)))
        return comments

    def format(self, node: syntax.Value | syntax.Argument, precedence: int = _LOWEST) -> Doc:
        """The document of a value, in parentheses if its own precedence is lower."""
        match node:
            case syntax.Argument(keyword=keyword, value=value):
                return (keyword.path, "=", self.format(value)) if keyword else self.format(value)
            case syntax.Number():
                return _number(node)
            case syntax.String() | syntax.Literal():
                return node.span.text
            case syntax.Name():
                return node.path
            case syntax.Call():
                opening = next_token(self.source, node.name.span.end)
                return (node.name.path, self._bracketed("()", node.arguments, opening, node.span.end))
            case syntax.List():
                return self._bracketed("[]", node.items, node.span.start, node.span.end)
            case syntax.Pipeline():
                return self._pipeline(node, in_parentheses=precedence > _LOWEST)
            case syntax.Binary():
                doc = self._binary(node)
                return doc if _PRECEDENCE[node.operator] >= precedence else ("(", doc, ")")
            case syntax.Negative(value=value):
                signs = "-"
                while isinstance(value, syntax.Negative):
                    signs, value = signs + "-", value.value
                return (signs, self.format(value, _UNARY))
            case _:
                assert_never(node)

    def _bracketed(self, brackets: str, items: Sequence[syntax.Value | syntax.Argument], start: int, end: int) -> Doc:
        """The items between two brackets, which are at the offsets `start` and `end`."""
        starts = [*(item.span.start for item in items), end]
        comments = self.take_comments(starts[0])
        has_comments = bool(comments)
        opening: list[Doc] = [brackets[0], pop_trailing(comments) or ""]
        inner: list[Doc] = []
        for index, item in enumerate(items):
            comments += self.take_comments(item.span.end, item)
            inner += _on_own_lines(comments)
            inner += [Break(" " if index else ""), self.format(item)]
            inner.append("," if index + 1 < len(items) else IfBroken(","))
            following = self.take_comments(starts[index + 1])
            has_comments = has_comments or bool(comments or following)
            inner.append(pop_trailing(following) or "")
            comments = following
        inner += _on_own_lines(comments)
        if not items and not has_comments:
            return brackets
        is_broken = has_comments or bool(items and _REST_OF_LINE_IS_EMPTY.match(self.source.text, start + 1))
        return Group((*opening, Indent(tuple(inner)), Break(), brackets[1]), is_broken)

    def _pipeline(self, node: syntax.Pipeline, in_parentheses: bool) -> Doc:
        parts: list[Doc] = [self.format(node.stages[0], _SUM)]
        is_broken = False
        for before, stage in pairwise(node.stages):
            comments = self.take_comments(stage.span.start)
            is_broken = is_broken or bool(comments) or has_line_end(self.source, before.span.end, stage.span.start)
            parts.append(pop_trailing(comments) or "")
            comments += self.take_comments(stage.span.end, stage)
            is_broken = is_broken or bool(comments)
            parts += [*_on_own_lines(comments), Break(" "), "-> ", self.format(stage, _SUM)]
        if in_parentheses:
            return Group(("(", Indent((Break(), *parts)), Break(), ")"), is_broken)
        return Group(Indent(tuple(parts)), is_broken)

    def _binary(self, node: syntax.Binary) -> Doc:
        """A chain such as `a * b - c`, from left to right and without recursion."""
        chain = [node]
        while isinstance(left := chain[-1].left, syntax.Binary):
            if _PRECEDENCE[left.operator] < _PRECEDENCE[chain[-1].operator]:
                break
            chain.append(left)
        parts = [self.format(chain[-1].left, _PRECEDENCE[chain[-1].operator])]
        for link in reversed(chain):
            parts += [f" {link.operator} ", self.format(link.right, _PRECEDENCE[link.operator] + 1)]
        return tuple(parts)


def _on_own_lines(comments: list[Comment]) -> list[Doc]:
    return [part for comment in comments for part in (Break(), comment.text)]


def _number(node: syntax.Number) -> str:
    """The digits as the author wrote them; no space before `%` and units in capitals, one before other units."""
    if node.unit is None:
        return node.span.text
    digits = re.match(r"[^\s#]+", node.span.text[: -len(node.unit)])
    assert digits is not None
    is_symbol = node.unit == "%" or re.fullmatch("[A-Z]+", node.unit)
    return f"{digits.group()}{'' if is_symbol else ' '}{node.unit}"


def _has_place(node: syntax.Value | syntax.Argument, offset: int) -> bool:
    """Whether a comment at an offset in this node is in a bracket or a pipeline that will write it."""
    while True:
        match node:
            case syntax.Argument() | syntax.Negative():
                node = node.value
            case syntax.Binary():
                if node.left.span.end <= offset < node.right.span.start:
                    return False
                node = node.left if offset < node.left.span.end else node.right
            case syntax.Pipeline():
                if node.stages[0].span.end <= offset < node.span.end:
                    return True
                node = node.stages[0]
            case syntax.Call(name=name, span=span):
                return next_token(span.source, name.span.end) < offset < span.end
            case syntax.List(span=span):
                return span.start < offset < span.end
            case _:
                return False
