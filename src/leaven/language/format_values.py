"""Values as documents: where a value may be broken over lines, which brackets it needs, and where its comments go.

A comment has its place after an opening bracket, around an item of a call or list, or around a stage of a pipeline.
One that stands elsewhere (within a sum, say) moves in front of the item it is in or, where that would change the
order of the comments, behind it. Statements and blocks are left to `formatter.py`.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import assert_never

from leaven.language import syntax
from leaven.language.pretty_printer import Break, Doc, Group, Nest, OnlyBroken, Remark
from leaven.language.source import Source

_TAB = 4  # a tab counts as padding, whatever its width in the author's editor
_LOOSEST, _SUM, _PRODUCT, _UNARY = range(4)
_STRENGTHS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_BLANKS = re.compile(r"[ \t\f]*")
_SILENCE = re.compile(r"(?:\s|#[^\n]*)*")
_LINE_END = re.compile(r"[\r\n]")


class Comments:
    """The comments of a recipe, handed out once each and in their order: none is lost, none overtakes another."""

    def __init__(self, tree: syntax.Tree) -> None:
        self.source = tree.source
        self.spans = tree.comments
        self.taken = 0

    def take(self, until: int) -> list[Remark]:
        """The next comments, as far as they begin before an offset."""
        remarks = []
        while self.taken < len(self.spans) and self.spans[self.taken].start < until:
            remarks.append(self._next())
        return remarks

    def take_homeless(self, until: int, *parts: syntax.Value | syntax.Argument) -> list[Remark]:
        """The next comments before an offset, up to the first that has a place within one of the parts."""
        remarks = []
        while self.taken < len(self.spans) and (start := self.spans[self.taken].start) < until:
            if any(_has_place(part, start) for part in parts):
                break
            remarks.append(self._next())
        return remarks

    def _next(self) -> Remark:
        span = self.spans[self.taken]
        self.taken += 1
        text = span.text.rstrip()
        if len(text) > 1 and not text[1].isspace() and text[1] not in "!#":
            text = f"# {text[1:]}"
        return Remark(text, span, blanks_before(self.source, span.start))


def pop_trailing(remarks: list[Remark]) -> Remark | None:
    """Take the first remark off the list if it may stand behind what is on its line."""
    return remarks.pop(0) if remarks and remarks[0].is_trailing else None


def blanks_before(source: Source, offset: int) -> int | None:
    """How wide the blanks before an offset are, or None if the line begins with them."""
    at = offset
    width = 0
    while at > 0 and source.text[at - 1] in " \t\f":
        at -= 1
        width += _TAB if source.text[at] == "\t" else 1
    return width if at > 0 and source.text[at - 1] not in "\r\n" else None


def next_token(source: Source, offset: int) -> int:
    """Where the next token after an offset begins."""
    found = _SILENCE.match(source.text, offset)
    assert found is not None
    return found.end()


def has_line_end(source: Source, start: int, end: int) -> bool:
    return _LINE_END.search(source.text, start, end) is not None


class ValueWriter:
    """Makes documents of values. Called for one value after another, in the order of the text."""

    def __init__(self, tree: syntax.Tree) -> None:
        self.source = tree.source
        self.comments = Comments(tree)

    def write(self, node: syntax.Value | syntax.Argument, at_least: int = _LOOSEST) -> Doc:
        """The document of a value, in brackets if it binds looser than it must."""
        match node:
            case syntax.Argument(keyword=keyword, value=value):
                return (keyword.path, "=", self.write(value)) if keyword else self.write(value)
            case syntax.Number():
                return _number(node)
            case syntax.String() | syntax.Literal():
                return node.span.text
            case syntax.Name():
                return node.path
            case syntax.Call():
                opening = next_token(self.source, node.name.span.end)
                return (node.name.path, self.bracketed("()", node.arguments, opening, node.span.end))
            case syntax.List():
                return self.bracketed("[]", node.items, node.span.start, node.span.end)
            case syntax.Pipeline():
                return self._pipeline(node, in_brackets=at_least > _LOOSEST)
            case syntax.Binary():
                doc = self._binary(node)
                return doc if _STRENGTHS[node.operator] >= at_least else ("(", doc, ")")
            case syntax.Negative():
                return self._negative(node)
            case _:
                assert_never(node)

    def bracketed(self, brackets: str, items: Sequence[syntax.Value | syntax.Argument], start: int, end: int) -> Doc:
        """The items between two brackets; `start` and `end` are where the brackets stand in the text."""
        starts = [*(item.span.start for item in items), end]
        remarks = self.comments.take(starts[0])
        has_remarks = bool(remarks)
        opening: list[Doc] = [brackets[0], pop_trailing(remarks) or ""]
        inner: list[Doc] = []
        for index, item in enumerate(items):
            remarks += self.comments.take_homeless(item.span.end, item)
            inner += _on_own_lines(remarks)
            inner += [Break(" " if index else ""), self.write(item)]
            inner.append("," if index + 1 < len(items) else OnlyBroken(","))
            following = self.comments.take(starts[index + 1])
            has_remarks = has_remarks or bool(remarks or following)
            inner.append(pop_trailing(following) or "")
            remarks = following
        inner += _on_own_lines(remarks)
        if not items and not has_remarks:
            return brackets
        is_broken = has_remarks or bool(items and self._ends_line(start + 1))
        return Group((*opening, Nest(tuple(inner)), Break(), brackets[1]), is_broken)

    def _ends_line(self, offset: int) -> bool:
        blanks = _BLANKS.match(self.source.text, offset)
        assert blanks is not None
        return has_line_end(self.source, blanks.end(), blanks.end() + 1)

    def _pipeline(self, node: syntax.Pipeline, in_brackets: bool) -> Doc:
        parts: list[Doc] = [self.write(node.stages[0], _SUM)]
        is_broken = False
        for before, stage in pairwise(node.stages):
            remarks = self.comments.take(stage.span.start)
            is_broken = is_broken or bool(remarks) or has_line_end(self.source, before.span.end, stage.span.start)
            parts.append(pop_trailing(remarks) or "")
            remarks += self.comments.take_homeless(stage.span.end, stage)
            is_broken = is_broken or bool(remarks)
            parts += [*_on_own_lines(remarks), Break(" "), "-> ", self.write(stage, _SUM)]
        if in_brackets:
            return Group(("(", Nest((Break(), *parts)), Break(), ")"), is_broken)
        return Group(Nest(tuple(parts)), is_broken)

    def _binary(self, node: syntax.Binary) -> Doc:
        """A chain such as `a * b - c`, read from its far left without descending into it."""
        chain = [node]
        while isinstance(left := chain[-1].left, syntax.Binary):
            if _STRENGTHS[left.operator] < _STRENGTHS[chain[-1].operator]:
                break
            chain.append(left)
        parts = [self.write(chain[-1].left, _STRENGTHS[chain[-1].operator])]
        for link in reversed(chain):
            parts += [f" {link.operator} ", self.write(link.right, _STRENGTHS[link.operator] + 1)]
        return tuple(parts)

    def _negative(self, node: syntax.Negative) -> Doc:
        signs, value = "-", node.value
        while isinstance(value, syntax.Negative):
            signs, value = signs + "-", value.value
        return (signs, self.write(value, _UNARY))


def _on_own_lines(remarks: list[Remark]) -> list[Doc]:
    return [part for remark in remarks for part in (Break(), remark.text)]


def _number(node: syntax.Number) -> str:
    """The digits as the author wrote them; capital units and `%` stick to them, words stand apart."""
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
