"""Reports about losses, metrics, optimizers and schedules that do not fit the task or the phase."""

from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Setting
from leaven.language.diagnostics import Diagnostic, Spot, error
from leaven.messages.describe import task_name
from leaven.messages.places import span_of, spots

_METRICS = "use `accuracy()`, `f1()` or `auroc()`"


def loss_for_other_task(loss: Invocation, task: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{loss.card.friendly}` does not compare classes, and the data is for {task_name(task)}",
        Spot(span_of(loss.origin), "can't be used here"),
        fix="use `cross_entropy()`, `focal()` or `bce()`",
    )


def metric_for_other_task(metric: Invocation, task: str) -> Diagnostic:
    family = metric.card.metric.family
    what = f"is for {family}" if family else "does not compare classes"
    return error(
        "wrong-task",
        f"`{metric.card.friendly}` {what}, and the data is for {task_name(task)}",
        Spot(span_of(metric.origin), "can't be used here"),
        fix=_METRICS,
    )


def metric_of_several_numbers(metric: Invocation) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{metric.card.friendly}` is not a single number, and can't be logged for every epoch",
        Spot(span_of(metric.origin), "can't be used here"),
        fix=f"{_METRICS}; `leaven evaluate` prints the confusion matrix of a bundle",
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
