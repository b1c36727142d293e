"""The function that builds the model, and the words by which a bundle can build it again."""

from leaven.binding.parameter_defaults import is_chosen
from leaven.catalog.values import Invocation
from leaven.plan.plan import BuildModel, Call, Chain, FileWeights, HubWeights, Plan, StarterWeights
from leaven.program.code import ARGS, Code, Function, Item, call, flat, listing, mapping, statement, text
from leaven.program.values import Values, cite, cite_call, path_text

FITTED = "default: the head is fitted to the data"
SEEN = "default: a teacher gets inputs as it was trained on"
_INPUT = ("img_size", "image_size", "in_chans")  # arguments that change what pictures a model takes


def build_model(model: BuildModel, values: Values, name: str = "build_model", *, is_teacher: bool = False) -> Function:
    with values.noting() as names:
        lines = [*_built(model, values), *_filled(model, values)]
        if is_teacher:
            lines += _sight(model, values)
    if _has_side_outputs(model):
        lines += ["    runtime.remove_auxiliary_heads(model)  # default: one loss, of the outputs that are used"]
    if model.replaced_head is not None:
        lines += statement("", call("runtime.replace_head", "model", text(model.replaced_head), "classes"), FITTED)
    parameters = ["classes: int"]
    if "channels" in names:
        parameters.append("channels: int")
    if "args" in names:
        parameters.append(ARGS)
    return Function(name, tuple(parameters), "nn.Module", [*lines, "    return model"])


def _built(model: BuildModel, values: Values) -> list[str]:
    source = model.source
    if isinstance(source, Chain):
        items = [Item(_component(*stage, values), comment=cite_call(stage[0])) for stage in source.stages]
        return statement("model = ", call(values.imports.use("torch.nn.Sequential"), *items), cite(model.because))
    more: dict[str, Code] = {}
    if isinstance(model.weights, HubWeights) and source.library == "timm":
        more["pretrained"] = "True"
    if isinstance(model.weights, HubWeights) and source.library == "torchvision":
        more["weights"] = text(model.weights.tag or "DEFAULT")
    if source.classes_by is not None:
        more[source.classes_by] = "classes"
    made = _call(source, values, more)
    comment = cite_call(source.invocation, model.because)
    if isinstance(model.weights, HubWeights):
        name = source.invocation.card.bare_name
        return [
            *statement("with ", call("runtime.from_hub", text(name)), cite(model.because_weights), suffix=":"),
            *statement("model = ", made, comment, depth=2),
        ]
    return statement("model = ", made, comment)


def _has_side_outputs(model: BuildModel) -> bool:
    """Whether a net of torchvision's has outputs beside its own."""
    return isinstance(model.source, Call) and model.source.invocation.card.model.has_auxiliary_outputs


def _call(source: Call, values: Values, more: dict[str, Code]) -> Code:
    if source.library == "bundle":
        return call("bundle.load_model", *values.arguments(source.invocation))
    first: list[Code] = [text(source.name)] if source.library == "timm" else []
    return call(values.target(source.invocation), *first, *values.arguments(source.invocation, by_name=True), **more)


def _component(stage: Invocation, channels: int | None, values: Values) -> Code:
    first: list[Code] = []
    if stage.card.component.takes_in_channels:
        first.append(values.name("channels") if channels is None else repr(channels))
    return call(values.target(stage), *first, *values.arguments(stage))


def _filled(model: BuildModel, values: Values) -> list[str]:
    new: dict[str, Code] = {"new": listing(*(text(path) for path in model.new))} if model.new else {}
    match model.weights:
        case StarterWeights(package):
            code = call("runtime.load_weights", "model", call("runtime.starter", text(package)), **new)
        case FileWeights(file):
            code = call("runtime.load_weights", "model", values.setting(file), **new)
        case _:
            return []
    return statement("", code, cite(model.because_weights))


