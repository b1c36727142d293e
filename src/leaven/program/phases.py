"""One function per phase: what it prepares and freezes, its optimizer and schedule, and the loop.

Phases with the same plain loop share one function, `train`.
"""

from leaven.catalog.hooks import PARAMETERS_METHOD
from leaven.plan.plan import ParameterGroup, Plan, Reinitialise, SolveHead, TrainPhase
from leaven.planning.passes.inputs import SPLITS
from leaven.planning.passes.teachers import ABOUT as TEACHER
from leaven.program.code import (
    ARGS,
    FROM_DATA,
    Bracketed,
    Code,
    Function,
    Item,
    call,
    docstring,
    joined,
    mapping,
    paths,
    statement,
    text,
)
from leaven.program.loop import is_shareable, loop, watch, word_or_paths
from leaven.program.names import SHARED, function_names
from leaven.program.techniques import (
    Teachers,
    Used,
    built_once,
    calls,
    listed,
    made,
    on_data,
    taught,
    used_in,
    variables,
    with_any_state,
)
from leaven.program.values import Values, cite, cite_all, cite_call, cite_or_explain

_SETUP = "devices, precision; an interrupted run resumes here"
_STATE = "by name: what else has state to save"
_DROPOUT = "layers frozen only because of an adapter keep their own dropout"


def phase_functions(plan: Plan, values: Values, teachers: Teachers) -> list[Function]:
    """The functions of the phases, after the loop that several of them share."""
    loops = [_loop_to_share(phase, values) for phase in plan.phases]
    shared = most_shared(loops)
    sharing = [bool(shared) and lines == shared for lines in loops]
    functions = [_shared_function(plan.phases[sharing.index(True)], plan, values)] if shared else []
    return functions + [
        _phase_function(name, phase, plan, values, teachers, is_sharing=is_sharing)
        for name, phase, is_sharing in zip(function_names(plan), plan.phases, sharing, strict=True)
    ]


# -- the shared loop


def most_shared(loops: list[list[str]]) -> list[str]:
    """The loop of most phases, if it is that of several."""
    found = max(loops, key=lambda lines: loops.count(lines) if lines else 0)
    return found if loops.count(found) > 1 else []


def _loop_to_share(phase: TrainPhase, values: Values) -> list[str]:
    techniques = used_in(phase, values.names)
    if not is_shareable(phase, techniques):
        return []
    with values.noting() as names, values.unexplained():
        lines = _shared_loop(phase, values)
    return [] if names else lines


def _shared_loop(phase: TrainPhase, values: Values) -> list[str]:
    techniques = used_in(phase, values.names)
    return [*_begin(phase, [], values, "model"), *loop(phase, techniques, values, is_shared=True)]


def _shared_function(phase: TrainPhase, plan: Plan, values: Values) -> Function:
    """The loop of several phases, as it is in the first of them."""
    values.imports.use("torch.optim.Optimizer")
    criterion = () if plan.phases[0].loss_by_model else (f"criterion: {values.runtime('Criterion')}",)
    parameters = (
        f"phase: {values.runtime('Phase')}",
        "model: nn.Module",
        f"data: {values.runtime('Data')}",
        *criterion,
        "optimizer: torch.optim.Optimizer",
        "schedule: torch.optim.lr_scheduler.LRScheduler",
        f"metrics: {values.task('Metrics')}",
    )
    return Function(SHARED, parameters, "None", _shared_loop(phase, values))


def _begin(phase: TrainPhase, techniques: list[Used], values: Values, model: str) -> list[str]:
    own = ["criterion"] if phase.has_own_loss else []
    state: dict[str, Code] = {name: name for name in (*own, *with_any_state(techniques))}
    code = call("phase.setup", model, "optimizer", "schedule", **state)
    explained = joined(values.once(_SETUP), values.once(_STATE) if state else "")
    return [*statement(f"{model}, optimizer = ", code, explained), *watch(values)]


# -- the function of a phase


def _phase_function(
    name: str, phase: TrainPhase, plan: Plan, values: Values, teachers: Teachers, *, is_sharing: bool
) -> Function:
    with values.noting() as names:
        body = _body(phase, plan, values, teachers, is_sharing=is_sharing)
    types = (values.runtime("Run"), values.runtime("Data"), values.task("Metrics"))
    return phase_function(name, phase, values, types, names, body)


def phase_function(
    name: str, phase: TrainPhase, values: Values, types: tuple[str, str, str], names: set[str], body: list[str]
) -> Function:
    """The function of a phase, whose body uses these names; `types` are those of the run, the data and the metrics."""
    run, data, metrics = types
    parameters = [f"run: {run}", "model: nn.Module", f"data: {data}", f"metrics: {metrics}"]
    if "args" in names:
        parameters.append(ARGS)
    parameters += [f"{variable}: nn.Module" for variable in values.names.models_before.values() if variable in names]
    local = [f"    {variable} = {code}" for variable, code in FROM_DATA.items() if variable in names]
    summary = docstring(_phase_summary(phase), depth=1)
    return Function(name, tuple(parameters), "None", [*summary, *local, *body])


