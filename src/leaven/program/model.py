"""The functions that build the model and its teachers."""

from dataclasses import replace

from leaven.binding.parameter_defaults import is_chosen
from leaven.catalog.values import Invocation
from leaven.plan.plan import BuildModel, Call, Chain, FileWeights, HubWeights, StarterWeights
from leaven.program.code import ARGS, Code, Function, Item, call, listing, statement, text
from leaven.program.values import Values, cite, cite_call

_INPUT = ("img_size", "image_size", "in_chans")  # arguments that change a model's inputs


def build_model(model: BuildModel, values: Values, name: str = "build_model", *, is_teacher: bool = False) -> Function:
    with values.noting() as names:
        code, cited = _built(model, values)
        changes = [*_weights(model, values), *_head(model, values), *(_input_spec(model, values) if is_teacher else ())]
    if changes:
        body = [*statement("model = ", code, cited), *changes, "    return model"]
    else:
        body = statement("return ", code, cited)
    types = {values.outputs: f"{values.outputs}: int", "channels": "channels: int", "args": ARGS}
    parameters = tuple(typed for parameter, typed in types.items() if parameter in names)
    return Function(name, parameters, "nn.Module", body, decorator=values.runtime("model_builder"))


def _built(model: BuildModel, values: Values) -> tuple[Code, str]:
    """The call that makes the model, and what it cites."""
    source = model.source
    if isinstance(source, Chain):
        cited = cite(model.because)
        items = [Item(_component(*stage, values), comment=cite_call(stage[0])) for stage in source.stages]
        if {item.comment for item in items} <= {cited}:
            items = [Item(item.code) for item in items]
        return replace(call(values.imports.use("torch.nn.Sequential"), *items), is_tall=True), cited
    more: dict[str, Code] = {}
    if isinstance(model.weights, HubWeights) and source.library == "timm":
        more["pretrained"] = "True"
    if isinstance(model.weights, HubWeights) and source.library == "torchvision":
        more["weights"] = text(model.weights.tag or "DEFAULT")
    if source.classes_by is not None:
        more[source.classes_by] = values.name(values.outputs)
    return _call(source, values, more), cite_call(source.invocation, model.because, model.because_weights)


def _call(source: Call, values: Values, more: dict[str, Code]) -> Code:
    if source.library == "bundle":
        return call(values.imports.use("leaven.bundle.load_model"), *values.arguments(source.invocation))
    first: list[Code] = [text(source.name)] if source.library == "timm" else []
    return call(values.target(source.invocation), *first, *values.arguments(source.invocation, by_name=True), **more)


def _component(stage: Invocation, channels: int | None, values: Values) -> Code:
    first: list[Code] = []
    if stage.card.component.takes_in_channels:
        first.append(values.name("channels") if channels is None else repr(channels))
    return call(values.target(stage), *first, *values.arguments(stage))


def _weights(model: BuildModel, values: Values) -> list[str]:
    new: dict[str, Code] = {"new": listing(*(text(path) for path in model.new))} if model.new else {}
    file: Code
    match model.weights:
        case StarterWeights(package):
            file = call(values.runtime("starter"), text(package))
        case FileWeights(setting):
            file = values.setting(setting)
        case _:
            return []
    return statement("", call(values.runtime("load_weights"), "model", file, **new), cite(model.because_weights))


def _head(model: BuildModel, values: Values) -> list[str]:
    lines: list[str] = []
    if isinstance(model.source, Call) and model.source.invocation.card.model.has_auxiliary_outputs:
        lines += statement("", call(values.runtime("remove_auxiliary_heads"), "model"))
    if model.replaced_head is not None:
        head = call(values.runtime("replace_head"), "model", text(model.replaced_head), values.name(values.outputs))
        lines += statement("", head)
    return lines


def _input_spec(model: BuildModel, values: Values) -> list[str]:
    """The inputs that a teacher was trained on, where they are known."""
    if not isinstance(model.source, Call):
        return []
    source = model.source.invocation
    match model.weights:
        case FileWeights(file):
            code = call(values.runtime("read_input_spec"), "model", values.setting(file))
        case None if model.source.library == "bundle":
            code = call(values.runtime("read_input_spec"), "model", values.setting(source["file"]))
        case HubWeights() | StarterWeights() if _takes_published_inputs(source):
            published = source.card.model
            assert published.input_size is not None
            size, mean, std = map(values.value, (published.input_size[1:], published.mean, published.std))
            code = call(values.runtime("set_input_spec"), "model", size=size, mean=mean, std=std)
        case _:
            return []
    return statement("", code)


def _takes_published_inputs(source: Invocation) -> bool:
    """Whether the card knows the inputs that a model was trained on, and the recipe does not change them."""
    published = source.card.model
    is_known = bool(published.input_size and published.mean and published.std)
    changed = [setting for name in _INPUT if (setting := source.setting(name)) is not None]
    return is_known and not any(is_chosen(setting, source) for setting in changed)
