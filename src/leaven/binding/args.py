"""The `arg`s of a recipe: each gets its value, from the command line or its default."""

import shlex
from collections.abc import Collection

from leaven.binding.lets import names_in
from leaven.binding.scope import Scope
from leaven.binding.values import Binder, Value
from leaven.catalog import habits, lookup
from leaven.catalog.card import Parameter
from leaven.catalog.values import UNKNOWN, Arg, Pending, Unknown, Written
from leaven.language import syntax
from leaven.language.fixes import Fix, write_option
from leaven.language.parser import parse_value
from leaven.language.source import Source
from leaven.messages import names as messages
from leaven.messages.habits import is_known
from leaven.messages.options import option_for_argument
from leaven.statements.assemble import Assembled
from leaven.statements.options import FLAGS, Options, given

ARG_TYPES = ("int", "float", "bool", "text", "path", "choice")


def read_args(assembled: Assembled, options: Options, scope: Scope) -> None:
    """Add every `arg` with its value to the scope; an option that is no `arg` is reported."""
    texts = given(options, set(assembled.args))
    sweeps = [s for s in assembled.statements if isinstance(s, syntax.Statement) and s.name.path == "sweep"]
    swept = set(map(swept_arg, sweeps))
    for name, statement in assembled.args.items():
        scope.args[name] = _arg(statement, texts.pop(name, None), assembled.args, scope, is_swept=name in swept)
    for name, source in texts.items():
        flags = () if is_known(name) else (*FLAGS, "set", "with")
        near = lookup.nearest(name, [*assembled.args, *flags])
        whole = source.span(0, len(source.text))
        option: Fix | str | None = None
        if not near and "." in name:  # `--optimizer.lr 1e-4`
            option = write_option(whole, f"--set {shlex.quote(f'{name}={whole.text}')}")
        elif not near:  # `--lr 1e-4`
            option = option_for_argument(whole, name, whole.text, assembled.statements)
        scope.add(messages.unknown_option(name, source, near, option))


def swept_arg(sweep: syntax.Statement) -> str | None:
    """The name in `sweep lr, …`."""
    for argument in sweep.arguments:
        if isinstance(argument.value, syntax.Name) and (argument.keyword is None or argument.keyword.path == "name"):
            return argument.value.path
    return None


def _arg(
    statement: syntax.Arg, text: Source | None, args: Collection[str], scope: Scope, *, is_swept: bool = False
) -> Arg:
    name, type = statement.name, statement.type.path
    choices = tuple(_choice(item) for item in statement.choices.items) if statement.choices is not None else ()
    parameter = Parameter(name.path, type, choices=choices)
    value: Value | Unknown = UNKNOWN
    origin = Written((statement.default or statement).span)
    if type == "choice" and statement.choices is None:
        scope.add(messages.missing_choices(statement.type))
    if type not in ARG_TYPES:
        near = lookup.nearest(habits.names()["types"].get(type, type), ARG_TYPES)
        scope.add(messages.unknown_arg_type(statement.type, near))
    elif text is not None:
        origin = Written(text.span(0, len(text.text)))
        value = _given_value(text, parameter, scope)
    elif statement.default is not None:
        value = _default_value(statement.default, parameter, args, scope)
    elif scope.requires_args and not is_swept:
        scope.add(messages.missing_arg(name))
    else:
        value = Pending(name.path)
        if not is_swept:
            scope.add(messages.unchecked_arg(name))
    return Arg(name.path, type, choices, value, statement.help.value if statement.help else "", origin)


def _choice(item: syntax.Value) -> str:
    """A choice as it is to be given; how it is spaced does not matter."""
    match item:
        case syntax.String(value=text):
            return text
        case syntax.Number(unit="%"):
            return item.span.text.replace(" ", "")
    return " ".join(item.span.text.split())


def _default_value(default: syntax.Value, parameter: Parameter, args: Collection[str], scope: Scope) -> Value | Unknown:
    """A default's value; it can't use an `arg` that has none yet."""
    later = (use for use in names_in(default, args) if use.path not in scope.args and use.path not in scope.lets)
    use = next(later, None)
    if use is None:
        return _typed(default, parameter, scope)
    return scope.add(messages.own_default(use) if use.path == parameter.name else messages.later_arg(use))


def _given_value(text: Source, parameter: Parameter, scope: Scope) -> Value | Unknown:
    """A value from the command line: strings, paths and choices as they are, the others as in a recipe."""
    if parameter.type in ("text", "path", "choice"):
        return _typed(syntax.String(text.text, text.span(0, len(text.text))), parameter, scope)
    value, errors = parse_value(text)
    if errors or value is None:
        scope.diagnostics += errors
        return UNKNOWN
    return _typed(value, parameter, scope)


def _typed(value: syntax.Value, parameter: Parameter, scope: Scope) -> Value | Unknown:
    if isinstance(value, syntax.Literal) and value.value is None:
        return None
    if parameter.type == "choice" and not parameter.choices:
        return UNKNOWN
    return Binder(scope).bind_value(value, parameter)
