"""Reports about losses, metrics, optimizers and schedules that do not fit the task or the phase."""

from collections.abc import Sequence

from leaven.catalog.traits import TargetKind
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Setting
from leaven.language.diagnostics import Diagnostic, Spot, error
from leaven.messages.describe import kinds
from leaven.messages.places import span_of, spots


def loss_for_other_task(loss: Invocation, task: str, usual: str) -> Diagnostic:
    """`usual` is the default statement of the task."""
    return error(
        "wrong-task",
        f"`{loss.card.friendly}` {_compares(loss.card.loss.targets)}, and the data is for {task}",
        Spot(span_of(loss.origin), "can't be used here"),
        fix=f"use another, such as `{usual}`",
    )


def metric_for_other_task(metric: Invocation, task: str, usual: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{metric.card.friendly}` {_compares(metric.card.metric.targets)}, and the data is for {task}",
        Spot(span_of(metric.origin), "can't be used here"),
        fix=f"use others, such as `{usual}`",
    )


def sampler_for_other_task(sampler: Invocation, task: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{sampler.card.bare_name}` {_compares(sampler.card.sampler.targets, 'counts')}, and the data is for {task}",
        Spot(span_of(sampler.origin), "can't be used here"),
        fix="remove it",
    )


def argument_for_other_task(call: Invocation, setting: Setting, targets: Sequence[TargetKind], task: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{setting.name}` of `{call.card.friendly}` is for {kinds(targets)}, and the data is for {task}",
        Spot(span_of(setting.origin), "can't be used here"),
        fix=f"remove `{setting.name}`",
    )


def _compares(targets: Sequence[TargetKind], verb: str = "compares") -> str:
    return f"{verb} {kinds(targets)}" if targets else "compares neither classes nor numbers"


def metric_of_several_numbers(metric: Invocation, usual: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{metric.card.friendly}` is not a single number, and can't be logged for every epoch",
        Spot(span_of(metric.origin), "can't be used here"),
        fix=f"use others, such as `{usual}`; `leaven evaluate` prints the confusion matrix of a bundle",
    )


def kept_optimizer(phase: str, origin: Origin, previous: str | None) -> Diagnostic:
    """`previous` is the optimizer of the phase before; None where no phase trains before it."""
    reason = f"the phase before has another, `{previous}`" if previous is not None else "no phase trains before it"
    return error(
        "kept-optimizer",
        f'phase "{phase}" keeps the optimizer, and {reason}',
        Spot(span_of(origin), "`keep=optimizer`"),
        fix="leave out `keep=optimizer`" + (", or use the same optimizer in both" if previous is not None else ""),
    )


def long_warmup(warmup: Setting, epochs: Setting) -> Diagnostic:
    return error(
        "long-warmup",
        f"the warm-up lasts {value_text(warmup.value)}, and the phase only {value_text(epochs.value)}",
        *spots((warmup.origin, "the full learning rate is never reached"), (epochs.origin, "the length of the phase")),
        fix="write a shorter one, or a percentage: `warmup=10%`",
    )
