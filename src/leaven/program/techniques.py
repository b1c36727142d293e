"""Techniques in a program: where each is made, and which line calls it at which place."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from leaven.catalog.hooks import HOOKS, PARAMETERS_METHOD, PROVIDED, STATE_METHOD
from leaven.catalog.values import Invocation, Quantity, Setting
from leaven.plan.plan import BuildModel, FormerSelf, Plan, TrainPhase, UseTechnique
from leaven.program.code import Code, Function, Item, call, listing, statement, text
from leaven.program.model import build_model
from leaven.program.values import Values, cite_call

_TAKEN = {  # the names that a phase's function has already
    *("run", "module", "data", "metrics", "args", "fabric", "classes", "criterion", "optimizer", "phase", "schedule"),
    *("model", "images", "labels", "outputs", "loss", "scores", "measured", "teacher"),
    *("runtime", "techniques", "task", "bundle", "torch", "nn"),
}


@dataclass(frozen=True, slots=True)
class Used:
    """A technique under its name in a function."""

    name: str
    use: UseTechnique

    def has(self, hook: str) -> bool:
        return hook in self.use.hooks

    def call(self, hook: str) -> str:
        given = ("module" if name == "model" else name for name in HOOKS[hook])
        return f"{self.name}.{hook}({', '.join(given)})"

    @property
    def prepares(self) -> bool:
        """Whether it has something to do in a phase without training."""
        return any(map(self.has, ("on_data", "on_model")))

    @property
    def is_made_first(self) -> bool:
        """Whether it must be there before the optimizer is."""
        return any(map(self.has, ("on_data", "on_model", "on_optimizer", PARAMETERS_METHOD)))


def used_in(phase: TrainPhase) -> list[Used]:
    """The techniques of a phase, each under a name of its own."""
    names: list[str] = []
    for use in phase.techniques:
        name = use.invocation.card.bare_name.lower()
        candidates = (name if at == 1 else f"{name}_{at}" for at in count(1))
        modules = {use.invocation.card.name.partition(".")[0] if use.invocation.card.kind == "user" else ""}
        names.append(next(one for one in candidates if one not in {*names, *_TAKEN, *modules}))
    return [Used(name, use) for name, use in zip(names, phase.techniques, strict=True)]


def calls(techniques: Iterable[Used], hook: str) -> Iterator[str]:
    """The lines that stand for a hook."""
    result = {"on_data": "data = ", "on_batch": "images, labels = ", "on_loss": "loss = "}.get(hook, "")
    return (f"{result}{one.call(hook)}" for one in techniques if one.has(hook))


def with_state(techniques: Iterable[Used]) -> list[str]:
    return [one.name for one in techniques if one.has(STATE_METHOD)]


Teachers = Sequence[tuple[BuildModel, Function | str]]  # the function that builds each, or the name of a built one


def made(one: Used, values: Values, teachers: Teachers) -> list[str]:
    """The lines that make a technique, and let it prepare what it prepares."""
    reason = cite_call(one.use.invocation)
    code = _constructor(one.use, values, teachers)
    if one.use.hooks == ("on_model",):
        return statement("", code, reason, suffix=one.call("on_model").removeprefix(one.name))
    prepared = [f"    {line}" for hook in ("on_data", "on_model") for line in calls([one], hook)]
    return [*statement(f"{one.name} = ", code, reason), *prepared]


def _constructor(use: UseTechnique, values: Values, teachers: Teachers) -> Code:
    had = [Item(_stages(use) if name == "stages" else PROVIDED[name], f"{name}=") for name in use.wants]
    models = [Item(_model(model, values, teachers), f"{name}=") for name, model in use.models]
    return call(values.target(use.invocation), *had, *models, *_arguments(use.invocation, values))


def _arguments(invocation: Invocation, values: Values) -> list[Item]:
    """What the recipe says; a length of time as a number of epochs, whichever way it is said."""
    lengths = [setting for setting in invocation.settings if _is_length(setting, invocation)]
    given = values.arguments(invocation, frozenset(setting.name for setting in lengths), by_name=True)
    return [*given, *(Item(_in_epochs(setting, values), f"{setting.name}=") for setting in lengths)]


def _is_length(setting: Setting, invocation: Invocation) -> bool:
    parameter = invocation.card.parameter(setting.name)
    return parameter is not None and set(parameter.units) == {"epochs", "%"}


def _in_epochs(setting: Setting, values: Values) -> Code:
    match setting.value:
        case Quantity(amount=amount, unit="%") if setting.syntax is None:
            return f"round({amount / 100:g} * phase.total)"
        case Quantity(unit="%"):
            return f"round({values.operand(setting)} / 100 * phase.total)"
    return values.setting(setting)


def _stages(use: UseTechnique) -> Code:
    return listing(*(listing(*(text(path) for path in stage)) for stage in use.stages))


def _model(model: BuildModel | FormerSelf, values: Values, teachers: Teachers) -> Code:
    if isinstance(model, FormerSelf):
        return call("run.snapshot", text(model.phase))
    function = next(function for each, function in teachers if each == model)
    if isinstance(function, str):
        return function
    return call(function.name, "len(data.classes)", *([values.name("args")] if function.takes_args else []))


def built_once(techniques: Iterable[Used], values: Values, teachers: Teachers) -> tuple[list[str], Teachers]:
    """The lines that build the models which several techniques of a phase ask for, and all models with these known."""
    asked = [model for one in techniques for _, model in one.use.models if isinstance(model, BuildModel)]
    shared = [model for at, model in enumerate(asked) if asked.index(model) == at and asked.count(model) > 1]
    names = [f"teacher{f'_{at}' if at > 1 else ''}" for at in range(1, len(shared) + 1)]
    lines = [
        line
        for model, name in zip(shared, names, strict=True)
        for line in statement(f"{name} = ", _model(model, values, teachers), "for several techniques")
    ]
    return lines, [*zip(shared, names, strict=True), *teachers]


def teacher_functions(plan: Plan, values: Values) -> Sequence[tuple[BuildModel, Function]]:
    """The functions that build the models which techniques ask for, one for each."""
    models: list[BuildModel] = []
    for phase in plan.phases:
        for use in phase.techniques:
            models += [model for _, model in use.models if isinstance(model, BuildModel) and model not in models]
    names = [f"build_teacher{f'_{at}' if at > 1 else ''}" for at in range(1, len(models) + 1)]
    functions = [build_model(model, values, name, is_teacher=True) for model, name in zip(models, names, strict=True)]
    return list(zip(models, functions, strict=True))
