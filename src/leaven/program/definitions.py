"""The definitions that a standalone program brings along, copied as text: functions, classes and constants.

Modules of this package are read, never imported. A definition comes with all that it names. What the room `plain`
defines takes the place of a definition of the same name in the rest of the training half. Of a class, methods that
nothing in the program names are left out, and so are attributes with a default in `plain`; libraries call only
`forward`, and methods of classes that are derived from theirs, and those are complete.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
PLAIN = "leaven.plain"
_HELPERS = (  # in the order in which they are written
    *("failures", "seeding", "samples", "tables", "python_datasets", "named_datasets", "splits", "batches"),
    *("texts", "masks", "model", "freezing", "schedules", "run", "scoring", "batch_norm", "teacher"),
)
_PLAIN_MODULES = tuple(f"{PLAIN}.{name}" for name in _HELPERS)
_REPLACED = ("runtime", "tasks", "techniques")  # the rooms whose definitions those of `plain` stand in for
_OPEN_BASES = {"Dataset", "Exception", "NamedTuple", "Protocol", "SystemExit"}  # call nothing but methods with __


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, class or constant of a module, with the comments and decorators above it."""

    module: str
    name: str
    lines: tuple[str, ...]

    @property
    def is_block(self) -> bool:
        return not self.lines[-1].startswith((f"{self.name} =", f"{self.name}:")) and len(self.lines) > 1


@dataclass(frozen=True, slots=True)
class Module:
    """The definitions and imports of a module of this package, by name."""

    name: str
    imports: dict[str, tuple[str, str]]  # module and name there; the name is empty for a whole module
    definitions: dict[str, Definition]


@dataclass(frozen=True, slots=True)
class Copied:
    """Definitions, each after those that it uses, and the imports of other libraries that they need."""

    definitions: tuple[Definition, ...]
    imports: tuple[tuple[str, str, str], ...]  # module, name there (empty for the module), name here


@lru_cache(maxsize=8)  # a program is written twice
def copied(targets: tuple[str, ...], program: str, without: frozenset[str], is_whole: bool) -> Copied:
    """The definitions that a program with this text needs to use these functions and classes.

    The modules of `plain` in `without` stand in for nothing. With `is_whole`, classes of `plain` are complete: the
    user's code may use any of their methods.
    """
    named = frozenset(_named(ast.parse(program)))
    while True:
        found = _Copying(without, named, is_whole)
        for target in targets:
            found.add(find(target, without))
        if found.named <= named:
            names = [definition.name for definition in found.written.values()]
            assert len(set(names)) == len(names), f"one name for two definitions: {sorted(names)}"
            return Copied(tuple(found.in_order()), tuple(sorted(found.imports)))
        named |= found.named


def find(target: str, without: Collection[str] = ()) -> Definition:
    """The definition of that full name: the plain one if there is one."""
    module, _, name = target.rpartition(".")
    if module.split(".")[1] in _REPLACED and (plain := plain_definition(name, without)) is not None:
        return plain
    while name not in (read := read_module(module)).definitions:
        module, name = read.imports[name] if name in read.imports else (read.imports["*"][0], name)
    return read.definitions[name]


def plain_definition(name: str, without: Collection[str] = ()) -> Definition | None:
    """The definition of that name in the room `plain`."""
    modules = (read_module(module) for module in _PLAIN_MODULES if module not in without)
    return next((module.definitions[name] for module in modules if name in module.definitions), None)


