"""Which names a piece of Python takes from the module around it, and where in the text they stand.

Only Python's own rules of scopes are decided here; what a name stands for is the reader's business.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Reference:
    """A name from outside with the attributes that follow it, `progress.say`; `ends` says where each of them ends."""

    path: tuple[str, ...]
    start: int
    ends: tuple[int, ...]


class Positions:
    """Where nodes stand, as numbers of bytes from the beginning of a text."""

    def __init__(self, text: bytes) -> None:
        self._lines = [0, *accumulate(len(line) for line in text.splitlines(keepends=True))]

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def line(self, number: int) -> int:
        """Where a line begins, the first being number 1."""
        return self._lines[number - 1]


class Names(ast.NodeVisitor):
    """Reads statements of a module: `taken` are the names from outside, `bound` those that functions in them bind.

    The name of a function or class that stands in the module itself is taken from it, too.
    """

    def __init__(self, positions: Positions) -> None:
        self.taken: list[Reference] = []
        self.bound: set[str] = set()
        self._positions = positions
        self._scopes: list[frozenset[str]] = []
        self._class: frozenset[str] = frozenset()  # seen by the statements of a class, not by its methods
        self._in_annotation = False

    # -- names

    def visit_Name(self, node: ast.Name) -> None:
        self._take(node, ())

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes: list[ast.Attribute] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self._take(inner, attributes)
        else:
            self.visit(inner)

    def _take(self, name: ast.Name, attributes: Iterable[ast.Attribute]) -> None:
        if name.id in self._class or any(name.id in scope for scope in self._scopes):
            return
        path = (name.id, *(each.attr for each in attributes))
        ends = (self._positions.end(name), *(self._positions.end(each) for each in attributes))
        self.taken.append(Reference(path, self._positions.start(name), ends))

    # -- annotations, which may be texts

    def visit_arg(self, node: ast.arg) -> None:
        self._annotation(node.annotation)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        self._annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def _annotation(self, node: ast.expr | None) -> None:
        if node is not None:
            before, self._in_annotation = self._in_annotation, True
            self.visit(node)
            self._in_annotation = before

    def visit_Subscript(self, node: ast.Subscript) -> None:
        is_literal = isinstance(node.value, ast.Name) and node.value.id == "Literal"
        self.visit(node.value)
        before, self._in_annotation = self._in_annotation, self._in_annotation and not is_literal
        self.visit(node.slice)
        self._in_annotation = before

    def visit_Constant(self, node: ast.Constant) -> None:
        if not self._in_annotation or not isinstance(node.value, str):
            return
        inner = ast.parse(node.value, mode="eval").body
        for each in ast.walk(inner):
            if isinstance(each, ast.expr):
                assert each.end_col_offset is not None
                each.lineno = each.end_lineno = node.lineno
                each.col_offset += node.col_offset + 1  # after the quote
                each.end_col_offset += node.col_offset + 1
        self.visit(inner)

    # -- scopes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: _Function) -> None:
        self._own_name(node, "async def " if isinstance(node, ast.AsyncFunctionDef) else "def ")
        self._visit_all(node.decorator_list)
        self._arguments(node.args)
        self._annotation(node.returns)
        self._inside({*_arguments(node.args), *bindings(node.body)}, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._arguments(node.args)
        self._inside(set(_arguments(node.args)), [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._own_name(node, "class ")
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        before, self._class = self._class, frozenset(bindings(node.body))
        self._visit_all(node.body)
        self._class = before

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node, [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, [node.key, node.value])

    def _comprehension(self, node: _Comprehension, results: list[ast.expr]) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        names = set(bindings([each.target for each in node.generators]))
        inner = [*first.ifs, *(part for each in others for part in (each.iter, *each.ifs)), *results]
        self._inside(names, inner)

    def _inside(self, names: set[str], nodes: Iterable[ast.AST]) -> None:
        self.bound |= names
        before, self._class = self._class, frozenset()
        self._scopes.append(frozenset(names))
        self._visit_all(nodes)
        self._scopes.pop()
        self._class = before

    def _arguments(self, arguments: ast.arguments) -> None:
        """Defaults and annotations, which are read outside of the function."""
        self.visit(arguments)

    def _own_name(self, node: _Function | ast.ClassDef, keyword: str) -> None:
        if not self._scopes and not self._class:
            start = self._positions.start(node) + len(keyword)
            self.taken.append(Reference((node.name,), start, (start + len(node.name.encode()),)))

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def bindings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements bind in the scope that they stand in."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from (each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=short):
                yield short or name.partition(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
        yield from bindings(ast.iter_child_nodes(node))


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    return (each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg))
