"""One function per phase of a standalone program, with the loop in it; phases with the same loop share one."""

from leaven.plan.plan import Plan, TrainPhase, is_lower_better
from leaven.plan.values import Value
from leaven.program.code import INDENT, Code, Function, call, statement, text
from leaven.program.loop import ENDS, LEFT, after_epoch, batch_lines, cited_line, indented, is_shareable, unfreeze_later
from leaven.program.names import SHARED, function_names
from leaven.program.phases import build_for_loop, freezing, most_shared, phase_function, preparation
from leaven.program.plain_data import is_simple_split
from leaven.program.plain_values import PlainValues, precision_of
from leaven.program.techniques import Teachers, Used, built_once, calls, on_data, used_in, with_state
from leaven.program.values import cite, cite_all


def phase_functions(plan: Plan, values: PlainValues, teachers: Teachers) -> list[Function]:
    """The functions of the phases, after the loop that several of them share."""
    loops = [_loop_to_share(phase, values) for phase in plan.phases]
    shared = most_shared(loops)
    functions = [
        _phase_function(name, phase, values, teachers, is_sharing=bool(shared) and lines == shared)
        for name, phase, lines in zip(function_names(plan), plan.phases, loops, strict=True)
    ]
    return [*([_shared_function(shared, values)] if shared else []), *functions]


def _loop_to_share(phase: TrainPhase, values: PlainValues) -> list[str]:
    """The loop of a phase, if it needs nothing that only the function of its phase has."""
    techniques = used_in(phase, values.names)
    if not is_shareable(phase, techniques) or _needs_fabric(phase, values.plan) or phase.compile is not None:
        return []
    with values.noting() as names:
        lines = _loop(phase, techniques, values)
    return [] if names else lines


def _shared_function(lines: list[str], values: PlainValues) -> Function:
    parameters = [f"phase: {values.plain('run', 'Phase')}", "model: nn.Module"]
    parameters += [f"{name}: Any" for name in ("criterion", "optimizer", "schedule", "metrics")]
    return Function(SHARED, tuple(parameters), "None", ["    run, data = phase.run, phase.data", *lines])


def _phase_function(
    name: str, phase: TrainPhase, values: PlainValues, teachers: Teachers, *, is_sharing: bool
) -> Function:
    values.is_wrapped = precision_of(phase, values.plan) is not None
    with values.noting() as names:
        body = _body(phase, values, teachers, is_sharing=is_sharing)
    values.is_wrapped = False
    values.imports.add("from typing import Any")
    types = (values.plain("run", "Run"), values.plain("batches", "Data"), "Any")
    return phase_function(name, phase, values, types, names, body)


def _body(phase: TrainPhase, values: PlainValues, teachers: Teachers, *, is_sharing: bool) -> list[str]:
    techniques = used_in(phase, values.names)
    built, teachers = built_once(techniques, values, teachers)
    lines = [*on_data(techniques, values, teachers), *_fabric(phase, values), *_phase(phase, values)]
    lines += [*built, *preparation(phase, techniques, values, teachers), *freezing(phase, values)]
    if not phase.trains:
        return [*lines, *(f"    {line}" for line in calls(techniques, "at_end")), *_end(phase, values)]
    lines += build_for_loop(phase, techniques, values, teachers)
    if is_sharing:
        named = ("phase", "model", "criterion", "optimizer", "schedule", "metrics")
        end = _end(phase, values)
        left = ENDS * bool(end) if phase.is_last else LEFT
        return [*lines, *statement("", call(SHARED, *named), left), *end]
    if phase.early_stop is not None:
        made = call(values.plain("run", "EarlyStopping"), *values.items(phase.early_stop.settings))
        lines += statement("stopping = ", made, cite(*phase.early_stop.because))
    lines += ["", *_loop(phase, techniques, values)]
    lines += indented(_autocast(list(calls(techniques, "at_end")), values), 1)
    return [*lines, *_end(phase, values)]


# -- before the loop


def _needs_fabric(phase: TrainPhase, plan: Plan) -> bool:
    return precision_of(phase, plan) is not None or any("fabric" in use.wants for use in phase.techniques)


def _fabric(phase: TrainPhase, values: PlainValues) -> list[str]:
    """The line that makes what techniques and other precisions need of Lightning."""
    if not _needs_fabric(phase, values.plan):
        return []
    precision = precision_of(phase, values.plan)
    named: dict[str, Code] = {} if precision is None else {"precision": precision}
    because = (phase.precision or values.plan.run.argument("precision") or phase.epochs).because
    fabric = values.imports.use("lightning.fabric.Fabric")
    return statement("run.fabric = ", call(fabric, devices="1", **named), cite(*because) if named else "")


