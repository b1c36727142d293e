"""One flat list of statements out of a recipe, the recipes it extends, and the command line.

Decides which files are read and in which order; which statement stands where two say the same is left to `merging.py`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Spot, error
from leaven.language.parser import parse
from leaven.language.source import Source, SourceKind, Span
from leaven.language.source_files import read_source
from leaven.statements.merge import merge
from leaven.statements.statement_keys import Plain

MAX_EXTENDS = 50


@dataclass(slots=True)
class Assembled:
    """What is left when everything inherited is in its place."""

    statements: list[Plain] = field(default_factory=list)
    args: dict[str, syntax.Arg] = field(default_factory=dict)
    lets: dict[str, syntax.Let] = field(default_factory=dict)
    imports: dict[str, syntax.Import] = field(default_factory=dict)
    broken_names: set[str] = field(default_factory=set)
    sources: list[Source] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def assemble(source: Source) -> Assembled:
    """The statements of a recipe and of those it extends."""
    place = (source.folder / Path(source.name).name).resolve()
    return _gather(source, (place,), {place})


def add(assembled: Assembled, statements: Sequence[syntax.AnyStatement]) -> None:
    """Put more statements behind those assembled: the later replaces the earlier of the same key."""
    layer = Assembled(diagnostics=assembled.diagnostics)
    _sort(statements, layer)
    assembled.statements = merge(assembled.statements, layer.statements, assembled.diagnostics)
    assembled.args |= layer.args
    assembled.lets |= layer.lets
    assembled.imports |= layer.imports
    assembled.broken_names |= layer.broken_names


def replace_value(assembled: Assembled, statement: syntax.Statement) -> None:
    """Put a statement in the place of the one of that name, and keep its block: `--data` keeps the transforms."""
    for at, earlier in enumerate(assembled.statements):
        if isinstance(earlier, syntax.Statement) and earlier.name.path == statement.name.path:
            assembled.statements[at] = replace(statement, block=earlier.block)
            return
    assembled.statements.append(statement)


# -- reading files


def _gather(source: Source, chain: tuple[Path, ...], taken: set[Path]) -> Assembled:
    """The statements of a file and its bases. A base that several extend is taken once, where it is met first."""
    parsed = parse(source)
    result = Assembled(sources=[source], diagnostics=list(parsed.diagnostics))
    for statement in parsed.tree.statements:
        if isinstance(statement, syntax.Extends):
            base = _base(statement, source, chain, taken, result)
            if base is None:
                # It stands for the statements that could not be read, so that nobody calls them missing.
                result.statements.append(syntax.Broken(None, None, statement.span))
            else:
                result.statements = merge(result.statements, base.statements, result.diagnostics)
                result.args |= base.args
                result.lets |= base.lets
                result.imports |= base.imports
                result.broken_names |= base.broken_names
                result.sources += base.sources
                result.diagnostics += base.diagnostics
    add(result, parsed.tree.statements)
    return result


def _base(
    statement: syntax.Extends, source: Source, chain: tuple[Path, ...], taken: set[Path], result: Assembled
) -> Assembled | None:
    written = statement.target.value
    base = read_source(source.folder / written, _shown(source, written), SourceKind.BASE)
    if isinstance(base, Diagnostic):
        result.diagnostics.append(
            replace(base, spots=(*base.spots, Spot(statement.target.span, "extended here")))
            if base.spots
            else replace(base, spots=(Spot(statement.target.span, "can't be read"),))
        )
        return None
    place = (source.folder / written).resolve()
    if place in chain:
        names = [earlier.name for earlier in (*chain, place)]
        result.diagnostics.append(
            error(
                "circular-extends",
                "the recipe extends itself",
                Spot(statement.target.span, "this leads back"),
                notes=["the chain is " + " -> ".join(names)],
                fix="remove one of the `extends`",
            )
        )
        return None
    if len(chain) > MAX_EXTENDS:
        result.diagnostics.append(
            error(
                "too-deep",
                f"more than {MAX_EXTENDS} recipes extend each other",
                Spot(statement.target.span, "the limit is reached here"),
                fix="put what they share into fewer recipes",
            )
        )
        return None
    if place in taken:
        return Assembled()
    taken.add(place)
    return _gather(base, (*chain, place), taken)


def _shown(source: Source, written: str) -> str:
    """How the base is called in reports: relative to where the user stands, as the recipe itself is."""
    return str(Path(source.name).parent / written)


def _sort(statements: Iterable[syntax.AnyStatement], layer: Assembled) -> None:
    """Statements to their kinds; a name introduced twice in one file is a mistake."""
    introduced: dict[str, Span] = {}
    for statement in statements:
        match statement:
            case syntax.Arg(name=name):
                layer.args[name.path] = statement
            case syntax.Let(name=name):
                layer.lets[name.path] = statement
            case syntax.Import():
                name = statement.alias or _implied_alias(statement)
                layer.imports[name.path] = statement
            case syntax.Extends():
                continue
            case syntax.Broken(name=syntax.Name(path="extends")):
                layer.statements.append(replace(statement, name=None))
                continue
            case syntax.Broken(name=syntax.Name(path="arg" | "let" | "import")):
                layer.broken_names |= _words_after(statement)
                continue
            case _:
                layer.statements.append(statement)
                continue
        if name.path in introduced:
            layer.diagnostics.append(
                error(
                    "repeated-name",
                    f"the name `{name.path}` is given twice",
                    Spot(name.span, "again here"),
                    Spot(introduced[name.path], "first here"),
                    fix="choose another name for one of them",
                )
            )
        introduced.setdefault(name.path, name.span)


def _implied_alias(statement: syntax.Import) -> syntax.Name:
    target = statement.target
    stem = Path(target.value).stem if isinstance(target, syntax.String) else target.path.rpartition(".")[2]
    return syntax.Name(stem, target.span)


def _words_after(statement: syntax.Broken) -> set[str]:
    """The names on the line of an unreadable introduction: one of them is what it meant to introduce."""
    line = statement.span.source.line(statement.span.line)
    return set(re.findall(r"[^\W\d]\w*", line)[1:])
