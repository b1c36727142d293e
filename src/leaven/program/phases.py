"""One function per phase: what keeps still, what is made small, how, and the loop itself."""

import re

from leaven.plan.plan import Measure, ParameterGroup, Plan, TrainPhase
from leaven.program.code import ARGS, INDENT, Bracketed, Code, Function, Item, call, listing, mapping, statement, text
from leaven.program.values import Values, cite, cite_call, is_own_function
from leaven.recipe.choices import is_chosen
from leaven.recipe.recipe import Invocation, Override, Quantity, Setting

TRIES_SEVERAL_TIMES = ("LBFGS",)  # optimizers that compute the loss anew in every step
TAKES_CURVATURE = ("Adahessian",)  # optimizers that differentiate twice
_SHAPES = {"cosine", "linear", "polynomial"}  # schedules that are drawn over the whole phase


def function_name(phase: TrainPhase, plan: Plan) -> str:
    """`train_fine_tune`; where there is one phase only, `train`."""
    if len(plan.phases) == 1:
        return "train"
    slug = _slug(phase)
    is_alone = [_slug(other) for other in plan.phases].count(slug) == 1
    return f"train_{slug}" if is_alone else f"train_{slug}_{plan.phases.index(phase) + 1}"


def _slug(phase: TrainPhase) -> str:
    return re.sub(r"\W+", "_", phase.name.lower(), flags=re.ASCII).strip("_") or "phase"


def phase_function(phase: TrainPhase, plan: Plan, values: Values) -> Function:
    with values.noting() as names:
        body = [
            *_preparation(phase, values),
            *_criterion(phase, values),
            *_optimizer(phase, values),
            *_phase(phase, plan, values),
            *_schedule(phase, plan, values),
            *_setup(phase, plan, values),
            "",
            *_loop(phase, plan, values),
        ]
    parameters = ["run: runtime.Run", "module: nn.Module", "data: runtime.Data", "metrics: task.Metrics"]
    if "args" in names:
        parameters.append(ARGS)
    local = ["    fabric = run.fabric"]
    if "classes" in names:
        local.append("    classes = len(data.classes)")
    summary = f'    """{_summary(phase)}"""'
    return Function(function_name(phase, plan), tuple(parameters), "None", [summary, *local, *body])


def _summary(phase: TrainPhase) -> str:
    place = cite(phase.because)
    where = f", {place}" if place.startswith(("line", "option")) or ".leaven" in place else ""
    told = f'Phase "{phase.name}"{where}: {_length(phase.epochs)}'
    if phase.hold is not None:
        told += f"; {phase.hold.moving:,} of {phase.hold.total:,} weights move"
    return told.replace("\\", "\\\\").replace('"""', "'''") + "."


def _length(epochs: Setting) -> str:
    if epochs.syntax is not None or not isinstance(epochs.value, Quantity):
        return "as many epochs as asked for"
    return "1 epoch" if epochs.value.amount == 1 else f"{epochs.value.amount:g} epochs"


# -- before the loop


def _preparation(phase: TrainPhase, values: Values) -> list[str]:
    lines: list[str] = []
    for redraw in phase.redraws:
        more: dict[str, Code] = {} if redraw.how == "default" else {"how": text(redraw.how)}
        paths = listing(*(text(path) for path in redraw.paths))
        lines += statement("", call("runtime.reinit", "module", paths, **more), cite(redraw.because))
    if phase.hold is None:
        return [*lines, "    runtime.lift(module)  # what was frozen moves again"] if phase.lifts else lines
    hold = phase.hold
    named: dict[str, Code] = {"all_but" if hold.is_all_but else "only": listing(*(text(path) for path in hold.paths))}
    if hold.norms == "train":
        named["norms"] = text("train")
    return [*lines, *statement("", call("runtime.freeze", "module", **named), cite(*hold.because))]


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


def _optimizer(phase: TrainPhase, values: Values) -> list[str]:
    optimizer = phase.optimizer
    parameters = call("runtime.trainable", "module")
    if phase.groups:
        parameters = call("runtime.groups", "module", *(_group(group, values) for group in phase.groups))
    return statement("optimizer = ", values.call(optimizer, parameters), cite_call(optimizer))


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
    if phase.is_last:
        named["is_last"] = "True"
    return statement("phase = ", call("run.phase", text(phase.name), **named), cite(*origins))