def _phase(phase: TrainPhase, values: PlainValues) -> list[str]:
    settings = [each for each in (phase.epochs, phase.accumulate) if each is not None]
    named = {each.name: values.value(each.value) for each in settings}
    kinds = ["AccumulatingPhase"] if phase.accumulate is not None else []
    if any(use.call.name == "Soup" for use in phase.techniques):
        kinds.append("MonitoredPhase")
        named["monitor"] = text(values.plan.monitor)
        if is_lower_better(values.plan.monitor, values.plan.metrics):
            named["lower_is_better"] = "True"
    kind, defined = values.combined([("run", each) for each in kinds or ["Phase"]], "RecipePhase")
    made = call(kind, "run", text(phase.name), "model", "data", **named)
    return [*(f"    {line}" for line in defined), *statement("phase = ", made, cite_all(settings))]


# -- the loop


def _loop(phase: TrainPhase, techniques: list[Used], values: PlainValues) -> list[str]:
    """The loops over epochs and batches, from the state of an interrupted run on."""
    goes_on = "phase.epoch < phase.total_epochs" + " and not stopping.is_over" * (phase.early_stop is not None)
    for line in ("import math", "import torch", "from torch import Tensor", "from tqdm import tqdm"):
        values.imports.add(line)
    body = [
        "epochs_done = phase.epochs_before + phase.epoch  # in all phases",
        "losses: list[Tensor] = []",
        *(["phase.can_be_best = True"] if _may_rule_out(techniques) else []),
        *(line[len(INDENT * 2) :] for line in unfreeze_later(phase, values, "phase.epoch")),
        *calls(techniques, "before_epoch"),
        "for batch, (inputs, targets) in enumerate(tqdm(data.train.batches(epochs_done), leave=False, disable=None)):",
        *indented(_batch(phase, techniques, values), 1),
        *_scores(phase, techniques, values),
        *after_epoch(phase, techniques, values, "model"),
        *_logged(values),
        *_kept(phase, techniques, values),
        "phase.epoch += 1",
        *(["phase.batch = 0"] if any(one.has("before_epoch") for one in techniques) else []),
        *_saved(phase, values),
    ]
    return [*_resume(phase, techniques, values), f"    while {goes_on}:", *indented(body, 2)]


def _batch(phase: TrainPhase, techniques: list[Used], values: PlainValues) -> list[str]:
    """What happens to one batch; what is drawn in it depends on nothing that was drawn before."""
    seed = values.imports.use("leaven.runtime.seeding.derive_seed")
    lines = [f"torch.manual_seed({seed}(run.seed, epochs_done, batch, 0))  # 0: the rank"]
    if phase.accumulate is not None or any(one.is_in_loop for one in techniques) or values.plan.user_modules:
        lines.insert(0, "phase.batch = batch")
    if values.plan.user_modules:
        lines.append(f"{values.plain('seeding', 'seed_python')}()")
    if phase.optimizer.is_second_order or phase.optimizer.call.is_user:
        lines.append(f"{values.plain('seeding', 'seed_optimizer')}(optimizer)")
    lines.append("inputs, targets = inputs.to(run.device), targets.to(run.device)")
    return [*lines, *batch_lines(phase, techniques, values, "model")]


def _resume(phase: TrainPhase, techniques: list[Used], values: PlainValues) -> list[str]:
    """The lines that load the state of an interrupted run, and then wrap the model."""
    names = ["model", "optimizer", "schedule", *with_state(techniques), *["stopping"] * (phase.early_stop is not None)]
    parts: dict[str, Code] = dict(zip(names, names, strict=True))  # that a checkpoint holds the state of
    if values.is_wrapped:
        parts["precision"] = "run.fabric.strategy.precision"
    lines = statement("parts: dict[str, Any] = ", call("dict", **parts))
    if phase.has_own_loss:
        lines += ['    if hasattr(criterion, "state_dict"):', '        parts["criterion"] = criterion']
    lines += [
        '    if (file := run.folder / f"phase-{phase.number}.pt").is_file():  # of a run that was interrupted',
        '        saved = torch.load(file, map_location="cpu", weights_only=True)',
        '        phase.epoch, phase.best = saved["epoch"], saved["best"]',
        "        for name, part in parts.items():",
        "            part.load_state_dict(saved[name])",
    ]
    if phase.compile is not None:
        lines += statement("model = ", call("torch.compile", "model"), cite(*phase.compile.because))
    if values.is_wrapped:
        lines.append("    model, optimizer = run.fabric.setup(model, optimizer)")
    return lines


def _may_rule_out(techniques: list[Used]) -> bool:
    """Whether a technique may say that an epoch can't be the best."""
    return any(one.has("before_epoch") or one.has("after_epoch") for one in techniques)


def _scores(phase: TrainPhase, techniques: list[Used], values: PlainValues) -> list[str]:
    """The lines that measure the model after an epoch, and print its scores."""
    averaged = [f"averaged = {line}" for line in calls(techniques, "model_for_eval")]
    own = phase.override("eval_step")
    measured = values.evaluation("averaged" if averaged else "model", "data.val", "criterion", own)
    depth = 3 if averaged and values.is_wrapped else 2
    cited = cite(*own.because) if own is not None else ""
    scores = [line[len(INDENT * depth) :] for line in statement("scores = ", measured, cited, depth=depth)]
    return [
        *(_autocast([*averaged, *scores], values) if averaged else scores),
        "mean = sum(loss.item() for loss in losses) / len(losses)",
        "if not math.isfinite(mean):",
        '    raise SystemExit(f"the loss is {mean} in epoch {phase.epoch + 1}; try a smaller learning rate")',
        f'summary = "  ".join(f"{{name}} {{score:{values.digits}}}" for name, score in scores.items())',
        'print(f"{phase.name} {phase.epoch + 1}/{phase.total_epochs}  train.loss {mean:.4g}  {summary}")',
    ]


