"""One flat list of statements out of a recipe, the recipes it extends, and the command line.

Decides which statement stands where two say the same; what a statement means is left to the checker.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from leaven.catalog import lookup, own
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error
from leaven.language.parser import parse
from leaven.language.reading import read_source
from leaven.language.source import Source, SourceKind, Span
from leaven.recipe.defaults import default_statement

Plain = syntax.Statement | syntax.Broken
Key = tuple[str, ...]

MAX_EXTENDS = 50
BLOCK_OWNERS = ("data", "optimizer")  # whose blocks hold statements of their own; a phase's are the recipe's


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


def key_of(statement: Plain) -> Key:
    """What a statement is known by: two with the same key say the same thing anew."""
    if statement.name is None:
        return ("",)
    name = statement.name.path
    if isinstance(statement, syntax.Broken) or not statement.arguments or not _has_label(name):
        return (name,)
    match statement.arguments[0].value:
        case syntax.Text(value=label) | syntax.Name(path=label) | syntax.Call(name=syntax.Name(path=label)):
            return (name, label)
    return (name,)


def _has_label(name: str) -> bool:
    """Whether the first argument of a statement is part of what it is known by, as the name of a phase is."""
    card = own.read("statement", name)
    return card is not None and "key" in card.facts


def merge(base: Sequence[Plain], later: Sequence[Plain], diagnostics: list[Diagnostic], owner: str = "") -> list[Plain]:
    """The base's statements with the later ones in their places, then `change` and `drop` carried out.

    `owner` is the statement in whose block they stand; at the top of a recipe and in phases there is none.
    """
    plain = [statement for statement in later if not is_edit(statement)]
    replacements: dict[Key, list[Plain]] = {}
    for statement in plain:
        replacements.setdefault(key_of(statement), []).append(statement)
    merged: list[Plain] = []
    placed: set[Key] = set()
    for statement in base:
        key = key_of(statement)
        if key not in replacements:
            merged.append(statement)
        elif key not in placed:
            placed.add(key)
            merged += replacements[key]
    merged += [statement for statement in plain if key_of(statement) not in placed]
    for statement in later:
        if is_edit(statement) and isinstance(statement, syntax.Statement):
            merged = _edit(statement, merged, diagnostics, owner)
    return merged


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
    stem = Path(target.value).stem if isinstance(target, syntax.Text) else target.path.rpartition(".")[2]
    return syntax.Name(stem, target.span)


def _words_after(statement: syntax.Broken) -> set[str]:
    """The names on the line of an unreadable introduction: one of them is what it meant to introduce."""
    line = statement.span.source.line(statement.span.line)
    import re

    return set(re.findall(r"[^\W\d]\w*", line)[1:])


# -- change and drop


def is_edit(statement: Plain) -> bool:
    return statement.name is not None and statement.name.path in ("change", "drop")


def _edit(edit: syntax.Statement, statements: list[Plain], diagnostics: list[Diagnostic], owner: str) -> list[Plain]:
    target, label = _target(edit)
    if target is None:
        diagnostics.append(
            error(
                "missing-argument",
                f"`{edit.name.path}` does not say which statement it means",
                Spot(edit.name.span, "expected the name of a statement"),
                fix="the forms are `change optimizer, lr=1e-4` and `drop mixup`",
            )
        )
        return statements
    found = [
        statement
        for statement in statements
        if statement.name is not None
        and statement.name.path == target.path
        and (label is None or label in key_of(statement))
    ]
    if not found:
        return _nothing_to_edit(edit, target, label, statements, diagnostics, owner)
    if edit.name.path == "drop":
        dropped = {id(statement) for statement in found}
        return [statement for statement in statements if id(statement) not in dropped]
    last = found[-1]
    return [
        _changed(statement, edit, diagnostics, owner) if statement is last else statement for statement in statements
    ]


def _target(edit: syntax.Statement) -> tuple[syntax.Name | None, str | None]:
    """The statement that `change` or `drop` names, and the label that tells it from others of its name."""
    positional = [argument.value for argument in edit.arguments if argument.keyword is None]
    target: syntax.Name | None = None
    label: str | None = None
    match positional:
        case [syntax.Name() as target, syntax.Text(value=label), *_] | [
            syntax.Name() as target,
            syntax.Name(path=label),
            *_,
        ]:
            pass
        case [syntax.Name() as target, *_] | [syntax.Call(name=target), *_]:
            pass
    return target, label


def _nothing_to_edit(
    edit: syntax.Statement,
    target: syntax.Name,
    label: str | None,
    statements: list[Plain],
    diagnostics: list[Diagnostic],
    owner: str,
) -> list[Plain]:
    default = statement_card(target.path, owner)
    if edit.name.path == "change" and label is None and default is not None and (owner or default.facts.get("missing")):
        # What was never written has its default value, and that can be changed too.
        written = default_statement(f"{owner}.{target.path}" if owner else target.path)
        return [*statements, _changed(_relocated(written, edit.span), edit, diagnostics, owner)]
    if any(isinstance(statement, syntax.Broken) and statement.name is None for statement in statements):
        return statements
    wanted = f'`{target.path} "{label}"`' if label else f"`{target.path}`"
    place = edit.arguments[1].span if label else target.span
    diagnostics.append(
        error(
            "nothing-to-change",
            f"there is no {wanted} to {edit.name.path}",
            Spot(place, "not in the recipe"),
            fix=_label_fix(target, label, place, statements) if label else _name_fix(edit, target, statements),
        )
    )
    return statements


def _label_fix(target: syntax.Name, label: str, place: Span, statements: Sequence[Plain]) -> Fix | None:
    """The statement of that name whose label was likely meant, or all there are."""
    labels = [key_of(s)[1] for s in statements if key_of(s)[0] == target.path and len(key_of(s)) > 1]
    near = lookup.nearest(label, labels, limit=1)
    if near:
        return Fix(f'did you mean "{near[0]}"?', Edit(place, f'"{near[0]}"'))
    listed = ", ".join(f'"{one}"' for one in labels[:8])
    return Fix(f"choose one of {listed}") if listed else None


def _name_fix(edit: syntax.Statement, target: syntax.Name, statements: Sequence[Plain]) -> Fix | str:
    """The statement that was likely meant, or how to add what is not there."""
    present = {s.name.path for s in statements if s.name is not None}
    defaults = {
        name
        for name in own.names("statement")
        if "." not in name and (card := own.read("statement", name)) and card.facts.get("missing")
    }
    near = lookup.nearest(target.path, [*present, *defaults] if edit.name.path == "change" else present)
    if near:
        return Fix(f"did you mean `{near[0]}`?", Edit(target.span, near[0]))
    if edit.name.path == "drop":
        return "remove the line"
    arguments = ", ".join(
        f"{argument.keyword.path}={argument.value.span.text}" for argument in edit.arguments if argument.keyword
    )
    added = f"{target.path} {arguments}" if len(arguments) < 60 else f"{target.path} …"
    is_option = edit.span.source.kind is SourceKind.OPTION
    return f"to add it, write `--with '{added}'`" if is_option else f"to add it, write `{added}`"


def _relocated(statement: syntax.Statement, span: Span) -> syntax.Statement:
    """A default statement with the place of the edit that touches it, so that reports point at something written."""
    return replace(
        statement,
        name=replace(statement.name, span=span),
        span=span,
        arguments=tuple(replace(argument, span=span) for argument in statement.arguments),
    )


def _changed(statement: Plain, edit: syntax.Statement, diagnostics: list[Diagnostic], owner: str) -> Plain:
    """A statement with the arguments and block of a `change` merged in."""
    if isinstance(statement, syntax.Broken):
        return statement
    name = statement.name.path
    card = statement_card(name, owner)
    parameters = card.parameters if card else ()
    arguments = list(statement.arguments)
    for argument in edit.arguments:
        if argument.keyword is None:
            continue
        keyword = argument.keyword.path
        call_at = next((at for at, a in enumerate(arguments) if isinstance(a.value, syntax.Call | syntax.Name)), None)
        if any(parameter.name == keyword for parameter in parameters) or call_at is None:
            arguments = _with_argument(arguments, argument, parameters)
        else:
            arguments[call_at] = _changed_call(arguments[call_at], argument, parameters[call_at : call_at + 1])
    block = statement.block
    if edit.block is not None:
        before = block.statements if block else ()
        context = name if name in BLOCK_OWNERS else ""
        inside = merge(_plain(before), _plain(edit.block.statements), diagnostics, context)
        block = syntax.Block(tuple(inside), (block or edit.block).span)
    return replace(statement, arguments=tuple(arguments), block=block)


def statement_card(name: str, owner: str = "") -> Card | None:
    """The card of a statement or technique at the top of a recipe, or of a statement in its owner's block."""
    if owner:
        return own.read("statement", f"{owner}.{name}")
    return own.read("statement", name) or own.read("technique", name)


