"""Techniques in a program: where each is made, and which lines call its hooks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from leaven.catalog.hooks import HOOKS, PARAMETERS_METHOD, PROVIDED, STATE_METHOD
from leaven.plan.plan import BuildModel, EarlierModel, Plan, TrainPhase, UseTechnique
from leaven.plan.values import Argument
from leaven.program.code import Code, Function, Item, call, commented, joined, listing, paths, statement
from leaven.program.model import build_model
from leaven.program.names import Names
from leaven.program.values import Values, cite_call

_IN_LOOP = (
    *("before_epoch", "on_batch", "around_step", "on_loss", "on_gradients", "after_step", "model_for_eval"),
    *("after_epoch", "at_end", STATE_METHOD),
)


_VARIABLES = {"images": "inputs"}  # what a loop calls an argument of a hook


@dataclass(frozen=True, slots=True)
class Used:
    """A technique under its name in a function, and what that calls the model and the data that are trained on."""

    name: str
    use: UseTechnique
    model: str
    data: str

    def has(self, hook: str) -> bool:
        return hook in self.use.hooks

    def call(self, hook: str, outputs: str = "outputs") -> str:
        """The call of a hook, where the model's outputs have that name."""
        model = "model" if hook == "on_model" else self.model
        named = {**_VARIABLES, "outputs": outputs, "model": model}
        return f"{self.name}.{hook}({', '.join(named.get(name, name) for name in HOOKS[hook])})"

    def remark(self, name: str) -> str:
        """What a hook does, or an argument means, as a comment, where its name does not say it."""
        said = dict(self.use.remarks).get(name, "")
        return f"{said[:1].lower()}{said[1:].removesuffix('.')}"

    @property
    def is_in_loop(self) -> bool:
        """Whether the training loop calls it, or saves its state."""
        return any(map(self.has, _IN_LOOP))

    @property
    def is_made_first(self) -> bool:
        """Whether it must be there before the layers are frozen."""
        return any(map(self.has, ("on_data", "on_model")))

    @property
    def is_for_optimizer(self) -> bool:
        """Whether it must be there as soon as the optimizer is."""
        return not self.is_made_first and any(map(self.has, ("on_optimizer", PARAMETERS_METHOD)))

    @property
    def is_made_last(self) -> bool:
        """Whether it is needed only in the loop."""
        return not self.is_made_first and not self.is_for_optimizer


def used_in(phase: TrainPhase, names: Names) -> list[Used]:
    """The techniques of a phase, each with a name of its own; without training, only those that prepare the model."""
    own = names.variables(_name(use, phase) for use in phase.techniques)
    used = [Used(name, use, *variables(phase)) for name, use in zip(own, phase.techniques, strict=True)]
    return [one for one in used if phase.trains or one.is_made_first]


def variables(phase: TrainPhase) -> tuple[str, str]:
    """What a phase calls the model and the data that it trains on."""
    return ("rest", "features") if phase.stored else ("model", "data")


def _name(use: UseTechnique, phase: TrainPhase) -> str:
    """What a technique is called: by its method where a phase has it twice, as `hint` and `attention`."""
    method = use.call.argument("method")
    is_twice = sum(other.name == use.name for other in phase.techniques) > 1
    return method.value if is_twice and method is not None and isinstance(method.value, str) else use.name


def calls(
    techniques: Iterable[Used], hook: str, outputs: str = "outputs", *, values: Values | None = None
) -> Iterator[str]:
    """The lines that call a hook; with `values`, they say what it does where the program calls it first."""
    result = {"on_data": "data = ", "on_batch": "inputs, targets = ", "on_loss": "loss = "}.get(hook, "")
    for one in techniques:
        if one.has(hook):
            line = f"{result}{one.call(hook, outputs)}"
            yield commented(line, values.once(one.remark(hook))) if values is not None else line


def with_state(techniques: Iterable[Used]) -> list[str]:
    return [one.name for one in techniques if one.has(STATE_METHOD)]


def with_any_state(techniques: Iterable[Used]) -> list[str]:
    """Those with a state in checkpoints, and those of the user's, whose other state a resumed run names."""
    return [one.name for one in techniques if one.has(STATE_METHOD) or one.use.call.is_user]


Teachers = Sequence[tuple[BuildModel, Function | str]]  # what builds each, or its name once it is built


def made(one: Used, values: Values, teachers: Teachers) -> list[str]:
    """The lines that make a technique, and let it change the model."""
    cited = cite_call(one.use.call)
    changed = [f"    {line}" for line in calls([one], "on_model")]
    if one.has("on_model") and one.use.call.is_user:
        changed += _noted(one, values)
    if one.has("on_data"):  # it is made already
        return changed
    code = _constructor(one, values, teachers)
    if one.use.hooks == ("on_model",) and len(changed) == 1:
        return statement("", code, cited, suffix=one.call("on_model").removeprefix(one.name))
    return [*statement(f"{one.name} = ", code, cited), *changed]


