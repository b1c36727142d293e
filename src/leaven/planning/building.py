"""How a model comes to be: which call builds it, where its weights come from, and how its head is fitted."""

from dataclasses import replace

from leaven.binding.parameter_defaults import is_chosen
from leaven.catalog.layers import Layers
from leaven.catalog.values import Invocation, is_written
from leaven.plan.plan import (
    BuildModel,
    Chain,
    FileWeights,
    HubWeights,
    Maker,
    PublishedInputs,
    StarterWeights,
    StoredInputs,
    Weights,
)
from leaven.plan.values import Argument, Calculation, Call, Value, Variable
from leaven.planning.translate import because, because_of_call, call_of, path_text, setting_text, value_of
from leaven.recipe.pipeline_shapes import channels_through
from leaven.recipe.recipe import BACKBONE, KeepHead, Model, NewHead, Recipe
from leaven.recipe.task import Task
from leaven.recipe.text_model import folder_of

_CLASSES = Variable("outputs")
_CHANGE_INPUTS = ("img_size", "image_size", "in_chans")  # arguments of libraries


def build_model(model: Model, recipe: Recipe) -> BuildModel:
    weights = _weights(model)
    chosen = because(model.chosen_weights.origin if model.chosen_weights is not None else model.origin)
    if isinstance(model.source, tuple):
        stages = channels_through(model.source, recipe.data.channels, recipe.data.size)
        chain = Chain(tuple(_component(stage, channels) for stage, channels in stages))
        return BuildModel(chain, weights, (), None, None, False, None, "components", because(model.origin), chosen)
    fitted = _fitted_head(model, weights, recipe.data.task)
    if model.traits.loads == "transformers":  # which fits its head itself
        is_new = isinstance(weights, FileWeights) and isinstance(model.head, NewHead)  # a file may be of other classes
        new, replaced = (model.layers or Layers()).head if is_new else (), None
        source = _text_model(model, model.source, weights)
    else:
        new, replaced, fits_by_argument = _head(model, model.source, weights, is_fitted=fitted is not None)
        extra = recipe.data.task.traits.extra_outputs
        outputs = Calculation("+", _CLASSES, extra) if extra else _CLASSES
        source = _call(model.source, weights, outputs if fits_by_argument else None)
    reasons = (*because_of_call(model.source), *because(model.origin))
    return BuildModel(
        source=source,
        weights=weights,
        new=new,
        replaced_head=replaced,
        fitted_head=fitted,
        removes_auxiliary_heads=model.traits.has_auxiliary_outputs,
        inputs=_inputs(model.source, weights),
        by=_maker(model.source),
        because=reasons,
        because_weights=chosen,
    )


def _maker(source: Invocation) -> Maker:
    """The library that a model is of, or who else makes it."""
    known = source.card.model
    if source.card.kind == "user":
        return "user"
    if known.loads == "bundle":
        return "bundle"
    if known.loads == "transformers":
        return "transformers"
    return "timm" if known.timm_name else "torchvision"


def _component(stage: Invocation, channels: int | None) -> Call:
    given = call_of(stage)
    if not stage.card.component.takes_in_channels:
        return given
    first = Argument("", Variable("channels") if channels is None else channels)
    return replace(given, arguments=(first, *given.arguments))


# -- the head


def _fitted_head(model: Model, weights: Weights | None, task: Task) -> Call | None:
    """The call that fits the head of a published model, where that is more than replacing a layer."""
    if not task.traits.fits_head:
        return None
    is_backbone = isinstance(model.source, Invocation) and task.takes_backbone(model.source.card)
    is_published = isinstance(weights, HubWeights | StarterWeights) or model.has_published_backbone
    if model.head != NewHead(None) or not (is_backbone or is_published):
        return None
    fits = task.traits.fits_backbone if is_backbone else task.traits.fits_head
    return Call(task.path_of(fits), (Argument("", _CLASSES),))


def _head(
    model: Model, source: Invocation, weights: Weights | None, *, is_fitted: bool
) -> tuple[tuple[str, ...], str | None, bool]:
    """The layers that are not loaded, the one that is replaced, and whether an argument fits the head; it may be fitted
    by the task."""
    layers = model.layers or Layers()
    if is_fitted:
        return (), None, False
    match model.head:
        case KeepHead():
            return (), None, not isinstance(weights, HubWeights | StarterWeights)
        case NewHead(path):
            replaced = path or (_plain_head(layers) if weights is not None and source.card.kind != "user" else None)
    if replaced is None:
        return layers.head if weights is not None else (), None, True
    new = (replaced,) if isinstance(weights, FileWeights) else ()  # the file may be of other classes
    return (new, None, True) if _is_fitted_by_data(source) else (new, replaced, False)


