"""The parts of a plan that hold for a whole run: its settings, its metrics, its arguments and the user's code."""

from functools import reduce

from leaven.binding.scores import metric_label
from leaven.catalog.values import Invocation, Origin, Pending, Quantity, Score, is_written
from leaven.plan.plan import Metric, ProgramArg, Sweep, UserModule
from leaven.plan.values import Argument, Bound, Calculation, Call, Plain, Reference, Value, Variable
from leaven.planning.threads import threads_of
from leaven.planning.translate import (
    argument,
    arguments_of,
    because,
    because_of_call,
    call_of,
    function_of,
    is_user_function,
    path_text,
    plain_value,
)
from leaven.recipe.recipe import Checkpoint, Recipe
from leaven.recipe.task import Task

_LOGGERS = {"tensorboard": "TensorBoard", "mlflow": "MLflow"}
_TASKS = "leaven.tasks."
_PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


def run_call(recipe: Recipe, metrics: tuple[Metric, ...], monitor: str) -> Call:
    train, checkpoint = recipe.train, recipe.checkpoint
    arguments = [argument(train.seed), Argument("monitor", monitor, because=because(checkpoint.statement.origin))]
    if len(recipe.phases) > 1:  # a single phase is the whole run
        arguments.append(Argument("epochs", _total_epochs(recipe)))
    lower = tuple(metric.name for metric in metrics if metric.lower_is_better)
    if lower:
        arguments.append(Argument("lower_is_better", lower))
    settings = (train.devices, train.strategy, train.precision)
    chosen = [each for each in settings if is_written(each.origin) or each.syntax is not None]
    arguments += [
        precision_argument(str(each.value), each.origin) if each.name == "precision" else argument(each)
        for each in chosen
    ]
    if (threads := threads_of(recipe)) is not None:
        arguments.append(threads)
    loggers = [log for log in recipe.logs if log.card.name in _LOGGERS]
    if loggers:
        reasons = because(*(log.origin for log in loggers))
        arguments.append(Argument("loggers", tuple(map(_logger, loggers)), because=reasons))
    if policy := _checkpoint(checkpoint):
        call = Call("leaven.runtime.CheckpointPolicy", tuple(policy))
        arguments.append(Argument("checkpoint", call, because=because_of_call(checkpoint.statement)))
    return Call("leaven.runtime.Run", tuple(arguments))


def _total_epochs(recipe: Recipe) -> Value:
    """The epochs of all phases together; with an `arg` in it, a sum that the program adds up."""
    epochs = [argument(phase.epochs).value for phase in recipe.phases]
    known = sum(value for value in epochs if isinstance(value, int))
    unknown = [value for value in epochs if not isinstance(value, int)]
    return reduce(
        lambda left, right: Calculation("+", left, right), [*unknown, *([known] if known or not unknown else [])]
    )


def precision_argument(precision: str, origin: Origin) -> Argument:
    """A precision as Fabric calls it."""
    return Argument("precision", _PRECISIONS.get(precision, precision), precision, because(origin))


def _logger(log: Invocation) -> Value:
    target = f"leaven.runtime.{_LOGGERS[log.card.name]}"
    given = arguments_of(log)
    return Bound(Call(target, given)) if given else Reference(target)


def _checkpoint(checkpoint: Checkpoint) -> list[Argument]:
    every, keep = checkpoint.every, checkpoint.keep
    found: list[Argument] = []
    if is_written(every.origin) and isinstance(every.value, Quantity):
        found.append(argument(every, name=every.value.unit))
    if keep.value != "last_and_best":
        found.append(argument(keep))
    return found


# -- metrics


def metrics_of(recipe: Recipe) -> tuple[Metric, ...]:
    task = recipe.data.task
    return tuple(
        Metric(metric_label(each), _metric(each, task), lower_is_better=each.card.metric.higher_is_better is False)
        for each in recipe.metrics
    )


def _metric(metric: Invocation, task: Task) -> Call:
    if is_user_function(metric):
        mean = (Argument("", function_of(metric)),)
        return Call(task.path_of("Mean"), mean, because=because(metric.origin))
    if metric.card.kind == "user":
        return call_of(metric)
    one_class = metric.card.parameter("of")
    if one_class is not None and one_class.calls and isinstance(of := metric.value("of"), str):
        named = (Argument("", of), Argument("", Variable("class_names")))
        return Call(one_class.calls, named, text=call_of(metric).text, because=because(metric.origin))
    first = [
        Argument(name, Variable("outputs") if value == "outputs" else value)
        for name, value in task.traits.metric_arguments.items()
        if name in metric.card.metric.supplied
    ]
    given = call_of(metric, without=[each.name for each in first])
    average = metric.setting("average")
    if metric.card.source == "leaven" and metric.card.name != "accuracy" and average is not None:
        first += [] if given.argument("average") else [argument(average)]
    target = given.target
    if target.startswith(_TASKS):  # another task may have it, too
        target = task.path_of(given.name)
    return Call(target, (*first, *given.arguments), text=given.text, because=because(metric.origin))


def monitored(recipe: Recipe, metrics: tuple[Metric, ...]) -> str:
    """The score that says which epoch was the best."""
    by = recipe.checkpoint.by.value
    stop = recipe.phases[-1].early_stop
    if not isinstance(by, Score) and stop is not None:
        by = stop.score.value
    return str(by) if isinstance(by, Score) else f"val.{metrics[0].name}"


# -- the program's arguments, and the user's code


def program_args(recipe: Recipe, sweep: Sweep | None) -> tuple[ProgramArg, ...]:
    """The arguments of the command line. An `arg` without a default that is swept has the value of the first trial."""
    first = dict(sweep.trials[0].values) if sweep is not None else {}
    found = []
    for arg in recipe.args:
        default = first.get(arg.name) if isinstance(arg.value, Pending) else plain_value(arg.value)
        assert isinstance(default, Plain)
        found.append(ProgramArg(arg.name, arg.type, arg.choices, default, arg.help, because(arg.origin)))
    return tuple(found)


def user_modules(recipe: Recipe) -> tuple[UserModule, ...]:
    return tuple(
        UserModule(module.alias, path_text(module.place), is_file=True)
        if module.is_file and module.place is not None
        else UserModule(module.alias, module.target, is_file=False)
        for module in recipe.modules
    )