def _sight(model: BuildModel, values: Values) -> list[str]:
    """How a teacher is used to be shown its pictures, where that is known."""
    if not isinstance(model.source, Call):
        return []
    source = model.source.invocation
    match model.weights:
        case FileWeights(file):
            code = call("runtime.read_input_spec", "model", values.setting(file))
        case None if model.source.library == "bundle":
            code = call("runtime.read_input_spec", "model", values.setting(source["file"]))
        case HubWeights() | StarterWeights() if _is_seen_as_published(source):
            published = source.card.model
            assert published.input_size is not None
            size, mean, std = map(values.value, (published.input_size[1:], published.mean, published.std))
            code = call("runtime.set_input_spec", "model", size=size, mean=mean, std=std)
        case _:
            return []
    return statement("", code, SEEN)


def _is_seen_as_published(source: Invocation) -> bool:
    """Whether the card tells the pictures that a model takes, and the recipe nothing else."""
    published = source.card.model
    is_told = bool(published.input_size and published.mean and published.std)
    changed = [setting for name in _INPUT if (setting := source.setting(name)) is not None]
    return is_told and not any(is_chosen(setting, source) for setting in changed)


# -- for the bundle


def built_by(plan: Plan, values: Values) -> Code:
    """How to build the same model again, as data."""
    model = plan.model
    classes = "len(data.classes)"
    source = model.source
    if isinstance(source, Chain):
        stages = [_described_component(*stage, values) for stage in source.stages]
        return call("bundle.Components", listing(*stages))
    said = [setting for setting in source.invocation.settings if is_chosen(setting, source.invocation)]
    arguments = {setting.name: values.setting(setting) for setting in said}
    if source.library == "user":
        return _own(plan, source, arguments, classes)
    kind = "bundle.Timm" if source.library == "timm" else "bundle.Torchvision"
    name = source.name if source.library == "timm" else source.invocation.card.target.rpartition(".")[2]
    if source.classes_by is not None or model.replaced_head is not None:
        arguments["num_classes"] = classes
    if _has_side_outputs(model):
        arguments["aux_logits"] = "False"
    return call(kind, text(name), **arguments)


def stands_on(plan: Plan, values: Values) -> Code | None:
    """Where the weights are that stay out of the bundle, if adapters are kept aside."""
    used = [use.invocation for phase in plan.phases for use in phase.techniques]
    if not any(each.card.technique.is_adapter and each.value("merge") is False for each in used):
        return None
    named: dict[str, Code] = {}
    match plan.model.weights:
        case StarterWeights(package):
            named["starter"] = text(package)
        case FileWeights(file):
            named["file"] = values.setting(file)
        case HubWeights(tag):
            named["hub"] = text(tag or "DEFAULT")
    new = plan.model.new or ((plan.model.replaced_head,) if plan.model.replaced_head is not None else ())
    if new:
        named["new"] = listing(*(text(path) for path in new))
    return call("bundle.Over", **named)


def _described_component(stage: Invocation, channels: int | None, values: Values) -> Code:
    name = stage.card.target.rpartition(".")[2]
    given: dict[str, Code] = {}
    if stage.card.component.takes_in_channels:
        given["in_channels"] = "data.channels" if channels is None else repr(channels)
    for setting in stage.settings:
        if is_chosen(setting, stage):
            code = values.setting(setting)
            given[setting.name] = "len(data.classes)" if code == "classes" else code
    return f"({text(name)}, {flat(mapping(given))})"


def _own(plan: Plan, source: Call, arguments: dict[str, Code], classes: str) -> Code:
    alias, _, name = source.invocation.card.name.partition(".")
    module = next(module for module in plan.recipe.modules if module.alias == alias)
    file = path_text(module.place) if module.place is not None else module.target
    if source.classes_by is not None:
        arguments[source.classes_by] = classes
    more: dict[str, Code] = {}
    if plan.model.replaced_head is not None:
        more["head"] = f"({text(plan.model.replaced_head)}, {classes})"
    return call("bundle.Own", text(file), text(name), mapping(arguments), **more)
