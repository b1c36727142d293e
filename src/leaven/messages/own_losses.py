"""Reports about models that compute their losses themselves."""

from leaven.catalog.values import Invocation, Setting
from leaven.language.diagnostics import Diagnostic, Spot, error
from leaven.messages.places import span_of


def not_solved(solver: Invocation, task: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"the head of a model for {task} can't be solved",
        Spot(span_of(solver.origin), "its losses depend on which boxes are matched"),
        fix="train it: remove `solver=`",
    )


def channels_stay(pruning: Invocation, task: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"channels of a model for {task} can't be pruned",
        Spot(span_of(pruning.origin), "what depends on a channel can't be traced through its boxes"),
        fix="set single weights to zero: `prune unstructured(), …`",
    )


def not_measured(setting: Setting, task: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{setting.name}=auto` can't be measured in {task}",
        Spot(span_of(setting.origin), "it is measured with images alone"),
        fix=f"say which: `train {setting.name}=…`",
    )


def no_loss_to_watch(schedule: Invocation, better: str) -> Diagnostic:
    name = schedule.card.bare_name
    return error(
        "unknown-score",
        "`loss` is not measured in validation, as the model computes its losses in training only",
        Spot(span_of(schedule.origin), f"`{name}` watches `val.loss`"),
        fix=f"name another score: `schedule {name}(score={better})`",
    )