def _is_fitted_by_data(source: Invocation) -> bool:
    """Whether a model in user code has a parameter for its number of outputs, which the recipe leaves to the data."""
    parameter = source.card.outputs_parameter if source.card.kind == "user" else None
    return parameter is not None and not any(s.name == parameter.name and is_written(s.origin) for s in source.settings)


def _plain_head(layers: Layers) -> str | None:
    """The one layer that makes the outputs, if it is a linear one. A new one is initialised as torch does: how
    libraries initialise the head of a whole new model can be far too large for features that are trained already."""
    types = {module.path: module.type for module in layers.modules}
    is_plain = len(layers.head) == 1 and types.get(layers.head[0]) in ("Linear", "Conv2d")
    return layers.head[0] if is_plain else None


# -- the call


def text_source(model: Model) -> Value:
    """Where a text model and its tokenizer are: a package, a folder, or a name on the hub."""
    assert isinstance(model.source, Invocation)
    package = model.source.card.model.weights_package
    if package is not None:
        return Call("leaven.runtime.packaged_folder", (Argument("", package.name),))
    folder = folder_of(model.source)
    return path_text(folder) if folder is not None else value_of(model.source["name"])


def _text_model(model: Model, source: Invocation, weights: Weights | None) -> Call:
    more = [Argument("num_labels", _CLASSES)]
    if isinstance(weights, HubWeights | StarterWeights):
        more.append(Argument("pretrained", True))
    if source.card.model.pooling:
        more.append(Argument("pooling", source.card.model.pooling))
    if isinstance(model.head, KeepHead):
        more.append(Argument("keep_head", True))
    return call_of(source, text_source(model), without=["name"], more=more)


def _call(source: Invocation, weights: Weights | None, outputs: Value) -> Call:
    """The call that builds the model, with so many outputs; with those that it has by itself where that is None."""
    card = source.card
    if card.model.loads == "bundle":
        return call_of(source, target="leaven.bundle.load_model")
    if card.kind == "user":
        by = card.outputs_parameter
        fitted = [Argument(by.name, outputs)] if by is not None and outputs is not None else []
        return call_of(source, by_name=True, more=fitted)
    fitted = [Argument("num_classes", outputs)] if outputs is not None else []
    if card.model.timm_name:
        published = [Argument("pretrained", True)] if isinstance(weights, HubWeights) else []
        return call_of(source, card.model.timm_name, more=[*published, *fitted])
    published = [Argument("weights", weights.tag or "DEFAULT")] if isinstance(weights, HubWeights) else []
    return call_of(source, by_name=True, more=[*published, *_backbone(source, weights), *fitted])


def _backbone(source: Invocation, weights: Weights | None) -> list[Argument]:
    """The argument that keeps torchvision from fetching unwanted weights for the backbone, and from freezing it."""
    known = source.card.model
    is_published = isinstance(weights, HubWeights) or source.value(BACKBONE) is not None
    if known.backbone_layers is not None and is_published:
        return [Argument("trainable_backbone_layers", known.backbone_layers)]
    has_backbone = known.has_own_backbone or known.backbone_layers is not None
    return [Argument(BACKBONE, None)] if has_backbone and not is_published else []


# -- weights and inputs


def _weights(model: Model) -> Weights | None:
    if model.weights is not None:
        assert model.chosen_weights is not None
        return FileWeights(value_of(model.chosen_weights), setting_text(model.chosen_weights))
    if not model.pretrained:
        return None
    assert isinstance(model.source, Invocation)
    published = model.source.card.model
    if published.weights_package is not None:
        return StarterWeights(published.weights_package.name)
    return HubWeights(published.tag)


def _inputs(source: Invocation, weights: Weights | None) -> PublishedInputs | StoredInputs | None:
    """The inputs that the weights were trained on, where they are known."""
    match weights:
        case FileWeights(file):
            return StoredInputs(file)
        case None if source.card.model.loads == "bundle":
            return StoredInputs(value_of(source["file"]))
        case HubWeights() | StarterWeights():
            return _published_inputs(source)
    return None


def _published_inputs(source: Invocation) -> PublishedInputs | None:
    published = source.card.model
    if not (published.input_size and published.mean and published.std):
        return None
    changed = [setting for name in _CHANGE_INPUTS if (setting := source.setting(name)) is not None]
    if any(is_chosen(setting, source) for setting in changed):
        return None
    return PublishedInputs(published.input_size[1:], published.mean, published.std)
