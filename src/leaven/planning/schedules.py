"""The learning-rate schedule of a phase, its lengths as numbers of optimizer steps."""

from leaven.binding.parameter_defaults import is_chosen
from leaven.catalog.values import Invocation, Quantity, Setting
from leaven.plan.plan import Metric, UseSchedule, is_lower_better
from leaven.plan.values import Argument, Calculation, Call, Value, Variable
from leaven.planning.translate import because, because_of_call, call_of, call_text, plain_value, setting_text, value_of

_OVER_THE_PHASE = {"cosine", "linear", "polynomial", "one_cycle"}  # schedules that take its number of steps
_FUNCTIONS = {"step": "step_down", "exponential": "step_down"}
_OPTIMIZER, _STEPS, _STEPS_PER_EPOCH = map(Variable, ("optimizer", "phase.total_steps", "phase.steps_per_epoch"))


def use_schedule(schedule: Invocation, metrics: tuple[Metric, ...]) -> UseSchedule:
    is_leavens = schedule.card.kind != "user" and schedule.card.source == "leaven"
    return UseSchedule(
        call=_leavens(schedule, metrics) if is_leavens else _library(schedule),
        stepped_by=schedule.card.schedule.stepped_by,
        score=str(schedule.value("score", "val.loss")),
        warms_up=_warms_up(schedule),
    )


def _library(schedule: Invocation) -> Call:
    chosen = {setting.name for setting in schedule.settings if is_chosen(setting, schedule)}
    needs_steps = schedule.card.schedule.needs_total_steps and not {"total_steps", "epochs"} & chosen
    return call_of(schedule, _OPTIMIZER, more=[Argument("total_steps", _STEPS)] if needs_steps else [])


def _leavens(schedule: Invocation, metrics: tuple[Metric, ...]) -> Call:
    name = schedule.card.name
    arguments = [Argument("", _OPTIMIZER)]
    if name in _OVER_THE_PHASE:
        arguments.append(Argument("", _STEPS))
    if name == "exponential":
        arguments.append(Argument("every", _STEPS_PER_EPOCH))
    for setting in schedule.settings:
        if setting.name == "score":
            arguments.append(Argument("higher_is_better", not is_lower_better(str(setting.value), metrics)))
        elif is_chosen(setting, schedule) or (setting.name == "warmup" and _warms_up(schedule)):
            is_share = setting.name == "warmup" and is_percentage(setting) and name in _OVER_THE_PHASE
            value = share_of(setting) if is_share else _in_steps(setting)
            as_named = {"warmup": "warmup_share" if is_share else "warmup_steps"}.get(setting.name, setting.name)
            arguments.append(Argument(as_named, value, setting_text(setting, schedule), because(setting.origin)))
    return Call(
        target=f"leaven.runtime.{_FUNCTIONS.get(name, name)}",
        arguments=tuple(arguments),
        text=call_text(schedule),
        because=because_of_call(schedule),
    )


def _warms_up(schedule: Invocation) -> bool:
    warmup = schedule.value("warmup")
    return not isinstance(warmup, Quantity | None) or bool(warmup and warmup.amount)


def _in_steps(setting: Setting) -> Value:
    """A length of time as a number of optimizer steps."""
    value = setting.value
    if isinstance(value, tuple) and setting.name == "at":
        return tuple(Calculation("*", plain_value(each), _STEPS_PER_EPOCH) for each in value)
    amount = value_of(setting)
    if setting.name not in ("every", "warmup"):
        return amount
    match value.unit if isinstance(value, Quantity) else "epochs":
        case "epochs" if amount == 1:
            return _STEPS_PER_EPOCH
        case "epochs":
            steps = Calculation("*", amount, _STEPS_PER_EPOCH)
            is_whole = isinstance(value, Quantity) and isinstance(value.amount, int)
            return steps if is_whole else rounded(steps)
        case "%":
            return rounded(Calculation("*", share_of(setting), _STEPS))
    return amount


def is_percentage(setting: Setting) -> bool:
    return isinstance(setting.value, Quantity) and setting.value.unit == "%"


def share_of(setting: Setting) -> Value:
    """A percentage as a number from 0 to 1."""
    if setting.syntax is None and isinstance(setting.value, Quantity):
        return float(f"{setting.value.amount / 100:g}")
    return Calculation("/", value_of(setting), 100)


def rounded(value: Value) -> Call:
    return Call("round", (Argument("", value),))
