"""One flat list of statements out of a recipe, the recipes it extends, and the command line.

Decides which files are read and in which order; which of two statements with the same key counts is left to `merge.py`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from leaven.catalog.lookup import nearest
from leaven.catalog.statement_keys import BodyStatement
from leaven.catalog.value_text import quoted
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Spot
from leaven.language.fixes import Fix
from leaven.language.parser import parse
from leaven.language.source import Source, SourceKind, Span
from leaven.language.source_files import read_source
from leaven.messages import statements as messages
from leaven.messages.files import neighbours
from leaven.messages.names import defined_twice
from leaven.messages.suggestions import similar
from leaven.statements.merge import merge

MAX_EXTENDS = 50


@dataclass(slots=True)
class Assembled:
    """The statements and definitions of a recipe and all that it extends."""

    statements: list[BodyStatement] = field(default_factory=list)
    args: dict[str, syntax.Arg] = field(default_factory=dict)
    lets: dict[str, syntax.Let] = field(default_factory=dict)
    imports: dict[str, syntax.Import] = field(default_factory=dict)
    broken_names: set[str] = field(default_factory=set)
    sources: list[Source] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    summary: str = ""  # the comment that the recipe begins with

    def adopt(self, later: "Assembled") -> None:
        """Add what comes later: it replaces the earlier of the same key or name."""
        self.statements = merge(self.statements, later.statements, self.diagnostics)
        self.args |= later.args
        self.lets |= later.lets
        self.imports |= later.imports
        self.broken_names |= later.broken_names
        self.sources += later.sources
        self.diagnostics += later.diagnostics


def assemble(source: Source) -> Assembled:
    """The statements of a recipe and of those it extends."""
    place = (source.folder / Path(source.name).name).resolve()
    return _read(source, (place,), {place})


def add(assembled: Assembled, statements: Sequence[syntax.AnyStatement]) -> None:
    """Add more statements: they replace the earlier ones of the same key."""
    assembled.adopt(_sorted(statements))


def replace_value(assembled: Assembled, statement: syntax.Statement) -> None:
    """Replace the statement of that name, and keep its block: `--data` keeps the transforms."""
    for at, earlier in enumerate(assembled.statements):
        if isinstance(earlier, syntax.Statement) and earlier.name.path == statement.name.path:
            assembled.statements[at] = replace(statement, block=earlier.block)
            return
    assembled.statements.append(statement)


def _read(source: Source, chain: tuple[Path, ...], seen: set[Path]) -> Assembled:
    """The statements of a file and its bases. A base that several extend is read once, where it is met first."""
    parsed = parse(source)
    result = Assembled(sources=[source], diagnostics=list(parsed.diagnostics), summary=_summary(parsed.tree, source))
    for statement in parsed.tree.statements:
        if isinstance(statement, syntax.Extends):
            base = _base(statement, source, chain, seen)
            if isinstance(base, Diagnostic):
                result.diagnostics.append(base)
                # In place of the statements that could not be read, so that none is reported as missing.
                result.statements.append(syntax.Broken(None, None, statement.span))
            else:
                result.adopt(base)
    add(result, parsed.tree.statements)
    return result


def _summary(tree: syntax.Tree, source: Source) -> str:
    """The comment that a recipe begins with, on one line."""
    first = tree.statements[0].span.start if tree.statements else len(source.text)
    lines: list[str] = []
    for number, comment in enumerate(tree.comments, tree.comments[0].line if tree.comments else 0):
        if comment.start > first or comment.line != number:
            break
        lines.append(comment.text.lstrip("#").strip())
    return " ".join(lines)


def _base(
    statement: syntax.Extends, source: Source, chain: tuple[Path, ...], seen: set[Path]
) -> Assembled | Diagnostic:
    """The statements of the recipe that another extends, or why there are none."""
    target = statement.target
    # Its name is relative to the current folder, as that of the recipe itself is.
    base = read_source(source.folder / target.value, str(Path(source.name).parent / target.value), SourceKind.BASE)
    if isinstance(base, Diagnostic):
        spot = Spot(target.span, "extended here" if base.spots else "can't be read")
        return replace(base, spots=(*base.spots, spot), fix=_similar(target, source.folder) or base.fix)
    place = (source.folder / target.value).resolve()
    if place in chain:
        return messages.circular_extends(target, [earlier.name for earlier in (*chain, place)])
    if len(chain) > MAX_EXTENDS:
        return messages.deep_extends(target, MAX_EXTENDS)
    if place in seen:
        return Assembled()
    seen.add(place)
    return _read(base, (*chain, place), seen)


def _similar(target: syntax.String, folder: Path) -> Fix | None:
    """The recipe that was likely meant, if there is no such file."""
    place = folder / target.value
    near = nearest(place.name, neighbours(place, ".leaven"), limit=1)
    return similar(target.span, [quoted(Path(target.value).with_name(name).as_posix()) for name in near])


def _sorted(statements: Iterable[syntax.AnyStatement]) -> Assembled:
    """Statements and definitions apart; a name that is defined twice is reported."""
    layer = Assembled()
    defined: dict[str, Span] = {}
    for statement in statements:
        match statement:
            case syntax.Arg(name=name):
                layer.args[name.path] = statement
            case syntax.Let(name=name):
                layer.lets[name.path] = statement
            case syntax.Import():
                target = statement.target
                stem = Path(target.value).stem if isinstance(target, syntax.String) else target.path.rpartition(".")[2]
                name = statement.alias or syntax.Name(stem, target.span)
                layer.imports[name.path] = statement
            case syntax.Extends():
                continue
            case syntax.Broken(name=syntax.Name(path="extends")):
                layer.statements.append(replace(statement, name=None))
                continue
            case syntax.Broken(name=syntax.Name(path="arg" | "let" | "import")):
                # One of the words on the line of an unreadable definition is the name that it defines.
                line = statement.span.source.line(statement.span.line)
                layer.broken_names |= set(re.findall(r"[^\W\d]\w*", line)[1:])
                continue
            case _:
                layer.statements.append(statement)
                continue
        if name.path in defined:
            layer.diagnostics.append(defined_twice(name, defined[name.path]))
        defined.setdefault(name.path, name.span)
    return layer
