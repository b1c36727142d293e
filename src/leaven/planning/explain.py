"""A plan as people read it: what is done, in which order, and why."""

from collections.abc import Iterator, Sequence

from leaven.catalog.value_text import value_text
from leaven.formats.split_sizes import sizes_text
from leaven.plan.plan import (
    BuildModel,
    Chain,
    ClassOutputs,
    EarlierModel,
    FileWeights,
    FreezeLayers,
    HubWeights,
    Plan,
    ReadData,
    Reinitialise,
    StarterWeights,
    Sweep,
    Task,
    TrainPhase,
)
from leaven.plan.values import Because, Bound, Call
from leaven.planning.costs import Cost
from leaven.terminal.colors import painter
from leaven.terminal.remarks import MARK, SPACE, Line, aligned
from leaven.terminal.visible import visible

INDENT = " " * 7
TRIALS = "trials"  # what a choice is about that is of the sweep
REASON_COLUMN = 76


def explain(plan: Plan, width: int | None = None, color: bool = False, costs: Sequence[Cost] | None = None) -> str:
    """The plan, a line per step, reasons to the right; fitted to a terminal of that width, if one is given.

    With costs, what the planner chose is compared with what the recipe asks for.
    """
    paint = painter(color)
    length = "one phase" if len(plan.phases) == 1 else f"{len(plan.phases)} phases"
    lines = [f"{paint('headline', visible(plan.name))}: {length}", ""]
    for text, why in aligned(_rows(plan, costs), REASON_COLUMN, width, at=SPACE, hanging=len(INDENT) + 4):
        title = text[: 0 if text.startswith(" ") else len(text) if text.startswith("phase") else len(INDENT)]
        shown = paint("headline", title) + text[len(title) :]
        lines.append(shown + paint("comment", f"{MARK}{why}") if why else shown)
    return "\n".join(lines) + "\n"


def _rows(plan: Plan, costs: Sequence[Cost] | None) -> Iterator[Line]:
    """The steps and their reasons; the first column has the titles of the sections."""
    for title, why, steps in _sections(plan, costs):
        if len(title) > len(INDENT):
            yield visible(title), visible(why)
            title = INDENT
        for at, (what, reason) in enumerate(steps):
            yield (INDENT if at else title.ljust(len(INDENT))) + visible(what), visible(reason)


def _sections(plan: Plan, costs: Sequence[Cost] | None) -> Iterator[tuple[str, str, list[Line]]]:
    """The title of each section, the reason for it, and its steps."""
    if plan.sweep is not None:
        yield "sweep", "", [*_sweep(plan.sweep), *_choices(plan, "", costs, of_trials=True)]
    yield "data", "", [*_data(plan.data), *_choices(plan, "", costs)]
    yield "model", "", [*_model(plan.model, plan.task), *_threads(plan)]
    for phase in plan.phases:
        length = "solved" if phase.solver is not None else phase.epochs.text
        yield f'phase "{phase.name}", {length}', _why(phase.because), list(_phase(phase, plan, costs))
    of = " of the best trial" if plan.sweep is not None else ""
    best = f"the best epoch of the last phase{of}, by {plan.monitor}, as model.bundle"
    yield "save", "", [(best, ""), *(_tested(plan) if plan.data.has_test else ())]


def _tested(plan: Plan) -> Iterator[Line]:
    own = plan.phases[-1].override("eval_step")
    by = f", by {own.function}; predictions of the bundle are made without it" if own is not None else ""
    yield f"its scores on the test split{by}", _why(own.because) if own is not None else ""


def _sweep(sweep: Sweep) -> Iterator[Line]:
    """How many trials, and which values of each `arg`."""
    count = len(sweep.trials)
    yield f"{count} trial{'s' * (count != 1)}, compared by {sweep.by}", _why(sweep.because)
    values: dict[str, dict[str, None]] = {}
    for trial in sweep.trials:
        for name, value in trial.values:
            values.setdefault(name, {})[value_text(value)] = None
    for name, texts in values.items():
        yield f"  {name}: {', '.join(texts)}", ""


def _data(data: ReadData) -> Iterator[Line]:
    yield data.source.text, _why(data.source.because)
    if data.matching is not None:
        yield _call(data.matching)
    yield data.split.text, _why(data.split.because[:1])
    if data.samples is not None:
        yield f"  {sizes_text(*data.samples)}", ""
    if data.is_same:
        yield f"transforms: {data.eval.text}", _why(data.eval.because)
    else:
        yield f"train: {data.train.text}", _why(data.train.because)
        yield f"eval:  {data.eval.text}", _why(data.eval.because)


def _model(model: BuildModel, task: Task | None = None) -> Iterator[Line]:
    if isinstance(model.source, Chain):
        yield f"{len(model.source.components)} components", _why(model.because)
    else:
        yield model.source.text, _why(model.because)
    match model.weights:
        case HubWeights(tag):
            yield f"its pretrained weights{f', {tag}' if tag else ''}", _why(model.because_weights)
        case StarterWeights(package):
            yield f"the weights in the installed package {package}", _why(model.because_weights)
        case FileWeights(text=file):
            yield f"the weights in {file}", _why(model.because_weights)
        case None:
            yield "from scratch", ""
    if model.fitted_head is not None:
        yield "a new head", "default: one output per class"
    if model.replaced_head is not None:
        unit = "class" if task is None or isinstance(task.predicts, ClassOutputs) else "number"
        yield f"a new head, {model.replaced_head}", f"default: one output per {unit}"


