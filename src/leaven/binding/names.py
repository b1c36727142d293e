"""The names that a recipe introduces: imports are read, `arg`s get their values, `let`s are kept to be unfolded."""

import os.path
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from leaven.binding.files import missing_file
from leaven.binding.let_limits import refuse_large_lets
from leaven.binding.scope import BOUND_BY_DATA, Scope
from leaven.binding.values import Binder
from leaven.catalog import lookup
from leaven.catalog.card import Parameter
from leaven.catalog.selectors import WORDS as SELECTOR_WORDS
from leaven.catalog.user_code import ImportedModule, Unreadable, find_module, read_definitions
from leaven.catalog.values import UNKNOWN, Arg, FilePath, Pending, Unknown, UserModule, Written
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.parser import parse_value
from leaven.language.source import Source
from leaven.statements.argument_paths import option_for_argument
from leaven.statements.assemble import Assembled
from leaven.statements.options import Options, given

ARG_TYPES = ("int", "float", "bool", "text", "path", "choice")
MAX_LETS = 100  # that stand on each other; keeps every later walk off Python's stack limit
_TYPES_ELSEWHERE = {
    "str": "text",
    "string": "text",
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "double": "float",
    "file": "path",
    "folder": "path",
    "dir": "path",
    "enum": "choice",
}
FLAGS_OF_RUNS = ("devices", "help", "machines", "more_epochs", "quick", "resume")


def open_scope(assembled: Assembled, options: Options, requires_args: bool) -> Scope:
    """A scope that holds everything the recipe introduces."""
    scope = Scope(lets=dict(assembled.lets), broken_names=set(assembled.broken_names), requires_args=requires_args)
    scope.diagnostics += assembled.diagnostics
    for alias, statement in assembled.imports.items():
        _import(alias, statement, scope)
    _refuse_taken(assembled, scope)
    _refuse_in_blocks(assembled.statements, scope)
    _refuse_circles(scope)
    refuse_large_lets(scope)
    _read_args(assembled, options, scope)
    return scope


def _refuse_taken(assembled: Assembled, scope: Scope) -> None:
    introductions: list[syntax.Arg | syntax.Let] = [*assembled.args.values(), *assembled.lets.values()]
    for statement in introductions:
        name = statement.name
        if name.path in BOUND_BY_DATA:
            scope.report(
                "repeated-name",
                f"`{name.path}` is given by the data",
                Spot(name.span, "can't be given another meaning"),
                fix="choose another name",
            )
            scope.lets.pop(name.path, None)
        elif isinstance(statement, syntax.Arg) and name.path in FLAGS_OF_RUNS:
            scope.report(
                "repeated-name",
                f"every run has a flag `--{name.path.replace('_', '-')}` of its own",
                Spot(name.span, "would be that flag"),
                fix="choose another name",
            )
        elif "." in name.path:
            scope.report(
                "wrong-value",
                f"`{name.path}` can't be introduced as a name",
                Spot(name.span, "a new name has no dots"),
                fix=Fix("write it with underscores", Edit(name.span, name.path.replace(".", "_"))),
            )


def _refuse_in_blocks(statements: Iterable[syntax.AnyStatement], scope: Scope, is_inside: bool = False) -> None:
    """Names are introduced at the top alone; whatever uses one that stands in a block is not mentioned again."""
    for statement in statements:
        if isinstance(statement, syntax.Statement | syntax.Broken):
            if statement.block is not None:
                _refuse_in_blocks(statement.block.statements, scope, is_inside=True)
            continue
        if not is_inside:
            continue
        word = statement.span.text.split()[0]
        if isinstance(statement, syntax.Arg | syntax.Let):
            scope.broken_names.add(statement.name.path)
        elif isinstance(statement, syntax.Import) and statement.alias is not None:
            scope.broken_names.add(statement.alias.path)
        scope.report(
            "misplaced-statement",
            f"`{word}` can't stand in a block",
            Spot(statement.span, "belongs to the top of the recipe"),
            fix="write this line outside of the block, above it",
        )


def _refuse_circles(scope: Scope) -> None:
    """Report every `let` that leads back to itself or through too many others, so that unfolding one always ends."""
    depths: dict[str, int] = {}
    for start in list(scope.lets):
        waiting = [] if start in depths else [(scope.lets[start].name, _names_in(scope.lets[start].value, scope.lets))]
        on_the_way = {start}
        while waiting:
            name, uses = waiting[-1]
            use = next(uses, None)
            if use is None:
                waiting.pop()
                on_the_way.discard(name.path)
                depth = depths.setdefault(name.path, 1)
                if depth > MAX_LETS:
                    _refuse_depth(scope, name.path, is_first=depth == MAX_LETS + 1)
                if waiting:
                    above = waiting[-1][0].path
                    depths[above] = max(depths.get(above, 1), depth + 1)
            elif use.path in on_the_way:
                names = [name for name, _ in waiting]
                at = [name.path for name in names].index(use.path)
                _circle(scope, [*names[at + 1 :], use])
                depths |= dict.fromkeys(on_the_way, 1)
                break
            elif use.path in depths:
                depths[name.path] = max(depths.get(name.path, 1), depths[use.path] + 1)
            else:
                on_the_way.add(use.path)
                waiting.append((use, _names_in(scope.lets[use.path].value, scope.lets)))
    for broken in scope.broken_names & set(scope.lets):
        del scope.lets[broken]


