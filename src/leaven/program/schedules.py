"""The statement that makes the learning-rate schedule."""

from leaven.binding.parameter_defaults import is_chosen
from leaven.catalog.values import Invocation, Quantity, Setting
from leaven.plan.plan import Measure, Plan, TrainPhase
from leaven.program.code import Code, call, listing, statement
from leaven.program.values import Values, cite_call

_OVER_THE_PHASE = {"cosine", "linear", "polynomial", "one_cycle"}  # schedules that take its number of steps
_FUNCTIONS = {"step": "step_down", "exponential": "step_down"}


def schedule_statement(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    schedule = phase.schedule
    card = schedule.card
    if card.kind == "user" or card.source != "leaven":
        more: dict[str, Code] = {}
        if card.schedule.needs_total_steps and not {"total_steps", "epochs"} & _chosen(schedule):
            more["total_steps"] = "phase.steps"
        given = values.arguments(schedule, frozenset(more), by_name=True)
        return statement("schedule = ", call(values.target(schedule), "optimizer", *given, **more), cite_call(schedule))
    named: dict[str, Code] = {}
    for setting in schedule.settings:
        if setting.name == "score":
            named["higher_is_better"] = repr(not _is_lower_better(str(setting.value), plan.metrics))
        elif is_chosen(setting, schedule) or (setting.name == "warmup" and is_warmed_up(schedule)):
            named[setting.name] = _in_steps(setting, values, takes_share=card.name in _OVER_THE_PHASE)
    first: list[Code] = ["phase.steps"] if card.name in _OVER_THE_PHASE else []
    if card.name == "exponential":
        named = {"every": "phase.steps_per_epoch", **named}
    function = values.runtime(_FUNCTIONS.get(card.name, card.name))
    return statement("schedule = ", call(function, "optimizer", *first, **named), cite_call(schedule))


def _chosen(invocation: Invocation) -> set[str]:
    return {setting.name for setting in invocation.settings if is_chosen(setting, invocation)}


def is_warmed_up(schedule: Invocation) -> bool:
    warmup = schedule.value("warmup")
    return not isinstance(warmup, Quantity | None) or bool(warmup and warmup.amount)


def _in_steps(setting: Setting, values: Values, *, takes_share: bool) -> Code:
    """A length of time as a number of optimizer steps, or as their share where the schedule takes one."""
    value = setting.value
    amount = values.operand(setting)
    if isinstance(value, tuple) and setting.name == "at":
        at = [values.value(each) for each in value]
        return listing(*(f"{each} * phase.steps_per_epoch" for each in at))
    if setting.name not in ("every", "warmup"):
        return values.setting(setting)
    match value.unit if isinstance(value, Quantity) else "epochs":
        case "epochs" if amount == "1":
            return "phase.steps_per_epoch"
        case "epochs" if isinstance(value, Quantity) and isinstance(value.amount, int):
            return f"{amount} * phase.steps_per_epoch"
        case "epochs":
            return f"round({amount} * phase.steps_per_epoch)"
        case "%":
            is_known = setting.syntax is None and isinstance(value, Quantity)
            share = repr(float(f"{value.amount / 100:g}")) if is_known else f"{amount} / 100"
            return share if takes_share else f"round({share} * phase.steps)"
    return amount


def _is_lower_better(score: str, metrics: tuple[Measure, ...]) -> bool:
    name = score.rpartition(".")[2]
    return name == "loss" or any(measure.label == name and measure.lower_is_better for measure in metrics)
