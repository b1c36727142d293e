"""Reports about models that compute their losses themselves."""

from leaven.catalog.values import Invocation, Setting
from leaven.language.diagnostics import Diagnostic, error


def not_solved(solver: Invocation, task: str) -> Diagnostic:
    headline = f"the head of a model for {task} can't be solved"
    fix = "train it: remove `solver=`"
    return error("wrong-task", headline, (solver, "its losses depend on which boxes are matched"), fix=fix)


def channels_stay(pruning: Invocation, task: str) -> Diagnostic:
    headline = f"channels of a model for {task} can't be pruned"
    fix = "prune single weights instead: `prune unstructured(), …`"
    return error(
        "wrong-task", headline, (pruning, "dependencies between channels can't be traced through boxes"), fix=fix
    )


def not_measured(setting: Setting, task: str) -> Diagnostic:
    headline = f"`{setting.name}=auto` can't be measured in {task}"
    fix = f"set it: `train {setting.name}=…`"
    return error("wrong-task", headline, (setting, "it is measured with images alone"), fix=fix)


def no_loss_to_watch(schedule: Invocation, better: str) -> Diagnostic:
    name = schedule.card.bare_name
    headline = "`loss` is not measured in validation, as the model computes its losses in training only"
    fix = f"name another score: `schedule {name}(score={better})`"
    return error("unknown-score", headline, (schedule, f"`{name}` watches `val.loss`"), fix=fix)