def _threads(plan: Plan) -> Iterator[Line]:
    """How many threads compute, where that is not one per core."""
    if (threads := plan.run.argument("threads")) is not None:
        yield "one thread" if threads.value == 1 else f"threads {threads.text}", _why(threads.because)


def _teacher(model: BuildModel | EarlierModel) -> str:
    """A model that a technique learns from, in one line."""
    if isinstance(model, EarlierModel):
        return f'the model itself, as it was before phase "{model.phase}"'
    return ", ".join(text for text, _ in list(_model(model))[: 1 if model.by == "bundle" else 2])


def _phase(phase: TrainPhase, plan: Plan, costs: Sequence[Cost] | None) -> Iterator[Line]:
    for one in phase.preparations:
        if isinstance(one, Reinitialise):
            yield f"re-initialised: {', '.join(one.paths)}", _why(one.because)
        else:
            yield _call(one.call)
    if phase.freeze is not None:
        yield _frozen(phase.freeze), _why(phase.freeze.because)
    for later in phase.unfreeze_later:
        yield f"frozen until {later.at.text}: {', '.join(later.paths)}", _why(later.because)
    if phase.solver is not None:
        yield _call(phase.loss, "loss ")
        yield phase.solver.text, _why(phase.solver.because)
    elif phase.trains:
        yield from _training(phase)
        yield from _steps(phase, plan.data)
    for override in phase.overrides:
        yield f"{override.hook} by {override.function}", _why(override.because)
    for use in phase.techniques:
        if use not in phase.preparations:
            yield _call(use.call)
        for name, model in use.models:
            yield f"  {name}: {_teacher(model)}", ""
    for stop in phase.stops:
        yield stop.text, _why(stop.because)
    yield from _choices(plan, phase.name, costs)
    for setting in (phase.accumulate, phase.clip, phase.precision or plan.run.argument("precision")):
        if setting is not None:
            yield f"{setting.name} {setting.text}", _why(setting.because)


def _choices(plan: Plan, phase: str, costs: Sequence[Cost] | None, *, of_trials: bool = False) -> Iterator[Line]:
    """The planner's choices for a phase, for the data or for trials, with their costs and what was asked for."""
    for choice in plan.choices:
        if choice.phase == phase and (choice.about == TRIALS) == of_trials:
            yield f"{choice.about}: {choice.chosen}", f"planner: {choice.reason}"
            if costs is not None and choice.chosen != choice.asked:
                yield f"  without this: {choice.asked}", ""
    for cost in costs or ():
        if cost.phase == phase:
            yield f"{cost.about}: {cost.text()}", "expected on this machine"
            if cost.passes < cost.passes_without:
                yield f"  without this: {cost.text(without=True)}", ""


def _frozen(freeze: FreezeLayers) -> str:
    """`frozen: all but fc and the adapters; 12,810 of 3,383,818 parameters trainable`."""
    paths = ", ".join(freeze.paths)
    adapters = "the adapters" if freeze.has_adapters else ""
    if freeze.is_all_but:
        rest = " and ".join(filter(None, (paths, adapters)))
        return f"frozen: all{' but ' * bool(rest)}{rest}{freeze.counted}"
    return f"frozen: {' but not '.join(filter(None, (paths, adapters)))}{freeze.counted}"


def _training(phase: TrainPhase) -> Iterator[Line]:
    yield _call(phase.loss, "loss ")
    yield _call(phase.optimizer.call, "optimizer ")
    for group in phase.optimizer.groups:
        settings = ", ".join(f"{setting.name}={setting.text}" for setting in group.settings)
        yield f"  {', '.join(group.paths)}: {settings}", _why(group.because)
    per = {"step": "every step", "epoch": "every epoch", "score": "every epoch, by the score"}
    schedule, why = _call(phase.schedule.call, "schedule ")
    yield f"{schedule}, {per[phase.schedule.stepped_by]}", why


def _steps(phase: TrainPhase, data: ReadData) -> Iterator[Line]:
    """`batch 32: 45 steps per epoch, 450 in all`, as far as it is known."""
    if data.measured_batch is not None:
        return
    batch = next(argument for argument in data.loading if argument.name == "batch_size")
    size, accumulate = batch.value, phase.accumulate.value if phase.accumulate is not None else 1
    text = f"batch {batch.text or size}"
    if data.samples is not None and isinstance(size, int) and isinstance(accumulate, int):
        whole, rest = divmod(data.samples[0], size)
        steps = -(-(whole + (rest > 1 or not whole)) // accumulate)  # a single sample is left out
        text += f": {steps:,} step{'s' * (steps != 1)} per epoch"
        if isinstance(phase.epochs.value, int) and phase.epochs.value > 1:
            total = f"{steps * phase.epochs.value:,}"
            text += f", at most {total} in all" if phase.stops else f", {total} in all"
    yield text, _why(batch.because)


def _call(call: Call | Bound, title: str = "") -> Line:
    used = call.call if isinstance(call, Bound) else call
    return title + used.text, _why(used.because)


def _why(reasons: tuple[Because, ...]) -> str:
    written = [reason.text for reason in reasons if not reason.is_default]
    return "; ".join(dict.fromkeys(written)) or next((reason.text for reason in reasons), "")
