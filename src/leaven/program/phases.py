"""One function per phase: what keeps still, what is made small, how, and the loop itself."""

import re

from leaven.catalog.hooks import PARAMETERS_METHOD
from leaven.catalog.values import Invocation, Quantity, Setting
from leaven.plan.plan import ParameterGroup, Plan, Reinitialise, TrainPhase
from leaven.program.code import ARGS, Bracketed, Code, Function, Item, call, listing, mapping, statement, text
from leaven.program.loop import loop
from leaven.program.schedules import schedule_statement
from leaven.program.techniques import Teachers, Used, built_once, calls, made, used_in, with_state
from leaven.program.values import Values, cite, cite_call, is_own_function

_PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
STATE = ("module", "optimizer", "schedule")  # what every checkpoint holds


def function_name(phase: TrainPhase, plan: Plan) -> str:
    """`train_fine_tune`; where there is one phase only, `train`."""
    if len(plan.phases) == 1:
        return "train"
    slug = _slug(phase)
    is_alone = [_slug(other) for other in plan.phases].count(slug) == 1
    return f"train_{slug}" if is_alone else f"train_{slug}_{plan.phases.index(phase) + 1}"


def _slug(phase: TrainPhase) -> str:
    return re.sub(r"\W+", "_", phase.name.lower(), flags=re.ASCII).strip("_") or "phase"


def phase_function(phase: TrainPhase, plan: Plan, values: Values, teachers: Teachers) -> Function:
    with values.noting() as names:
        body = _body(phase, plan, values, teachers)
    parameters = ["run: runtime.Run", "module: nn.Module", "data: runtime.Data", "metrics: task.Metrics"]
    if "args" in names:
        parameters.append(ARGS)
    local = ["    fabric = run.fabric"] if any("fabric" in line for line in body) else []
    if "classes" in names:
        local.append("    classes = len(data.classes)")
    summary = f'    """{_summary(phase)}"""'
    return Function(function_name(phase, plan), tuple(parameters), "None", [summary, *local, *body])


def _body(phase: TrainPhase, plan: Plan, values: Values, teachers: Teachers) -> list[str]:
    techniques = used_in(phase)
    lines: list[str] = []
    if phase.is_remembered:
        lines += statement("", call("run.add_snapshot", text(phase.name), call("runtime.frozen_copy", "module")))
    if not phase.trains:
        techniques = [one for one in techniques if one.prepares]
    built, teachers = built_once(techniques, values, teachers)
    lines += [*built, *_preparation(phase, techniques, values, teachers)]
    lines += _still(phase)
    if not phase.trains:
        ended = [f"    {line}" for line in calls(techniques, "at_end")]
        return [*lines, *_phase(phase, plan, values), *ended, "    phase.finish(module)"]
    return [
        *lines,
        *_criterion(phase, values),
        *_optimizer(phase, techniques, values),
        *_phase(phase, plan, values),
        *schedule_statement(phase, plan, values),
        *_setup(phase, plan, values),
        *(line for one in techniques if not one.is_made_first for line in made(one, values, teachers)),
        *statement("", call("phase.restore", **{name: name for name in [*STATE, *with_state(techniques)]})),
        "",
        *loop(phase, techniques, plan, values),
    ]


def precision_code(precision: str) -> Code:
    """A precision as Fabric calls it."""
    return "runtime.best_precision()" if precision == "auto" else text(_PRECISIONS[precision])


def _summary(phase: TrainPhase) -> str:
    place = cite(phase.because)
    where = f", {place}" if place.startswith(("line", "option")) or ".leaven" in place else ""
    told = f'Phase "{phase.name}"{where}: {_length(phase.epochs)}'
    if phase.freeze is not None:
        told += f"; {phase.freeze.trainable:,} of {phase.freeze.total:,} parameters trainable"
    return told.replace("\\", "\\\\").replace('"""', "'''") + "."


def _length(epochs: Setting) -> str:
    if epochs.syntax is not None or not isinstance(epochs.value, Quantity):
        return "as many epochs as asked for"
    return "1 epoch" if epochs.value.amount == 1 else f"{epochs.value.amount:g} epochs"


# -- before the loop