def _autocast(lines: list[str], values: PlainValues) -> list[str]:
    """Lines at the precision of the phase, where it is another one and no wrapped model sees to it."""
    return ["with run.fabric.autocast():", *indented(lines, 1)] if lines and values.is_wrapped else lines


def _logged(values: PlainValues) -> list[str]:
    if values.plan.run.argument("loggers") is None:
        return []
    return [
        'logged = {"train.loss": mean, **scores, "lr": optimizer.param_groups[0]["lr"]}',
        "for logger in run.loggers:",
        f"{INDENT}logger.write(logged, phase.epochs_before + phase.epoch + 1)",
    ]


def _kept(phase: TrainPhase, techniques: list[Used], values: PlainValues) -> list[str]:
    """What is kept of an epoch: its weights if they are the best."""
    plan, lines = values.plan, []
    if _keeps(plan) != "last" or any(each.early_stop is not None for each in plan.phases):  # which returns to it
        values.imports.add("import math")
        loss = '-scores["val.loss"]' if is_simple_split(plan) else '-scores.get("val.loss", math.inf)'
        weights = "averaged" if any(one.has("model_for_eval") for one in techniques) else "phase.model"
        lines += [
            f"if (score := ({_score(plan.monitor, plan)}, {loss})) > phase.best:",
            f"{INDENT}phase.best = score",
            f'{INDENT}run.save(f"phase-{{phase.number}}-best.pt", {weights}.state_dict())',
        ]
    if phase.early_stop is not None:
        lines.append(f"stopping.count({_score(phase.early_stop.score, plan)})")
    if _may_rule_out(techniques) and lines:
        lines = ["if phase.can_be_best:", *indented(lines, 1)]
    if _keeps(plan) == "all":
        lines.append('run.save(f"phase-{phase.number}-epoch-{phase.epoch + 1}.pt", phase.model.state_dict())')
    return lines


def _score(name: str, plan: Plan) -> str:
    """A score of the epoch, such that higher is better; the training loss where it may not be measured."""
    if name.startswith("train."):
        return "-mean"
    is_lower = is_lower_better(name, plan.metrics)
    if is_simple_split(plan):
        return f"{'-' * is_lower}scores[{text(name)}]"
    return f"-scores.get({text(name)}, mean)" if is_lower else f"scores.get({text(name)}, -mean)"


def _saved(phase: TrainPhase, values: PlainValues) -> list[str]:
    """The lines that write a checkpoint."""
    saved = [
        "state = {name: part.state_dict() for name, part in parts.items()}",
        'run.save(f"phase-{phase.number}.pt", {"epoch": phase.epoch, "best": phase.best, **state})',
    ]
    every = values.plan.checkpoint("epochs")
    if every is None:
        return saved
    often = f"phase.epoch % {values.operand(every.value)} == 0 or phase.epoch == phase.total_epochs"
    often += " or stopping.is_over" * (phase.early_stop is not None)
    return [cited_line(f"if {often}:", every.because), *indented(saved, 1)]


# -- after the loop


def _end(phase: TrainPhase, values: PlainValues) -> list[str]:
    """What a phase leaves to the next one, or to the end of the program."""
    plan = values.plan
    if phase.is_last:
        is_best = phase.trains and (_keeps(plan) != "last" or phase.early_stop is not None)
        return _best(phase) if is_best else []
    lines = []
    if phase.gives_optimizer:
        lines.append("    run.keep_optimizer_state(optimizer, phase.model)")
    if phase.early_stop is not None:
        lines += ["    if stopping.is_over:", *indented(_best(phase), 1)]
    number = plan.phases.index(phase) + 1
    if plan.user_modules or any(each.steps or not each.trains for each in plan.phases[number:]):
        seed = call(values.imports.use("leaven.runtime.seeding.derive_seed"), "run.seed", f"-{number}")
        values.imports.add("import torch")
        lines += statement("", call("torch.manual_seed", seed), "for what the next phase draws before its first batch")
        lines += [f"    {values.plain('seeding', 'seed_python')}()"] if plan.user_modules else []
    return lines


def _best(phase: TrainPhase) -> list[str]:
    """The line that loads the best weights of a phase, if it has been trained."""
    load = 'model.load_state_dict(torch.load(run.folder / f"phase-{phase.number}-best.pt", "cpu", weights_only=True))'
    is_sure = isinstance(phase.epochs.value, int) and phase.epochs.value > 0
    return [f"    {load}"] if is_sure else ["    if phase.total_epochs:", f"        {load}"]


def _keeps(plan: Plan) -> Value:
    """Which checkpoints are kept."""
    keep = plan.checkpoint("keep")
    return keep.value if keep is not None else "last_and_best"