def _body(phase: TrainPhase, plan: Plan, values: Values, teachers: Teachers, *, is_sharing: bool) -> list[str]:
    techniques = used_in(phase, values.names)
    model, data = variables(phase)
    built, teachers = built_once(techniques, values, teachers)
    lines = on_data(techniques, values, teachers)
    if phase.views is not None:
        views = call("data.with_views", values.value(phase.views.value))
        uses = "an epoch uses one" if phase.solver is None else "the solver uses all"
        told = f"fixed augmentations of each {plan.data.noun}; {uses}"
        lines += statement("data = ", views, joined(cite(*phase.views.because), told))
    lines += [
        *_phase(phase, values),
        *built,
        *preparation(phase, techniques, values, teachers),
        *freezing(phase, values),
    ]
    lines += _measured(phase, "precision", call("phase.choose_precision", text("32-true"), text("bf16-mixed")))
    if phase.stored:
        lines += _frozen_once(phase, plan, values)
    lines += _measured(phase, "compile", call("phase.compile_if_faster", model))
    if not phase.trains:
        return [*lines, *(f"    {line}" for line in calls(techniques, "at_end")), "    phase.finish()"]
    if phase.solver is not None:
        return [*lines, *_criterion(phase, values), *_solve(phase, phase.solver, values)]
    lines += [
        *build_for_loop(phase, techniques, values, teachers),
        *taught(techniques, data)[0],
        *_teaching(phase, techniques, plan, values),
    ]
    if is_sharing:
        criterion = [] if phase.loss_by_model else ["criterion"]
        given = ("phase", model, data, *criterion, "optimizer", "schedule", "metrics")
        return [*lines, *statement("", call(SHARED, *given))]
    begun = _begin(phase, techniques, values, model)
    return [*lines, *begun, "", *loop(phase, techniques, values, is_shared=False)]


def _phase_summary(phase: TrainPhase) -> str:
    """`Phase "head" (line 5): 10 epochs; 12,810 of 3,383,818 parameters trainable.`."""
    place = cite(*phase.because)
    told = f'Phase "{phase.name}"{f" ({place})" if place else ""}: {_length(phase)}'
    if phase.freeze is not None:
        told += phase.freeze.counted
    return f"{told}."


def _length(phase: TrainPhase) -> str:
    if phase.solver is not None:
        return "solved by L-BFGS"
    is_known = isinstance(phase.epochs.value, int | float)
    at_most = "at most " if phase.stops else ""
    return f"{at_most}{phase.epochs.text}" if is_known else "as many epochs as the command line says"


def _phase(phase: TrainPhase, values: Values) -> list[str]:
    settings = [each for each in (phase.epochs, phase.accumulate, phase.precision, phase.compile) if each is not None]
    named = {each.name: values.value(each.value) for each in settings}
    made = call("run.phase", text(phase.name), "model", "data", **named)
    return statement("phase = ", made, cite_all(each for each in settings if each is not phase.precision))


def preparation(phase: TrainPhase, techniques: list[Used], values: Values, teachers: Teachers) -> list[str]:
    """What changes the model before it is trained, in the order of the recipe; then what else must be there."""
    lines: list[str] = []
    for one in sorted(phase.steps, key=lambda step: step not in phase.preparations):
        if isinstance(one, Reinitialise):
            more: dict[str, Code] = {} if one.method == "default" else {"method": text(one.method)}
            code = call(values.runtime("reinit"), "model", paths(one.paths), **more)
            lines += statement("", code, cite(*one.because))
            continue
        used = next((each for each in techniques if each.use is one), None)
        if used is not None and used.is_made_first:
            lines += made(used, values, teachers)
    return lines


def freezing(phase: TrainPhase, values: Values) -> list[str]:
    frozen = phase.freeze
    if frozen is None:
        return statement("", call(values.runtime("unfreeze"), "model")) if phase.unfreezes_all else []
    named = {name: word_or_paths(given) for name, given in frozen.arguments.items()}
    dropout = values.once(_DROPOUT) if frozen.dropout != "off" else ""
    comment = joined(cite_or_explain(*frozen.because), "adapters stay trainable" * frozen.has_adapters, dropout)
    return statement("", call(values.runtime("freeze"), "model", **named), comment)


def _frozen_once(phase: TrainPhase, plan: Plan, values: Values) -> list[str]:
    only: dict[str, Code] = {} if len(phase.stored) > 1 else {"only": text(phase.stored[0])}
    exact: dict[str, Code] = {} if phase.approximate is None else {"exact": "False"}
    noun = plan.data.noun if not only else f"{SPLITS[phase.stored[0]]} {plan.data.noun}"
    cited = cite(*(phase.approximate.because if phase.approximate is not None else ()))
    once = f"once per {noun if phase.views is None else 'view of an image'}"
    layers = values.once(": `features` are their stored outputs, `rest` the layers after them")
    comment = f"the frozen layers run {once}{layers}"
    code = call("phase.frozen_once", "model", "data", **only, **exact)
    return statement("rest, features = ", code, ": ".join(filter(None, [cited, comment])))