def _preparation(phase: TrainPhase, techniques: list[Used], values: Values, teachers: Teachers) -> list[str]:
    """What changes the model before anything is trained, in the order of the recipe; then what else must be there."""
    lines: list[str] = []
    for one in [*phase.preparations, *(use for use in phase.techniques if use not in phase.preparations)]:
        if isinstance(one, Reinitialise):
            more: dict[str, Code] = {} if one.how == "default" else {"how": text(one.how)}
            paths = listing(*(text(path) for path in one.paths))
            lines += statement("", call("runtime.reinit", "module", paths, **more), cite(one.because))
            continue
        used = next((each for each in techniques if each.use is one), None)
        if used is not None and used.is_made_first:
            lines += made(used, values, teachers)
    return lines


def _still(phase: TrainPhase) -> list[str]:
    """What keeps still."""
    hold = phase.freeze
    if hold is None:
        return ["    runtime.unfreeze(module)"] if phase.unfreezes_all else []
    named: dict[str, Code] = {"all_but" if hold.is_all_but else "only": listing(*(text(path) for path in hold.paths))}
    if hold.norms == "train":
        named["norms"] = text("train")
    if hold.dropout != "off":
        named["dropout"] = text("on") if hold.dropout == "on" else listing(*map(text, hold.dropout))
    return statement("", call("runtime.freeze", "module", **named), cite(*hold.because))


def _criterion(phase: TrainPhase, values: Values) -> list[str]:
    loss = phase.loss
    code: Code
    match loss.card.name:
        case "focal":
            code = values.call(loss, function="runtime.FocalLoss")
        case _ if is_own_function(loss):
            return statement("criterion = ", values.function(loss), cite_call(loss))
        case _:
            tensors = _tensors(loss, values)
            code = call(values.target(loss), *values.arguments(loss, frozenset(tensors)), **tensors)
    is_placed = any(_holds_numbers(setting) for setting in loss.settings)
    return statement("criterion = ", code, cite_call(loss), suffix=".to(fabric.device)" if is_placed else "")


def _tensors(loss: Invocation, values: Values) -> dict[str, Code]:
    """Arguments that torch wants as tensors."""
    found: dict[str, Code] = {}
    for setting in loss.settings:
        parameter = loss.card.parameter(setting.name)
        name = (parameter.target if parameter else None) or setting.name
        if setting.name == "class_weights" and setting.value == "balanced":
            found[name] = call("runtime.balanced_weights", "data.train")
        elif _holds_numbers(setting):
            found[name] = call(values.imports.use("torch.tensor"), values.setting(setting))
    return found


def _holds_numbers(setting: Setting) -> bool:
    """Whether a loss keeps a setting as a tensor, which must lie where the outputs lie."""
    if setting.name in ("class_weights", "weight", "pos_weight", "alpha"):
        return setting.value is not None
    return False


def _optimizer(phase: TrainPhase, techniques: list[Used], values: Values) -> list[str]:
    optimizer = phase.optimizer
    parameters = call("runtime.trainable", "module")
    if phase.groups:
        parameters = call("runtime.parameter_groups", "module", *(_group(group, values) for group in phase.groups))
    lines = statement("optimizer = ", values.call(optimizer, parameters), cite_call(optimizer))
    for one in techniques:
        if one.has(PARAMETERS_METHOD):
            lines.append(f'    optimizer.add_param_group({{"params": list({one.name}.parameters())}})')
    lines += [f"    {line}" for line in calls(techniques, "on_optimizer")]
    if phase.takes_optimizer:
        lines.append(f"    run.load_optimizer_state(optimizer, module)  # {cite(phase.because)}")
    return lines


def _group(group: ParameterGroup, values: Values) -> Item:
    paths = listing(*(text(path) for path in group.paths))
    settings = mapping({setting.name: values.setting(setting) for setting in group.settings})
    return Item(Bracketed("(", (Item(paths), Item(settings)), ")"), comment=cite(group.because))


def _phase(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    named: dict[str, Code] = {"epochs": values.setting(phase.epochs), "data": "data"}
    accumulate = plan.recipe.train["accumulate"]
    origins = [phase.epochs.origin]
    if accumulate.value != 1:
        named["accumulate"] = values.setting(accumulate)
        origins.append(accumulate.origin)
    if phase.precision is not None:
        named["precision"] = precision_code(phase.precision)
    if phase.is_last:
        named["is_last"] = "True"
    return statement("phase = ", call("run.phase", text(phase.name), **named), cite(*origins))


def _setup(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    compiled = plan.recipe.train["compile"]
    if compiled.value:
        setup = call("fabric.setup", call(values.imports.use("torch.compile"), "module"), "optimizer")
        return statement("model, optimizer = ", setup, cite(compiled.origin))
    return ["    model, optimizer = fabric.setup(module, optimizer)"]
