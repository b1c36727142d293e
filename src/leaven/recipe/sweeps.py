"""Sweeps: each is over an `arg` of the recipe, with values that the `arg` takes."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from leaven.binding.args import swept_arg
from leaven.binding.scope import Scope
from leaven.binding.statements import Statements, bind_statement
from leaven.catalog.values import Arg, Invocation, Pending, Score, Written
from leaven.language.diagnostics import Diagnostic
from leaven.language.source import SourceKind
from leaven.messages import sweeps as messages
from leaven.statements.contexts import Recognised

_NUMBERS = ("int", "float")


def read_sweep(placed: Recognised, statements: Statements, scope: Scope) -> Invocation | None:
    """A sweep whose values are of the type of its `arg`; None after an error was reported."""
    statements.refuse_block(placed)
    arg = scope.args.get(swept_arg(placed.statement) or "")
    parameters = placed.card.parameters
    if arg is not None:
        parameters = tuple(
            replace(each, items=arg.type, choices=arg.choices) if each.name == "values" else each for each in parameters
        )
    sweep = bind_statement(placed.statement, placed.card, scope, parameters)
    if sweep is None:
        return None
    if (problem := next(_problems(sweep, arg, scope), None)) is not None:
        scope.add(problem)
        return None
    return sweep


def _problems(sweep: Invocation, arg: Arg | None, scope: Scope) -> Iterator[Diagnostic]:
    values, by = sweep.value("values"), sweep.value("by")
    if arg is None:
        yield messages.not_an_arg(sweep, scope.nearest(sweep.value("name"), scope.args))
    elif not isinstance(values, Invocation) and not values:
        yield messages.no_values(sweep)
    elif isinstance(values, Invocation) and arg.type not in _NUMBERS:
        yield messages.range_of_words(sweep, arg)
    if isinstance(by, Score) and by.split != "val" and str(by) != "train.loss":
        yield messages.not_recorded(sweep, by)


def has_unknown_bounds(sweep: Invocation) -> bool:
    """Whether its range depends on an `arg` without a value."""
    values = sweep.value("values")
    return isinstance(values, Invocation) and any(isinstance(bound.value, Pending) for bound in values.settings)


def is_given(sweep: Invocation, scope: Scope) -> bool:
    """Whether the command line gives the `arg` a value, which is then the only one."""
    origin = scope.args[sweep.value("name")].origin
    return isinstance(origin, Written) and origin.span.source.kind is SourceKind.OPTION


def unused(sweeps: Iterable[Invocation], used: Collection[str]) -> Iterator[Diagnostic]:
    """Errors about sweeps whose `arg` nothing uses: all trials would be the same."""
    return (messages.without_effect(sweep) for sweep in sweeps if sweep.value("name") not in used)