def _changed_call(
    argument: syntax.Argument, change: syntax.Argument, parameters: Sequence[Parameter]
) -> syntax.Argument:
    value = argument.value
    if isinstance(value, syntax.Name):
        value = syntax.Call(value, (), value.span)
    assert isinstance(value, syntax.Call)
    kind = parameters[0].types[0].replace("transforms", "transform") if parameters else ""
    cards = lookup.find(kind, value.name.path) if kind in KINDS else ()
    changed = _with_argument(list(value.arguments), change, cards[0].parameters if cards else ())
    return replace(argument, value=replace(value, arguments=tuple(changed)))


def _with_argument(
    arguments: list[syntax.Argument], change: syntax.Argument, parameters: Sequence[Parameter]
) -> list[syntax.Argument]:
    """The arguments with one of them replaced, or added where it was not there."""
    assert change.keyword is not None
    name = change.keyword.path
    positional = [parameter.name for parameter in parameters if parameter.positional]
    for at, argument in enumerate(arguments):
        if argument.keyword is not None and argument.keyword.path == name:
            return [*arguments[:at], change, *arguments[at + 1 :]]
        if argument.keyword is None and at < len(positional) and positional[at] == name:
            return [*arguments[:at], replace(change, keyword=None), *arguments[at + 1 :]]
    return [*arguments, change]


def _plain(statements: Iterable[syntax.AnyStatement]) -> list[Plain]:
    return [statement for statement in statements if isinstance(statement, syntax.Statement | syntax.Broken)]
