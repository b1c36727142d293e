"""The source of Leaven's own modules as definitions that can be taken out one by one.

Decides what a name in a module stands for: a definition there or in another module of Leaven's, something of another
library, or neither. Nothing is imported or run.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leaven.program.scopes import Names, Positions, Reference

PACKAGE = "leaven"
LAZY = "leaven.tasks."  # packages that import their code when it is first used
SECTION = b"# --"  # begins a comment that divides a module
# where there is no Leaven, people type other commands
INSTEAD = {"leaven.runtime.run.commands": "leaven.runtime.run.commands_alone"}


@dataclass(frozen=True, slots=True)
class External:
    """Something of another library, and the name it is imported under. `import a.b` makes known `a`."""

    module: str
    name: str | None
    known_as: str

    def line(self, known_as: str) -> str:
        """The import that makes it known by a name."""
        what = f"from {self.module} import {self.name}" if self.name else f"import {self.module}"
        return what if known_as == (self.name or self.module) else f"{what} as {known_as}"


@dataclass(frozen=True, slots=True)
class Own:
    """A name that a module of Leaven's defines."""

    module: str
    name: str


Symbol = External | Own
Change = tuple[int, int, str]  # from where to where, and what is to stand there


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A statement that defines something, with the comments above it; or a program as a whole."""

    module: "Module"
    start: int
    end: int
    taken: tuple[Reference, ...]
    bound: frozenset[str]
    is_block: bool  # a function or class, not a constant

    def text(self, changes: Iterable[Change]) -> str:
        """Its source, changed at some places."""
        return changed(self.module.text[: self.end], changes, self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A module's text, what it imports under which name, and what it defines."""

    name: str
    text: bytes
    imports: dict[str, External]
    whole: frozenset[str]  # the modules that it imports as a whole: `import timm.optim`
    loads: tuple[tuple[str, str], ...]  # what it takes of Leaven's modules when it is loaded: module, name
    definitions: dict[str, Definition]


def read_module(name: str, source: str) -> Module:
    """A module from its text."""
    text = source.encode()
    tree = ast.parse(text)
    whole = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    loaded = _imports(tree) if name.startswith(LAZY) else tree.body
    taken = [node for node in loaded if isinstance(node, ast.ImportFrom) and is_leavens(node.module or "")]
    module = Module(
        name,
        text,
        {external.known_as: external for node in _imports(tree) for external in _externals(node)},
        frozenset(whole),
        tuple((node.module or "", alias.name) for node in taken for alias in node.names),
        {},
    )
    positions, lines = Positions(text), text.splitlines()
    for node in tree.body:
        module.definitions.update((name, _definition(node, module, positions, lines)) for name in _defined(node))
    return module


def _definition(node: ast.stmt, module: Module, positions: Positions, lines: Sequence[bytes]) -> Definition:
    """A statement from the comments above it, or its decorators, to its last line."""
    names = Names(positions)
    names.visit(node)
    assert node.end_lineno is not None
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    while first > 1 and lines[first - 2].startswith(b"#") and not lines[first - 2].startswith(SECTION):
        first -= 1
    start, end = positions.line(first), positions.line(node.end_lineno + 1)
    is_block = not isinstance(node, ast.Assign | ast.AnnAssign)
    return Definition(module, start, end, tuple(names.taken), frozenset(names.bound), is_block)


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a module, those for type checkers among them."""
    for node in tree.body:
        statements = node.body if isinstance(node, ast.If) else [node]
        yield from (each for each in statements if isinstance(each, ast.Import | ast.ImportFrom))


def _externals(node: ast.Import | ast.ImportFrom) -> Iterator[External]:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield External(node.module or "", alias.name, alias.asname or alias.name)
        elif alias.asname:
            yield External(alias.name, None, alias.asname)
        else:
            root = alias.name.partition(".")[0]
            yield External(root, None, root)


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def changed(text: bytes, changes: Iterable[Change], first: int = 0) -> str:
    """A text from some place on, changed."""
    pieces, at = [], first
    for start, end, new in sorted(changes):
        pieces += [text[at:start], new.encode()]
        at = end
    return b"".join([*pieces, text[at:]]).decode()


def is_leavens(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


class Package:
    """Leaven's modules, read when they are asked for."""

    def __init__(self) -> None:
        self._folder = Path(__file__).parents[1]
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """A module by its name; None where there is none."""
        if name not in self._modules:
            place = self._folder.joinpath(*INSTEAD.get(name, name).split(".")[1:])
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            self._modules[name] = read_module(name, file.read_text(encoding="utf-8")) if file.is_file() else None
        return self._modules[name]

    def definition(self, symbol: Own) -> Definition:
        module = self.module(symbol.module)
        assert module is not None
        return module.definitions[symbol.name]

    def find(self, module: Module, path: Sequence[str]) -> tuple[Symbol, int] | None:
        """What a name in a module stands for, and how many parts of the path it takes to say so."""
        imported = module.imports.get(path[0])
        if imported is None:
            return (Own(module.name, path[0]), 1) if path[0] in module.definitions else None
        if not is_leavens(imported.module):
            return imported, 1
        owner, name, used = imported.module, imported.name, 1
        while True:
            above = self.module(owner)
            if above is None or name is None:
                raise LookupError(f"{module.name} uses {'.'.join(path)}, which is no definition")
            found = self.find(above, [name])
            if found is not None:
                return found[0], used
            owner, name = f"{owner}.{name}", path[used] if used < len(path) else None
            used += 1

    def in_order(self, first: Module) -> list[Module]:
        """The modules that one needs, each after those that it needs itself."""
        found: dict[str, Module] = {}

        def add(module: Module) -> None:
            for owner, name in module.loads:
                above = self.module(f"{owner}.{name}") or self.module(owner)
                if above is not None and above.name not in found:
                    add(above)
            found[module.name] = module

        add(first)
        return list(found.values())