def taught(techniques: Sequence[Used], data: str) -> tuple[list[str], str]:
    """The lines that let teachers run once, and what they call the data that has their outputs."""
    lines: list[str] = []
    asking = [one for one in techniques if one.use.asks_once]
    for one in asking:
        unpack = listed(name for each in asking for name in (each.model, each.name))
        first = [
            "    # where possible, the teacher runs once per image;",
            f"    # `inputs` is then a StoredBatch (no tensor), which only {unpack} unpack",
        ]
        code = call("phase.teacher_once", f"{one.name}.teacher", data)
        lines += [*(first if one is asking[0] else ()), *statement("with_teacher = ", code)]
        data = "with_teacher"
    return lines, data


def listed(names: Iterable[str]) -> str:
    """`model, distill and hint`, each once."""
    *others, last = dict.fromkeys(names)
    return f"{', '.join(others)} and {last}" if others else last


def _noted(one: Used, values: Values) -> list[str]:
    """The line that lets the bundle repeat what a technique of the user's changes in the model."""
    function = values.imports.use("leaven.bundle.note_change")
    if not function:
        return []
    noted = call(function, "model", one.name, *_provided(one), *values.items(one.use.call.arguments))
    return statement("", noted, "the bundle repeats it; fails here if it can't")


def on_data(techniques: Iterable[Used], values: Values, teachers: Teachers) -> list[str]:
    """The lines that make techniques which change the data, and let them."""
    lines: list[str] = []
    for one in techniques:
        if one.has("on_data"):
            code = _constructor(one, values, teachers)
            lines += statement(f"{one.name} = ", code, cite_call(one.use.call))
            lines += [f"    {line}" for line in calls([one], "on_data")]
    return lines


def _constructor(one: Used, values: Values, teachers: Teachers) -> Code:
    use = one.use
    models = [Item(_model(model, values, teachers), f"{name}=") for name, model in use.models]
    given = zip(values.items(use.call.arguments), use.call.arguments, strict=True)
    settings = [
        replace(item, comment=joined(values.once(one.remark(argument.name)), _usual(argument)))
        for item, argument in given
    ]
    return call(values.target(use.call), *_provided(one), *models, *settings)


def _usual(argument: Argument) -> str:
    """The reason for a default that has one."""
    reasons = [each.text for each in argument.because if each.is_default]
    return joined(*(reason for reason in reasons if reason != "default"))


def _provided(one: Used) -> list[Item]:
    """What the constructor asks for and the program has."""
    there: dict[str, Code] = {**PROVIDED, "stages": listing(*map(paths, one.use.stages))}
    if not one.is_made_first:
        there |= {"model": one.model, "data": one.data}
    return [Item(there[name], f"{name}=") for name in one.use.wants]


def _model(model: BuildModel | EarlierModel, values: Values, teachers: Teachers) -> Code:
    if isinstance(model, EarlierModel):
        return values.name(values.names.models_before[model.phase])
    function = next(function for each, function in teachers if each == model)
    if isinstance(function, str):
        return function
    return call(function.name, *function.given(values.name))


def built_once(techniques: Sequence[Used], values: Values, teachers: Teachers) -> tuple[list[str], Teachers]:
    """The lines that build models which several techniques of a phase use, and all models with these known."""
    asked = [model for one in techniques for _, model in one.use.models if isinstance(model, BuildModel)]
    shared = [model for at, model in enumerate(asked) if asked.index(model) == at and asked.count(model) > 1]
    named = list(zip(shared, _numbered("teacher", len(shared)), strict=True))
    built = (
        statement(f"{name} = ", _model(model, values, teachers), _sharing(model, techniques)) for model, name in named
    )
    return list(chain.from_iterable(built)), [*named, *teachers]


def _sharing(model: BuildModel, techniques: Iterable[Used]) -> str:
    """Which techniques use a model, and that it runs once for all of them, where it does."""
    sharing = [one for one in techniques if model in (each for _, each in one.use.models)]
    sizes = {one.use.call.argument("teacher_size") for one in sharing}
    runs_once = len(sizes) == 1 and not any(one.use.asks_once or one.use.call.is_user for one in sharing)
    return f"{listed(one.name for one in sharing)} share it{': it runs once per batch' * runs_once}"


def teacher_functions(plan: Plan, values: Values) -> Sequence[tuple[BuildModel, Function]]:
    """The functions that build the models which techniques use, one for each."""
    models: list[BuildModel] = []
    for phase in plan.phases:
        for use in phase.techniques:
            models += [model for _, model in use.models if isinstance(model, BuildModel) and model not in models]
    named = zip(models, _numbered("build_teacher", len(models)), strict=True)
    return [(model, build_model(model, values, name, is_teacher=True)) for model, name in named]


def _numbered(name: str, count: int) -> list[str]:
    """`teacher`, `teacher_2`, …"""
    return [name, *(f"{name}_{number}" for number in range(2, count + 1))][:count]
