"""Losses and metrics against the task, optimizers and schedules against their phase; models with own losses."""

from collections.abc import Iterator, Sequence

from leaven.binding.scores import measured_scores
from leaven.catalog.traits import TaskTraits
from leaven.catalog.values import Invocation, Quantity, Written, is_written
from leaven.formats.imbalance import are_imbalanced
from leaven.language.diagnostics import Diagnostic
from leaven.messages import training as messages
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Phase, Reinit, Technique


def check(draft: Draft) -> Iterator[Diagnostic]:
    task = draft.data_facts.task
    if task.is_known:
        for loss in {id(phase.loss): phase.loss for phase in draft.phases}.values():  # one for all phases, once
            if task.traits.target_kind not in loss.card.loss.targets:
                yield messages.for_other_task(loss, loss.card.loss.targets, task.title, task.traits.loss)
            yield from _arguments(loss, task.title, task.traits)
        classes = draft.data_facts.names if task.traits.target_kind == "class" else ()
        yield from _metrics(draft.metrics, task.title, task.traits, classes)
        yield from _scores(draft.metrics, task.traits)
        targets = draft.data.sampler.card.sampler.targets if draft.data.sampler.card.kind == "sampler" else ()
        if targets and task.traits.target_kind not in targets:
            yield messages.sampler_for_other_task(draft.data.sampler, task.title)
        yield from _balance(draft)
    for at, phase in enumerate(draft.phases):
        yield from _warmup(phase)
        changes_model = any(isinstance(technique, Reinit | Technique) for technique in phase.techniques)
        if not phase.trains and is_written(phase.epochs.origin) and not changes_model:
            yield messages.no_epochs(phase.epochs, phase.name)
        yield from _kept_optimizer(phase, draft.phases[:at])
    yield from _own_losses(draft)


def _balance(draft: Draft) -> Iterator[Diagnostic]:
    """Imbalanced classes that nothing in the recipe takes into account."""
    counts, names = draft.data_facts.class_counts, draft.data_facts.names
    # The first metric chooses the best epoch.
    judged = any(is_written(first.origin) and first.card.bare_name != "accuracy" for first in draft.metrics[:1])
    weighted = any(is_written(phase.loss.origin) for phase in draft.phases) or is_written(draft.data.sampler.origin)
    adjusted = any(call.card.name == "logit_adjustment" for phase in draft.phases for call in phase.calls)
    if not are_imbalanced(counts) or judged or weighted or adjusted:
        return
    most, fewest = counts.index(max(counts)), counts.index(min(counts))
    share = counts[most] / sum(counts)
    larger, smaller = (names[most], counts[most]), (names[fewest], counts[fewest])
    yield messages.unbalanced(larger, smaller, share, draft.data.source.origin, len(counts) == 2)


def _metrics(
    metrics: Sequence[Invocation], title: str, task: TaskTraits, classes: Sequence[str]
) -> Iterator[Diagnostic]:
    for metric in metrics:
        known = metric.card.metric
        if task.target_kind not in known.targets:
            yield messages.for_other_task(metric, known.targets, title, task.metrics)
        elif not known.is_single_number and not known.scores:
            yield messages.metric_of_several_numbers(metric, task.metrics)
        yield from _arguments(metric, title, task)
        of = metric.setting("of") if classes and metric.card.kind == "metric" else None
        if of is not None and isinstance(of.value, str) and of.value not in classes:
            yield messages.metric_of_unknown_class(of, classes)


def _scores(metrics: Sequence[Invocation], task: TaskTraits) -> Iterator[Diagnostic]:
    """Metrics that would be recorded under one name, so that one overwrites the other."""
    owners: dict[str, Invocation] = {}
    for metric in metrics:
        for name in measured_scores([metric]):
            if name in owners:
                yield messages.repeated_score(name, metric, owners[name])
            elif name == "loss" and task.has_eval_loss:
                yield messages.score_named_loss(metric)
            owners.setdefault(name, metric)


def _arguments(call: Invocation, title: str, task: TaskTraits) -> Iterator[Diagnostic]:
    """Arguments that make sense for other targets only."""
    for setting in call.settings:
        parameter = call.card.parameter(setting.name)
        if parameter is None or not parameter.targets or setting.value == parameter.default:
            continue
        if task.target_kind not in parameter.targets and isinstance(setting.origin, Written):
            yield messages.argument_for_other_task(call, setting, parameter.targets, title)


def _warmup(phase: Phase) -> Iterator[Diagnostic]:
    """A warm-up as long as its phase."""
    warmup, epochs = phase.schedule.setting("warmup"), phase.epochs.value
    if warmup is None or not isinstance(warmup.origin, Written) or not isinstance(epochs, Quantity):
        return
    match warmup.value:
        case Quantity(amount, "epochs") if amount >= epochs.amount > 0:
            yield messages.long_warmup(warmup, phase.epochs)


def _kept_optimizer(phase: Phase, before: Sequence[Phase]) -> Iterator[Diagnostic]:
    """The state of an optimizer is kept only by another of its kind."""
    if not phase.keeps_optimizer:
        return
    trained = next((earlier for earlier in reversed(before) if earlier.trains), None)
    previous = trained.optimizer.invocation.card if trained is not None and trained.solver is None else None
    if previous is None or previous.name != phase.optimizer.invocation.card.name:
        yield messages.kept_optimizer(phase.name, phase.origin, previous.name if previous is not None else None)


def _own_losses(draft: Draft) -> Iterator[Diagnostic]:
    """Models that compute their losses themselves: parts that need outputs for images alone, or a `val.loss`."""
    task = draft.data_facts.task
    for phase in draft.phases:
        if phase.loss.card.kind != "loss" or not phase.loss.card.loss.by_model:
            continue
        if phase.solver is not None:
            yield messages.not_solved(phase.solver, task.title)
        shrinking = [one.invocation for one in phase.prunings if one.removes_channels]
        yield from (messages.channels_stay(call, task.title) for call in shrinking)
        score = phase.schedule.setting("score")
        if score is not None and not is_written(score.origin) and str(score.value) == "val.loss":  # its default
            better = next(iter(name for metric in draft.metrics for name in metric.card.metric.scores), "map")
            yield messages.no_loss_to_watch(phase.schedule, f"val.{better}")
    train = draft.train
    if train is not None and not task.traits.has_eval_loss:
        automatic = [
            one
            for one in (train.batch, train.precision, train.compile)
            if one.value == "auto" and is_written(one.origin)
        ]
        yield from (messages.not_measured(one, task.title) for one in automatic)
