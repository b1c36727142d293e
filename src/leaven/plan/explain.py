"""A plan as people read it: what is done, in which order, and why."""

from collections.abc import Iterator

from leaven.binding.parameter_defaults import is_chosen
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Default, Invocation, Origin, Quantity, Setting, Written, is_written
from leaven.plan.plan import (
    BuildModel,
    Call,
    FileWeights,
    FormerSelf,
    HubWeights,
    Plan,
    ReadData,
    Reinitialise,
    StarterWeights,
    TrainPhase,
)
from leaven.recipe.task import Task

INDENT = " " * 7
REASON_COLUMN = 76

Line = tuple[str, str]  # what is done, and why


def explain(plan: Plan) -> str:
    """The plan, a line per step, reasons to the right."""
    lines = [f"{plan.recipe.name}: {_length(plan)}", ""]
    for title, steps in _sections(plan):
        if len(title) > len(INDENT):
            lines.append(title)
            title = INDENT
        lines += [
            _line((INDENT if at else title.ljust(len(INDENT))) + what, why) for at, (what, why) in enumerate(steps)
        ]
    return "\n".join(lines) + "\n"


def _line(what: str, why: str) -> str:
    return f"{what.ljust(REASON_COLUMN)}  # {why}" if why else what


def _length(plan: Plan) -> str:
    count = len(plan.phases)
    return "one phase" if count == 1 else f"{count} phases"


def _sections(plan: Plan) -> Iterator[tuple[str, list[Line]]]:
    yield "data", list(_data(plan.data, plan.recipe.data.task))
    yield "model", list(_model(plan.model))
    for phase in plan.phases:
        yield _line(f'phase "{phase.name}", {_told(phase.epochs)}', _why(phase.because)), list(_phase(phase, plan))
    watch = f"the epoch with the best {plan.watch} of the last phase becomes model.bundle"
    yield "then", [(watch, ""), *([("measured once on the test part", "")] if _has_test(plan.data) else [])]


def _has_test(data: ReadData) -> bool:
    share = data.split.value("test")
    return not (isinstance(share, Quantity) and share.amount == 0)


def _data(data: ReadData, task: Task) -> Iterator[Line]:
    yield _call(data.source), _why_call(data.source)
    shares = [f"{s.name} {_told(s)}" for s in data.split.settings if s.value is not None and s.name != "seed"]
    by = f" by {task.known.stratified_by}" if task.known is not None and task.known.stratified_by else ""
    divided = f"divided{by}: {', '.join(shares)}" if shares else "in the parts that it comes with"
    yield divided, _why(data.split.origin)
    if data.is_same:
        yield f"prepared by {_steps(data.eval)}", _why(data.because_eval)
    else:
        yield f"train: {_steps(data.train)}", _why(data.because_train)
        yield f"eval:  {_steps(data.eval)}", _why(data.because_eval)


def _model(model: BuildModel) -> Iterator[Line]:
    if isinstance(model.source, Call):
        yield _call(model.source.invocation), _why(model.because)
    else:
        yield f"{len(model.source.stages)} components", _why(model.because)
    match model.weights:
        case HubWeights(tag):
            yield f"its published weights{f', {tag}' if tag else ''}", _why(model.because_weights)
        case StarterWeights(package):
            yield f"the weights in the installed package {package}", _why(model.because_weights)
        case FileWeights(file):
            yield f"the weights in {_told(file)}", _why(model.because_weights)
        case None:
            yield "from scratch", ""
    if model.replaced_head is not None:
        yield f"a new head at {model.replaced_head}", "default: fitted to the data"


def _still_model(model: BuildModel | FormerSelf) -> str:
    """A model that a technique learns from, in one line."""
    if isinstance(model, FormerSelf):
        return f'the model itself, as it was before phase "{model.phase}"'
    is_bundle = isinstance(model.source, Call) and model.source.library == "bundle"
    return ", ".join(text for text, _ in list(_model(model))[: 1 if is_bundle else 2])


def _phase(phase: TrainPhase, plan: Plan) -> Iterator[Line]:
    for one in phase.preparations:
        if isinstance(one, Reinitialise):
            yield f"re-initialised: {', '.join(one.paths)}", _why(one.because)
        else:
            yield _call(one.invocation), _why_call(one.invocation)
    if phase.freeze is not None:
        paths = ", ".join(phase.freeze.paths)
        frozen = f"all but {paths}" if phase.freeze.is_all_but else paths
        count = f"{phase.freeze.trainable:,} of {phase.freeze.total:,} parameters trainable"
        yield f"frozen: {frozen}; {count}", _why(*phase.freeze.because)
    for later in phase.unfreeze_later:
        yield f"frozen until {_told(later.at)}: {', '.join(later.paths)}", _why(later.because)
    yield f"loss {_call(phase.loss)}", _why_call(phase.loss)
    yield f"optimizer {_call(phase.optimizer)}", _why_call(phase.optimizer)
    for group in phase.groups:
        settings = ", ".join(f"{s.name}={_told(s)}" for s in group.settings)
        yield f"  {', '.join(group.paths)}: {settings}", _why(group.because)
    per = {"step": "every step", "epoch": "every epoch", "score": "every epoch, by the score"}[phase.steps_schedule_by]
    yield f"schedule {_call(phase.schedule)}, {per}", _why_call(phase.schedule)
    for override in (phase.train_step, phase.eval_step, phase.after_epoch):
        if override is not None:
            yield f"{override.hook} by {value_text(override.function)}", _why(override.origin)
    for use in phase.techniques:
        if use not in phase.preparations:
            yield _call(use.invocation), _why_call(use.invocation)
        for name, model in use.models:
            yield f"  {name}: {_still_model(model)}", ""
    if phase.early_stop is not None:
        yield _call(phase.early_stop), _why_call(phase.early_stop)
    train = plan.recipe.train
    for name in ("accumulate", "clip", "precision"):
        if isinstance(train[name].origin, Written):
            yield f"{name} {_told(train[name], train)}", _why(train[name].origin)


# -- words


def _call(invocation: Invocation) -> str:
    """A call as the recipe would write it, with what was said in it."""
    name = invocation.card.friendly or invocation.card.name
    said = [s for s in invocation.settings if is_chosen(s, invocation)]
    arguments = ", ".join(f"{s.name}={_told(s, invocation)}" for s in said)
    return f"{name}({arguments})"


def _steps(steps: tuple[Invocation, ...]) -> str:
    return " -> ".join(step.card.friendly or step.card.name for step in steps) or "nothing"


def _told(setting: Setting, invocation: Invocation | None = None) -> str:
    value = setting.value
    parameter = invocation.card.parameter(setting.name) if invocation is not None else None
    if parameter is not None and value in parameter.choices:
        return str(value)
    if isinstance(value, Quantity):
        unit = value.unit if value.unit == "%" else f" {value.unit}"
        return f"{value.amount:g}{unit.removesuffix('s') if value.amount == 1 and unit != '%' else unit}"
    if isinstance(value, Invocation):
        return _call(value)
    return value_text(float(f"{value:.12g}") if isinstance(value, float) else value)


def _why_call(invocation: Invocation) -> str:
    return _why(invocation.origin, *(s.origin for s in invocation.settings if is_written(s.origin)))


def _why(*origins: Origin) -> str:
    written = [str(origin) for origin in origins if isinstance(origin, Written)]
    return "; ".join(dict.fromkeys(written)) or next((str(o) for o in origins if isinstance(o, Default)), "")