def _refuse_depth(scope: Scope, name: str, is_first: bool) -> None:
    """Report the `let` that is one too many; those that stand on it are not mentioned."""
    scope.broken_names.add(name)
    if is_first:
        scope.report(
            "too-deep",
            f"more than {MAX_LETS} `let`s stand on each other",
            Spot(scope.lets[name].name.span, "the limit is reached here"),
            fix="write some of the values out",
        )


def _circle(scope: Scope, uses: list[syntax.Name]) -> None:
    """Report a circle; `uses` are the places where each `let` of it names the next, the last one the first."""
    closing = uses[-1]
    scope.broken_names |= {use.path for use in uses}
    way = " -> ".join(f"`{name}`" for name in [closing.path, *(use.path for use in uses)])
    scope.report(
        "circular-let",
        f"`{closing.path}` is defined by itself",
        Spot(closing.span, "this leads back to the definition"),
        Spot(scope.lets[closing.path].name.span, "defined here"),
        notes=[f"the circle is {way}"] if len(uses) > 1 else [],
        fix="give one of them a value of its own" if len(uses) > 1 else "give the inner value another name",
    )


def _names_in(value: syntax.Value, wanted: Collection[str]) -> Iterator[syntax.Name]:
    """Those of the wanted names that a value holds."""
    match value:
        case syntax.Name(path=path) if path in wanted and path not in SELECTOR_WORDS:
            yield value
        case syntax.Binary(left=left, right=right):
            yield from _names_in(left, wanted)
            yield from _names_in(right, wanted)
        case syntax.Negative(value=inner):
            yield from _names_in(inner, wanted)
        case syntax.Pipeline(stages=parts) | syntax.List(items=parts):
            for part in parts:
                yield from _names_in(part, wanted)
        case syntax.Call(arguments=arguments):
            for argument in arguments:
                yield from _names_in(argument.value, wanted)


# -- imports


def _import(alias: str, statement: syntax.Import, scope: Scope) -> None:
    target = statement.target
    folder = target.span.source.folder
    if isinstance(target, syntax.String):
        place: Path | None = folder / target.value
        module = UserModule(alias, target.value, True, place)
        if place is None or not os.path.isfile(place):
            scope.broken_names.add(alias)
            missing_file(scope, FilePath(target.value, folder / target.value, target.span), "the Python file")
            return
    else:
        place = find_module(target.path, folder)
        module = UserModule(alias, target.path, False, place)
        if place is None:
            scope.broken_names.add(alias)
            _missing_module(target, scope)
            return
    definitions = read_definitions(place, alias)
    if isinstance(definitions, Unreadable):
        scope.report(
            "unreadable-python",
            f"`{module.target}` can't be read as Python: {definitions.reason}",
            *_python_line(module.target, place, definitions.line),
            Spot(target.span, "imported here"),
            fix="mend the Python file, then check again",
        )
        scope.modules[alias] = ImportedModule(module, None, target.span)
        return
    scope.modules[alias] = ImportedModule(module, definitions, target.span)


