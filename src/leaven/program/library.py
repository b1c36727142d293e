"""The definitions that a standalone program brings along: plain helpers, techniques, components.

They are read as text from the modules of this package, never imported: helpers from `runtime/plain`, everything else
from the module that a program would import it from. Decides which definitions a program needs, and which of their
lines: a comment at the end of a line says when it is written (see `runtime/plain/__init__.py`).
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from leaven.program.code import WIDTH

PACKAGE = Path(__file__).parents[1]
PLAIN = "leaven.runtime.plain"
HELPERS = (  # in the order in which they are written
    *("failures", "seeding", "datasets", "texts", "named_datasets", "masks", "splits", "batches", "model", "freezing"),
    *("schedules", "run", "scoring", "batch_norm", "targets"),
)
SIMPLE = {f"{PLAIN}.freezing": "simple_freezing", f"{PLAIN}.schedules": "simple_cosine"}  # enough for these traits
OF_TASK = ("measured", "as_moved", "as_target", "add_decoder", "replace_classifiers")  # what helpers call of the task's
_MARK = re.compile(r"  #: (?:if (?P<traits>.+)|(?P<used>used))$")
_FUNCTION = re.compile(r"\s*def (\w+)\(")
_MEMBER = re.compile(r"\s*(?:def |self\.)(\w+)")


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
    """What a module of this package defines and imports, by name."""

    name: str
    imports: dict[str, tuple[str, str]]  # module and name there; the name is empty for a whole module
    definitions: dict[str, Definition]


@cache
def read_module(name: str) -> Module | None:
    """A module of this package; None where there is none of that name."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    definitions = {}
    for node in tree.body:
        for defined in _names_of(node):
            definitions[defined] = Definition(name, defined, tuple(_lines_of(node, lines)))
    return Module(name, dict(_imports_of(tree)), definitions)