def _schedule(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    schedule = phase.schedule
    card = schedule.card
    if card.kind == "user" or card.source != "leaven":
        more: dict[str, Code] = {}
        if card.target.endswith(".OneCycleLR") and not {"total_steps", "epochs"} & _chosen(schedule):
            more["total_steps"] = "phase.steps"
        given = values.arguments(schedule, frozenset(more), by_name=True)
        return statement("schedule = ", call(values.target(schedule), "optimizer", *given, **more), cite_call(schedule))
    named: dict[str, Code] = {}
    for setting in schedule.settings:
        if setting.name == "score":
            named["higher_is_better"] = repr(not _is_lower_better(str(setting.value), plan.metrics))
        elif is_chosen(setting, schedule) or (setting.name == "warmup" and _is_warmed_up(schedule)):
            named[setting.name] = _in_steps(setting, values)
    function, first = _schedule_function(card.name)
    if card.name == "exponential":
        named = {"every": "phase.steps_per_epoch", **named}
    return statement("schedule = ", call(f"runtime.{function}", "optimizer", *first, **named), cite_call(schedule))


def _chosen(invocation: Invocation) -> set[str]:
    return {setting.name for setting in invocation.settings if is_chosen(setting, invocation)}


def _schedule_function(name: str) -> tuple[str, list[Code]]:
    functions = {"step": "step_down", "exponential": "step_down"}
    first: list[Code] = ["phase.steps"] if name in _SHAPES or name == "one_cycle" else []
    return functions.get(name, name), first


def _is_warmed_up(schedule: Invocation) -> bool:
    warmup = schedule.value("warmup")
    return not isinstance(warmup, Quantity | None) or bool(warmup and warmup.amount)


def _in_steps(setting: Setting, values: Values) -> Code:
    """A length of time as a number of optimizer steps."""
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
        case "%" if setting.syntax is None and isinstance(value, Quantity):
            return f"round({value.amount / 100:g} * phase.steps)"
        case "%":
            return f"round({amount} / 100 * phase.steps)"
    return amount


def _is_lower_better(score: str, metrics: tuple[Measure, ...]) -> bool:
    name = score.rpartition(".")[2]
    return name == "loss" or any(measure.label == name and measure.lower_is_better for measure in metrics)


def _setup(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    compiled = plan.recipe.train["compile"]
    if compiled.value:
        made = call("fabric.setup", call(values.imports.use("torch.compile"), "module"), "optimizer")
        lines = statement("model, optimizer = ", made, cite(compiled.origin))
    else:
        lines = ["    model, optimizer = fabric.setup(module, optimizer)"]
    state = ["module=module", "optimizer=optimizer", "schedule=schedule"]
    for technique in phase.techniques:
        lines += _technique(technique, values)
        if technique.card.name == "ema":
            state.append("ema=ema")
    return [*lines, f"    phase.restore({', '.join(state)})"]


def _technique(technique: Invocation, values: Values) -> list[str]:
    reason = cite_call(technique)
    if technique.card.name == "ema":
        averaged = values.imports.use("torch.optim.swa_utils.AveragedModel")
        average = values.imports.use("torch.optim.swa_utils.get_ema_multi_avg_fn")
        decay = values.setting(technique["decay"])
        made = call(averaged, "module", multi_avg_fn=call(average, decay), use_buffers="True")
        return statement("ema = ", made, reason)
    alpha, probability = technique["alpha"], technique["probability"]
    kind = {"mixup": "MixUp", "cutmix": "CutMix"}[technique.card.name]
    mixed: Code = call(
        values.imports.use(f"torchvision.transforms.v2.{kind}"),
        alpha=values.setting(alpha),
        num_classes="len(data.classes)",
    )
    if probability.value != 1 or probability.syntax is not None:
        chance = values.imports.use("torchvision.transforms.v2.RandomApply")
        mixed = call(chance, listing(mixed), p=values.setting(probability))
    return statement(f"{technique.card.name} = ", mixed, reason)


# -- the loop


def _loop(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    stop: dict[str, Code] = {}
    comment = ""
    if phase.early_stop is not None:
        score, at_least = phase.early_stop.value("score"), phase.early_stop["at_least"]
        stop["stop_early"] = text(str(score))
        stop["patience"] = values.setting(phase.early_stop["patience"])
        if at_least.value:
            stop["at_least"] = values.setting(at_least)
        comment = cite_call(phase.early_stop)
    lines = statement("for _ in ", call("phase.epochs", **stop), comment, suffix=":")
    lines += [f"{INDENT * 2}for images, labels in phase.batches():"]
    lines += [f"{INDENT * 3}{line}" if line else "" for line in _batch(phase, plan, values)]
    lines += _end_of_epoch(phase, values)
    if _has(phase, "ema"):
        lines += ["    module.load_state_dict(ema.module.state_dict())  # the averaged weights go on"]
    return lines


def _has(phase: TrainPhase, technique: str) -> bool:
    return any(one.card.name == technique for one in phase.techniques)


def _batch(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    """What happens to one batch."""
    train = plan.recipe.train
    mixes = [one.card.name for one in phase.techniques if one.card.name in ("mixup", "cutmix")]
    lines = [f"images, labels = {name}(images, labels)" for name in mixes]
    loss = "loss = criterion(model(images), labels)"
    if phase.train_step is not None:
        loss = (
            f"loss = {_name(phase.train_step)}(model, (images, labels), criterion)  # {cite(phase.train_step.origin)}"
        )
    accumulate = train["accumulate"]
    steps = _step_lines(phase, plan, values)
    optimizer = phase.optimizer.card.target.rpartition(".")[2]
    if optimizer in TRIES_SEVERAL_TIMES:
        return [*lines, *_closure(loss, values), *steps, "phase.saw(loss)"]
    backward = "fabric.backward(loss, create_graph=True)" if optimizer in TAKES_CURVATURE else "fabric.backward(loss)"
    if accumulate.value == 1:
        return [*lines, loss, backward, *steps, "phase.saw(loss)"]
    return [
        *lines,
        "with fabric.no_backward_sync(model, enabled=not phase.is_step):",
        f"    {loss}",
        f"    fabric.backward(loss / {values.operand(accumulate)})  # {cite(accumulate.origin)}",
        "if phase.is_step:",
        *(f"    {line}" for line in steps),
        "phase.saw(loss)",
    ]


def _closure(loss: str, values: Values) -> list[str]:
    """The loss as a function, for an optimizer that looks at it more than once in a step."""
    values.imports.use("torch.Tensor")
    return [
        "",
        "def closure(images: torch.Tensor = images, labels: torch.Tensor = labels) -> torch.Tensor:",
        "    optimizer.zero_grad()",
        f"    {loss}",
        "    fabric.backward(loss)",
        "    return loss",
        "",
        "loss = optimizer.step(closure)",
    ]


def _step_lines(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    clip = plan.recipe.train["clip"]
    lines: list[str] = []
    if clip.value is not None:
        lines.append(f"fabric.clip_gradients(model, optimizer, max_norm={values.setting(clip)})  # {cite(clip.origin)}")
    if phase.optimizer.card.target.rpartition(".")[2] not in TRIES_SEVERAL_TIMES:
        lines += ["optimizer.step()", "optimizer.zero_grad()"]
    if phase.steps_schedule_by == "step":
        lines.append("schedule.step()")
    if phase.steps_schedule_by == "score" and _is_warmed_up(phase.schedule):
        lines.append("schedule.climb()")
    if _has(phase, "ema"):
        lines.append("ema.update_parameters(module)")
    return lines


def _end_of_epoch(phase: TrainPhase, values: Values) -> list[str]:
    measured = "ema.module" if _has(phase, "ema") else "module"
    arguments: list[Code] = ["run", measured, "data.val", "metrics", "criterion"]
    reason = ""
    if phase.eval_step is not None:
        arguments.append(f"step={_name(phase.eval_step)}")
        reason = cite(phase.eval_step.origin)
    lines = statement("scores = ", call("task.evaluate", *arguments), reason, depth=2)
    kept = ", weights=ema.module" if _has(phase, "ema") else ""
    lines.append(f"{INDENT * 2}phase.record(scores{kept})")
    if phase.steps_schedule_by == "epoch":
        lines.append(f"{INDENT * 2}schedule.step()")
    if phase.steps_schedule_by == "score":
        watched = str(phase.schedule.value("score", "val.loss"))
        lines.append(f"{INDENT * 2}schedule.step(scores[{text(watched)}])")
    if phase.after_epoch is not None:
        call_of_hook = f"{_name(phase.after_epoch)}(phase, module, scores)"
        lines.append(f"{INDENT * 2}{call_of_hook}  # {cite(phase.after_epoch.origin)}")
    return lines


def _name(override: Override) -> str:
    return f"{override.function.module}.{override.function.name}"