class _Copying:
    """Definitions with all that they use."""

    def __init__(self, without: frozenset[str], named: frozenset[str], is_whole: bool) -> None:
        self.written: dict[Definition, Definition] = {}  # as it is in its module, and as it is written
        self.imports: set[tuple[str, str, str]] = set()
        self.named: set[str] = set()
        self._without, self._needed, self._is_whole = without, named, is_whole
        self._uses: dict[str, dict[str, None]] = {}  # which modules each uses

    def add(self, found: Definition) -> None:
        if found in self.written:
            return
        module = read_module(found.module)
        self.written[found] = Definition(found.module, found.name, tuple(self._lines(found, module)))
        tree = ast.parse("\n".join(self.written[found].lines))
        self.named |= set(_named(tree))
        uses = self._uses.setdefault(found.module, {})
        for name in sorted(_names_used(tree)):
            if name in module.definitions:
                self.add(find(f"{module.name}.{name}", self._without))
            elif (imported := module.imports.get(name)) is not None:
                if imported[0].partition(".")[0] == "leaven":
                    used = find(".".join(imported), self._without)
                    uses.setdefault(used.module)
                    self.add(used)
                else:
                    self.imports.add((*imported, name))

    def in_order(self) -> Iterator[Definition]:
        """The definitions, each module after those that it uses."""
        plain = [name for name in _PLAIN_MODULES if name in self._uses]
        for name in dict.fromkeys(each for module in (*plain, *self._uses) for each in self._after(module)):
            yield from (self.written[one] for one in read_module(name).definitions.values() if one in self.written)

    def _after(self, module: str) -> Iterator[str]:
        for used in self._uses[module]:
            if used != module:
                yield from self._after(used)
        yield module

    # -- members of classes

    def _lines(self, found: Definition, module: Module) -> list[str]:
        """The lines of a definition, without those of members that nothing names."""
        lines = list(found.lines)
        (node,) = ast.parse("\n".join(lines)).body
        is_plain = found.module.startswith(PLAIN)
        if isinstance(node, ast.ClassDef) and not (is_plain and self._is_whole) and _is_ours(node, module):
            for member in reversed(node.body):
                has_default = is_plain and getattr(member, "value", None) is not None  # an attribute
                name = _defined(member)
                is_optional = bool(name) and (has_default or isinstance(member, ast.FunctionDef))
                if is_optional and not name.startswith("__") and name not in {"forward", *self._needed}:
                    first, end = _first_line(member, lines), member.end_lineno or len(lines)
                    is_followed = bool("".join(lines[end : end + 1]).strip())  # in a group
                    while not is_followed and not lines[first - 2].strip():
                        first -= 1
                    del lines[first - 1 : end]
        return lines


def _is_ours(node: ast.ClassDef, module: Module) -> bool:
    """Whether no library calls methods of a class by their names."""
    bases = {getattr(base.value if isinstance(base, ast.Subscript) else base, "id", "") for base in node.bases}
    own = {name for name in bases if name in module.definitions or module.imports.get(name, ("",))[0][:7] == "leaven."}
    return all(_is_ours(*_class(name, module)) for name in own - _OPEN_BASES) and bases <= own | _OPEN_BASES


def _class(name: str, module: Module) -> tuple[ast.ClassDef, Module]:
    """The class of that name in a module."""
    found = module.definitions.get(name) or find(".".join(module.imports[name]))
    (node,) = ast.parse("\n".join(found.lines)).body
    assert isinstance(node, ast.ClassDef)
    return node, read_module(found.module)


# -- modules


@cache
def read_module(name: str) -> Module:
    """A module of this package."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    definitions = {}
    for node in tree.body:
        if defined := _defined(node):
            written = tuple(lines[_first_line(node, lines) - 1 : node.end_lineno])
            definitions[defined] = Definition(name, defined, written)
    return Module(name, dict(_imports_of(tree)), definitions)


def _defined(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _first_line(node: ast.stmt, lines: Sequence[str]) -> int:
    """The line where a definition begins, with its decorators and the comments above it."""
    first: int = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    while first > 1 and lines[first - 2].lstrip().startswith("#") and not lines[first - 2].startswith("# --"):
        first -= 1
    return first


def _imports_of(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """The imports of a module, those for type checkers among them."""
    statements = [each for node in tree.body for each in (node.body if isinstance(node, ast.If) else [node])]
    for node in statements:
        match node:
            case ast.Import(names=names):
                yield from ((alias.asname or alias.name, (alias.name, "")) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((alias.asname or alias.name, (module, alias.name)) for alias in names)


# -- names


def _named(tree: ast.AST) -> Iterator[str]:
    """The names of attributes and keyword arguments: the members of a class that something needs."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name


def _names_used(tree: ast.Module) -> set[str]:
    """All names in a definition, those in quoted annotations among them."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        annotation = node.annotation if isinstance(node, ast.arg | ast.AnnAssign) else getattr(node, "returns", None)
        for quoted in ast.walk(annotation) if annotation is not None else ():
            if isinstance(quoted, ast.Constant) and isinstance(quoted.value, str):
                names |= {part.id for part in ast.walk(ast.parse(quoted.value)) if isinstance(part, ast.Name)}
    return names