def _teaching(phase: TrainPhase, techniques: list[Used], plan: Plan, values: Values) -> list[str]:
    """Why a teacher runs in every epoch, where the planner had to leave that as it was."""
    found = [each for each in plan.choices if each.about == TEACHER and each.phase == phase.name]
    reasons = [f"the teacher {each.chosen}: {each.reason}" for each in found if each.chosen == each.asked]
    for use in phase.techniques:  # which a reason calls as the recipe does
        named = listed(one.name for one in techniques if one.use.name == use.name)
        reasons = [reason.replace(f"`{use.name}`", named) for reason in reasons]
    return [f"    # {told}" for reason in reasons if (told := values.once(reason))]


def _measured(phase: TrainPhase, name: str, code: Code) -> list[str]:
    """The line that chooses a setting by measurement, where one does."""
    found = [each for each in phase.measured if each.name == name]
    comment = ["the faster one here"] if name == "precision" else []
    cited = [cite(*each.because) for each in found]
    return statement("", code, ": ".join(filter(None, [*cited, *comment]))) if found else []


def build_for_loop(phase: TrainPhase, techniques: list[Used], values: Values, teachers: Teachers) -> list[str]:
    """The lines that build what the loop needs: criterion, optimizer, schedule, and the techniques in it."""
    return [
        *_criterion(phase, values),
        *_optimizer(phase, techniques, values, teachers),
        *statement("schedule = ", values.call(phase.schedule.call), cite_call(phase.schedule.call)),
        *(line for one in techniques if one.is_made_last for line in made(one, values, teachers)),
    ]


def _criterion(phase: TrainPhase, values: Values) -> list[str]:
    if phase.loss_by_model:
        return []
    suffix = ".to(run.device)" if phase.loss_has_tensors else ""
    return statement("criterion = ", values.value(phase.loss), cite_call(phase.loss), suffix=suffix)


def _solve(phase: TrainPhase, solver: SolveHead, values: Values) -> list[str]:
    """What is in the place of optimizer, schedule and loop where the head is solved."""
    settings = {each.name: values.value(each.value) for each in solver.settings}
    model, data = variables(phase)
    made = call(values.runtime("HeadSolver"), "phase", model, data, "criterion", **settings)
    kept = call("solver.keep_if_best", values.evaluation("head", "solver.val_features", "criterion"))
    has_choice = not solver.settings
    scores = values.evaluation(model, f"{data}.val", "criterion")
    return [
        *statement("solver = ", made, cite(*solver.because)),
        *statement("", "phase.setup_without_optimizer()", "an interrupted run resumes here"),
        "",
        "    for epoch in phase.epochs():",
        *statement(
            "for head in ",
            "solver.heads()",
            "from strong to weak L2; the best on val is used" * has_choice,
            depth=2,
            suffix=":",
        ),
        *statement("", kept, "each is a bare linear layer, measured on the head's inputs", depth=3),
        *statement("loss = ", "solver.load_best()", "into the model; its training loss", depth=2),
        *statement("", "phase.log(loss)", depth=2),
        *statement("", call("phase.end_epoch", scores), "on val, which has chosen the head" * has_choice, depth=2),
        "    phase.finish()",
    ]


def _optimizer(phase: TrainPhase, techniques: list[Used], values: Values, teachers: Teachers) -> list[str]:
    optimizer = phase.optimizer
    parameters = values.trainable()
    if optimizer.groups:
        groups = [_group(group, values) for group in optimizer.groups]
        parameters = call(values.runtime("parameter_groups"), "model", *groups)
    code = values.call(optimizer.call, parameters)
    lines = statement("optimizer = ", code, cite_or_explain(*optimizer.call.because))
    for one in techniques:
        lines += made(one, values, teachers) if one.is_for_optimizer else []
        if one.has(PARAMETERS_METHOD):
            added = f'optimizer.add_param_group({{"params": list({one.name}.parameters())}})'
            lines += statement("", added, values.once(one.remark(PARAMETERS_METHOD)))
    lines += [f"    {line}" for line in calls(techniques, "on_optimizer", values=values)]
    if phase.takes_optimizer:
        lines += statement("", call("run.load_optimizer_state", "optimizer", "model"), cite(*phase.because))
    return lines


def _group(group: ParameterGroup, values: Values) -> Item:
    settings = mapping({setting.name: values.value(setting.value) for setting in group.settings})
    return Item(Bracketed("(", (Item(paths(group.paths)), Item(settings)), ")"), comment=cite(*group.because))