def _names_of(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _lines_of(node: ast.stmt, lines: Sequence[str]) -> Sequence[str]:
    assert node.end_lineno is not None
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    while first > 1 and lines[first - 2].startswith("#") and not lines[first - 2].startswith("# --"):
        first -= 1
    return lines[first - 1 : node.end_lineno]


def _imports_of(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """The imports of a module, those for type checkers among them."""
    statements = [each for node in tree.body for each in (node.body if isinstance(node, ast.If) else [node])]
    for node in statements:
        match node:
            case ast.Import(names=names):
                yield from ((alias.asname or alias.name, (alias.name, "")) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((alias.asname or alias.name, (module, alias.name)) for alias in names)


@cache
def plain_modules() -> tuple[str, ...]:
    """The modules of plain helpers."""
    return tuple(f"{PLAIN}.{name}" for name in HELPERS)


def find(target: str, traits: frozenset[str]) -> Definition:
    """The definition that a program calls by this name: the plain one if there is one."""
    module, _, name = target.rpartition(".")
    for plain in plain_modules():
        if (trait := SIMPLE.get(plain)) and trait not in traits:
            continue
        found = read_module(plain)
        if found is not None and name in found.definitions:
            return found.definitions[name]
    while True:
        found = read_module(module)
        assert found is not None, target
        if name in found.definitions:
            return found.definitions[name]
        module, name = found.imports[name] if name in found.imports else (found.imports["*"][0], name)


# -- what is needed


@dataclass(frozen=True, slots=True)
class Needed:
    """The definitions that a program needs, each after those that it uses, and the imports of other libraries."""

    definitions: tuple[Definition, ...]
    imports: tuple[tuple[str, str, str], ...]  # module, name there (empty for the module), name here


@lru_cache(maxsize=8)  # a program is written twice
def needed(targets: tuple[str, ...], traits: frozenset[str], task: str) -> Needed:
    """What a program with these traits and this task needs that uses these functions and classes."""
    used: set[str] = set()
    roots = [find(target, traits) for target in targets]
    while True:
        chosen = _Chosen(traits, frozenset(used), task)
        for root in roots:
            chosen.add(root)
        if chosen.attributes <= used:
            names = [definition.name for definition in chosen.definitions]
            assert len(set(names)) == len(names), f"one name for two definitions: {sorted(names)}"
            return Needed(tuple(chosen.in_order()), tuple(sorted(chosen.imports)))
        used |= chosen.attributes


class _Chosen:
    """Definitions with all that they use."""

    def __init__(self, traits: frozenset[str], used: frozenset[str], task: str) -> None:
        self.task = f"leaven.tasks.{task}.code"
        self.traits = traits
        self.used = used
        self.definitions: dict[Definition, Definition] = {}  # as it is in its module, and as it is written
        self.imports: set[tuple[str, str, str]] = set()
        self.attributes: set[str] = set()
        self._uses: dict[str, dict[str, None]] = {}  # which modules each uses

    def add(self, found: Definition) -> None:
        if found in self.definitions:
            return
        written = Definition(found.module, found.name, tuple(select(found.lines, self.traits, self.used)))
        self.definitions[found] = written
        tree = ast.parse("\n".join(written.lines))
        self.attributes |= set(_attributes(tree))
        module = read_module(found.module)
        assert module is not None
        uses = self._uses.setdefault(found.module, {})
        for name in sorted(_used_names(tree)):
            if name in module.definitions:
                self.add(module.definitions[name])
            elif target := self._target(name, module):
                used = find(target, self.traits)
                uses.setdefault(used.module)
                self.add(used)
            elif name in module.imports:
                self.imports.add((*module.imports[name], name))

    def _target(self, name: str, module: Module) -> str:
        """What a name means that a module takes from this package."""
        if name in OF_TASK and module.name.startswith(PLAIN):
            return f"{self.task}.{name}"
        imported = ".".join(module.imports.get(name, ()))
        return imported if imported.partition(".")[0] == "leaven" else ""

    def in_order(self) -> Iterator[Definition]:
        """The definitions, each module after those that it uses."""
        plain = [name for name in plain_modules() if name in self._uses]
        for name in dict.fromkeys(each for module in (*plain, *self._uses) for each in self._after(module)):
            module = read_module(name)
            assert module is not None
            yield from (self.definitions[one] for one in module.definitions.values() if one in self.definitions)

    def _after(self, module: str) -> Iterator[str]:
        for used in self._uses[module]:
            if used != module:
                yield from self._after(used)
        yield module


def _attributes(tree: ast.Module) -> Iterator[str]:
    """The names of the attributes that a definition reads, or sets on something else than itself."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Attribute(value=value, attr=name) if not (isinstance(value, ast.Name) and value.id == "self"):
                yield name


def _used_names(tree: ast.Module) -> set[str]:
    """All names in a definition, those in quoted annotations among them."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        annotation = node.annotation if isinstance(node, ast.arg | ast.AnnAssign) else getattr(node, "returns", None)
        for quoted in ast.walk(annotation) if annotation is not None else ():
            if isinstance(quoted, ast.Constant) and isinstance(quoted.value, str):
                names |= {part.id for part in ast.walk(ast.parse(quoted.value)) if isinstance(part, ast.Name)}
    return names


# -- which lines


def select(lines: Sequence[str], traits: frozenset[str], used: frozenset[str]) -> list[str]:
    """The lines that are written, without the marks."""
    kept: list[str] = []
    dropped: int | None = None  # the indent of a line that is dropped with all that is indented under it
    blank: list[str] = []  # lines that belong to what follows
    for line in _with_headers_marked(lines):
        if not line.strip():
            blank.append(line)
            continue
        indent = len(line) - len(line.lstrip())
        if dropped is not None and (indent > dropped or (indent == dropped and line.lstrip().startswith(")"))):
            blank.clear()
            continue
        dropped = None
        mark = _MARK.search(line)
        if mark is None or _is_written(mark, line, traits, used):
            kept += [*blank, line[: mark.start()] if mark else line]
        else:
            dropped = indent
            while kept and _FUNCTION.match(line) and kept[-1].strip().startswith("@"):
                kept.pop()
            while kept and _FUNCTION.match(line) and not kept[-1].strip():
                kept.pop()
        blank.clear()
    return _with_short_headers(kept)


def _with_headers_marked(lines: Sequence[str]) -> list[str]:
    """The mark of a function stands at the end of its header; it is read at the beginning."""
    found = list(lines)
    for at, line in enumerate(lines):
        if _FUNCTION.match(line) and line.endswith("("):
            indent = len(line) - len(line.lstrip())
            end = next(number for number in range(at, len(lines)) if lines[number].startswith(f"{' ' * indent})"))
            mark = _MARK.search(lines[end])
            if mark is not None:
                found[at], found[end] = line + mark[0], lines[end][: mark.start()]
    return found


def _is_written(mark: "re.Match[str]", line: str, traits: frozenset[str], used: frozenset[str]) -> bool:
    if mark["used"]:
        member = _MEMBER.match(line)
        assert member is not None, line
        return member[1] in used
    claims = {claim: not claim.startswith("not ") for claim in mark["traits"].split(" and ")}
    return all(_is_true(claim.removeprefix("not "), traits, used) == wanted for claim, wanted in claims.items())


def _is_true(claim: str, traits: frozenset[str], used: frozenset[str]) -> bool:
    return claim.removeprefix("used ") in used if claim.startswith("used ") else claim in traits


def _with_short_headers(lines: Sequence[str]) -> list[str]:
    """Parameters on one line where they fit."""
    found: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        if _FUNCTION.match(lines[at]) and lines[at].endswith("("):
            indent = len(lines[at]) - len(lines[at].lstrip())
            end = next(number for number in range(at, len(lines)) if lines[number].startswith(f"{' ' * indent})"))
            inner = " ".join(line.strip() for line in lines[at + 1 : end]).rstrip(",")
            joined = f"{lines[at]}{inner}{lines[end].lstrip()}"
            within = " " * (indent + 4) + inner
            if "#" not in joined and len(within) <= WIDTH:
                found += [joined] if len(joined) <= WIDTH else [lines[at], within, lines[end]]
                at = end + 1
                continue
        found += lines[at : end + 1]
        at = end + 1
    return found
