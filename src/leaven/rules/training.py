"""Losses and metrics against the task; optimizers and schedules against their phase."""

from collections.abc import Iterator, Sequence

from leaven.catalog.values import Invocation, Quantity, Written
from leaven.language.diagnostics import Diagnostic
from leaven.messages import training as messages
from leaven.recipe.draft import Draft
from leaven.recipe.recipe import Phase


def check(draft: Draft) -> Iterator[Diagnostic]:
    task = draft.data_facts.task
    if task.endswith("-classification"):
        losses = {id(phase.loss): phase.loss for phase in draft.phases}  # one for all phases is checked once
        yield from _losses(list(losses.values()), task)
        yield from _metrics(draft.metrics, task)
    for at, phase in enumerate(draft.phases):
        yield from _warmup(phase)
        yield from _kept_optimizer(phase, draft.phases[:at])


def _losses(losses: Sequence[Invocation], task: str) -> Iterator[Diagnostic]:
    for loss in losses:
        if not loss.card.loss.compares_classes:
            yield messages.loss_for_other_task(loss, task)


def _metrics(metrics: Sequence[Invocation], task: str) -> Iterator[Diagnostic]:
    for metric in metrics:
        if metric.card.source != "torchmetrics":
            continue
        if metric.card.metric.family != "classification":
            yield messages.metric_for_other_task(metric, task)
        elif not metric.card.metric.is_single_number:
            yield messages.metric_of_several_numbers(metric)


def _warmup(phase: Phase) -> Iterator[Diagnostic]:
    """A warm-up as long as its phase."""
    warmup, epochs = phase.schedule.setting("warmup"), phase.epochs.value
    if warmup is None or not isinstance(warmup.origin, Written) or not isinstance(warmup.value, Quantity):
        return
    if not isinstance(epochs, Quantity) or warmup.value.unit != "epochs" or epochs.amount == 0:
        return
    if warmup.value.amount >= epochs.amount:
        yield messages.long_warmup(warmup, phase.epochs)


def _kept_optimizer(phase: Phase, before: Sequence[Phase]) -> Iterator[Diagnostic]:
    """The state of an optimizer is kept only by another of its kind."""
    if not phase.keeps_optimizer:
        return
    previous = next((earlier.optimizer.invocation.card for earlier in reversed(before) if earlier.trains), None)
    if previous is None or previous.name != phase.optimizer.invocation.card.name:
        yield messages.kept_optimizer(phase.name, phase.origin, previous.name if previous is not None else None)
