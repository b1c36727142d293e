"""Pipelines: `a -> b * 3 -> c` as the stages that data passes, one after the other.

What a stage means is left to `values.py`.
"""

from typing import TYPE_CHECKING

from leaven.binding.arithmetic import calculate
from leaven.binding.scope import MAX_PARTS
from leaven.catalog.card import Parameter
from leaven.catalog.values import UNKNOWN, Invocation, Unknown
from leaven.language import syntax
from leaven.messages import values as messages

if TYPE_CHECKING:
    from leaven.binding.values import Binder

Stages = tuple[Invocation, ...]


def read_pipeline(value: syntax.Value, kind: str, binder: "Binder") -> Stages | Unknown:
    """A pipeline as a flat tuple of calls, `let`s expanded and repetitions written out."""
    scope = binder.scope
    match value:
        case syntax.Pipeline(stages=stages):
            parts = [read_pipeline(stage, kind, binder) for stage in stages]
            found = tuple(stage for part in parts if not isinstance(part, Unknown) for stage in part)
            if len(found) > MAX_PARTS:
                scope.can_expand(value, len(found))
            return UNKNOWN if len(found) > MAX_PARTS or any(isinstance(part, Unknown) for part in parts) else found
        case syntax.Binary(operator="*", left=left, right=right):
            return _repeated(left, right, kind, binder)
        case syntax.Name(path=path) if path in scope.broken_names:
            return UNKNOWN
        case syntax.Name(path=path) if path in scope.lets:
            return scope.expand(value, lambda inner: read_pipeline(inner, kind, binder))
        case syntax.Name():
            return _stage(syntax.Call(value, (), value.span), kind, binder)
        case syntax.Call():
            return _stage(value, kind, binder)
    return scope.add(messages.not_a_stage(value, kind))


def _repeated(left: syntax.Value, right: syntax.Value, kind: str, binder: "Binder") -> Stages | Unknown:
    times = calculate(right, binder.scope)
    stages = read_pipeline(left, kind, binder)
    if isinstance(times, Unknown) or isinstance(stages, Unknown):
        return UNKNOWN
    if not isinstance(times, int) or times < 1:
        return binder.scope.add(messages.wrong_repetition(right, times))
    # Repetitions of repetitions grow fast, so their number is looked at before they are made.
    return stages * times if binder.scope.can_expand(left, len(stages) * times) else UNKNOWN


def _stage(call: syntax.Call, kind: str, binder: "Binder") -> Stages | Unknown:
    if kind == "transform" and call.name.path.lower() in ("compose", "sequential"):
        return binder.scope.add(messages.not_a_pipeline(call))
    if binder.scope.expanding and not binder.scope.can_expand(call):
        return UNKNOWN
    found = binder.bind_call(call, Parameter("stage", type=kind))
    return (found,) if isinstance(found, Invocation) else UNKNOWN