def _python_line(name: str, file: Path, number: int | None) -> list[Spot]:
    """The line of a Python file where reading ended."""
    if number is None:
        return []
    try:
        source = Source(name, file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not 0 < number <= len(source.line_starts):
        return []
    start, line = source.line_starts[number - 1], source.line(number)
    return [Spot(source.span(start + len(line) - len(line.lstrip()), start + len(line)), "here")]


def _missing_module(target: syntax.Name, scope: Scope) -> None:
    fix: Fix | str = f'install it, or import a file: `import "{target.path.replace(".", "/")}.py"`'
    if target.path.endswith(".py"):
        quoted = f'"{target.path}"'
        fix = Fix(f"a file name stands in quotes: `{quoted}`", Edit(target.span, quoted))
    scope.report("missing-file", f"no module `{target.path}` is installed", Spot(target.span, "not found"), fix=fix)


# -- args


def _read_args(assembled: Assembled, options: Options, scope: Scope) -> None:
    texts = given(options, set(assembled.args))
    for name, statement in assembled.args.items():
        scope.args[name] = _arg(statement, texts.pop(name, None), assembled.args, scope)
    for name, source in texts.items():
        near = lookup.nearest(name, [*assembled.args, "model", "data", "checkpoint", "output", "set", "with"])
        flags = " or ".join(f"`--{word.replace('_', '-')}`" for word in near)
        scope.report(
            "unknown-option",
            f"the recipe has no `arg {name}`",
            Spot(source.span(0, len(source.text)), "given here"),
            fix=f"did you mean {flags}?"
            if near
            else option_for_argument(name, source.text, assembled.statements)
            or f"declare it in the recipe: `arg {name}: float = …`",
        )


def _arg(statement: syntax.Arg, text: Source | None, args: Collection[str], scope: Scope) -> Arg:
    name, type = statement.name.path, statement.type.path
    choices = _choices(statement, scope)
    help = statement.help.value if statement.help else ""
    value: Any = UNKNOWN
    origin = Written((statement.default or statement).span)
    if type not in ARG_TYPES:
        near = lookup.nearest(_TYPES_ELSEWHERE.get(type, type), ARG_TYPES)
        scope.report(
            "wrong-type",
            f"an `arg` has no type `{type}`",
            Spot(statement.type.span, "the types are int, float, bool, text, path and choice"),
            fix=Fix(f"did you mean `{near[0]}`?", Edit(statement.type.span, near[0])) if near else None,
        )
    elif text is not None:
        origin = Written(text.span(0, len(text.text)))
        value = _given_value(type, choices, text, name, scope)
    elif statement.default is not None:
        uses = _names_in(statement.default, args)
        later = next((use for use in uses if use.path not in scope.args and use.path not in scope.lets), None)
        value = _typed(statement.default, type, choices, name, scope) if later is None else _early(later, name, scope)
    elif not scope.requires_args:
        value = Pending(name)
        scope.note(
            "not-checked",
            f"`{name}` has no default: its value comes with `--{name.replace('_', '-')}`",
            statement.name.span,
        )
    else:
        scope.report(
            "missing-argument",
            f"the recipe needs a value for `{name}`",
            Spot(statement.name.span, "it has no default"),
            fix=f"give it on the command line: `--{name.replace('_', '-')} …`",
        )
    return Arg(name, type, choices, value, help, origin)


def _early(use: syntax.Name, name: str, scope: Scope) -> Unknown:
    """Report a default that names an `arg` which has no value yet."""
    if use.path == name:
        return scope.report(
            "unknown-name",
            f"`{name}` can't be its own default",
            Spot(use.span, "it has no value yet"),
            fix="write a value in its place, or leave the default out",
        )
    return scope.report(
        "unknown-name",
        f"`{use.path}` has no value yet",
        Spot(use.span, "this `arg` is declared further down"),
        fix=f"move `arg {use.path}` above this line",
    )


def _choices(statement: syntax.Arg, scope: Scope) -> tuple[str, ...]:
    if statement.choices is None:
        if statement.type.path == "choice":
            scope.report(
                "wrong-type",
                "a choice lists what may be chosen",
                Spot(statement.type.span, "the list is missing"),
                fix='the form is `choice["small", "large"]`',
            )
        return ()
    return tuple(_choice(item) for item in statement.choices.items)


def _choice(item: syntax.Value) -> str:
    """A choice as it is to be given; how it is spaced does not matter."""
    match item:
        case syntax.String(value=text):
            return text
        case syntax.Number(unit="%"):
            return item.span.text.replace(" ", "")
    return " ".join(item.span.text.split())


def _given_value(type: str, choices: tuple[str, ...], text: Source, name: str, scope: Scope) -> Any:
    """A value from the command line: texts, paths and choices as they are, the others as in a recipe."""
    whole = text.span(0, len(text.text))
    if type in ("text", "path", "choice"):
        return _typed(syntax.String(text.text, whole), type, choices, name, scope)
    value, mistakes = parse_value(text)
    if mistakes or value is None:
        scope.diagnostics += mistakes
        return UNKNOWN
    return _typed(value, type, choices, name, scope)


def _typed(value: syntax.Value, type: str, choices: tuple[str, ...], name: str, scope: Scope) -> Any:
    if isinstance(value, syntax.Literal) and value.value is None:
        return None
    if type == "choice" and not choices:
        return UNKNOWN
    return Binder(scope).bind_value(value, Parameter(name, type, choices=choices))


def unused(scope: Scope, assembled: Assembled, main: Source) -> None:
    """Warn about names that nothing uses; those of an extended recipe may be meant for others."""
    introductions: list[syntax.Arg | syntax.Let] = [*assembled.args.values(), *assembled.lets.values()]
    for statement in introductions:
        name = statement.name
        if name.span.source is not main or name.path in scope.used or name.path in scope.broken_names:
            continue
        word = "arg" if isinstance(statement, syntax.Arg) else "let"
        scope.warn(
            "unused-name",
            f"nothing in the recipe uses `{name.path}`",
            Spot(name.span, "changing it changes nothing" if word == "arg" else "has no effect"),
            fix=Fix("use it, or remove the line"),
        )
