"""Models that compute their losses themselves: what needs a model that answers for images alone, or a `val.loss`."""

from collections.abc import Iterator

from leaven.catalog.values import is_written
from leaven.language.diagnostics import Diagnostic
from leaven.messages import training as messages
from leaven.recipe.reader import Draft

AUTO = "auto"


def check(draft: Draft) -> Iterator[Diagnostic]:
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
    if train is not None and task.known is not None and not task.known.has_eval_loss:
        automatic = [
            one for one in (train.batch, train.precision, train.compile) if one.value == AUTO and is_written(one.origin)
        ]
        yield from (messages.not_measured(one, task.title) for one in automatic)
