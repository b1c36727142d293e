"""Pipelines: `a -> b * 3 -> c` as the stages that data passes, one after the other.

What a stage means is left to `resolve.py`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from leaven.binding.arithmetic import calculate
from leaven.binding.scope import Scope
from leaven.catalog.card import Parameter
from leaven.catalog.values import UNKNOWN, Invocation, Unknown
from leaven.language import syntax
from leaven.language.diagnostics import Spot
from leaven.messages import describe

if TYPE_CHECKING:
    from leaven.binding.values import Binder

MAX_STAGES = 10_000

Stages = tuple[Invocation, ...]


def read_pipeline(value: syntax.Value, kind: str, binder: "Binder") -> Stages | Unknown:
    """A pipeline as a flat tuple of invocations, `let`s unfolded and repetitions written out."""
    scope = binder.scope
    match value:
        case syntax.Pipeline(stages=stages):
            parts = [read_pipeline(stage, kind, binder) for stage in stages]
            if any(isinstance(part, Unknown) for part in parts):
                return UNKNOWN
            return _not_endless(scope, value, [part for part in parts if not isinstance(part, Unknown)])
        case syntax.Binary(operator="*", left=left, right=right):
            return _repeated(left, right, kind, binder)
        case syntax.Name(path=path) if path in scope.broken_names:
            return UNKNOWN
        case syntax.Name(path=path) if path in scope.lets:
            return cast("Stages | Unknown", binder.expand_let(value, lambda inner: read_pipeline(inner, kind, binder)))
        case syntax.Name():
            return _stage(syntax.Call(value, (), value.span), kind, binder)
        case syntax.Call():
            return _stage(value, kind, binder)
    wanted = describe.KIND_NOUNS[kind]
    return scope.report(
        "wrong-type",
        f"{describe.written_value(value)} can't be a stage of a pipeline",
        Spot(value.span, f"expected {wanted}"),
    )


def _repeated(left: syntax.Value, right: syntax.Value, kind: str, binder: "Binder") -> Stages | Unknown:
    times = calculate(right, binder.scope)
    stages = read_pipeline(left, kind, binder)
    if isinstance(times, Unknown) or isinstance(stages, Unknown):
        return UNKNOWN
    if not isinstance(times, int) or times < 1:
        return binder.scope.report(
            "wrong-value",
            "a stage is repeated a whole number of times",
            Spot(right.span, "expected 1 or more"),
            fix=f"write `{int(times)}` or `{int(times) + 1}`" if isinstance(times, float) and times > 1 else None,
        )
    return _not_endless(binder.scope, left, [stages] * min(times, MAX_STAGES + 1))


def _not_endless(scope: Scope, value: syntax.Value, parts: Sequence[Stages]) -> Stages | Unknown:
    """The parts as one tuple; repetitions of repetitions grow fast, so their number is looked at first."""
    if sum(len(part) for part in parts) > MAX_STAGES:
        return scope.report(
            "wrong-value", f"this pipeline has more than {MAX_STAGES:,} stages", Spot(value.span, "too long")
        )
    return tuple(stage for part in parts for stage in part)


def _stage(call: syntax.Call, kind: str, binder: "Binder") -> Stages | Unknown:
    if kind == "transform" and call.name.path.lower() in ("compose", "sequential"):
        return _composed(call, binder.scope)
    invocation = binder.bind_call(call, Parameter("stage", type=kind))
    return UNKNOWN if isinstance(invocation, Unknown) else (invocation,)


def _composed(call: syntax.Call, scope: Scope) -> Unknown:
    """`compose([a, b])`: a pipeline is written with arrows."""
    values = [argument.value for argument in call.arguments]
    steps = values[0].items if len(values) == 1 and isinstance(values[0], syntax.List) else values
    joined = " -> ".join(" ".join(step.span.text.split()) for step in steps[:6])
    return scope.report(
        "unknown-name",
        f"a pipeline needs no `{call.name.path}`",
        Spot(call.name.span, "steps follow each other by arrows"),
        fix=f"write `{joined}`" if 0 < len(joined) < 100 and len(steps) <= 6 else "join the steps with `->`",
    )
