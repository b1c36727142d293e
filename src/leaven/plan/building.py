"""How a model comes to be: which call builds it, where its weights come from, and how its head is fitted."""

from dataclasses import replace

from leaven.catalog.layers import Layers
from leaven.catalog.values import Invocation
from leaven.plan.plan import BuildModel, Call, Chain, FileWeights, HubWeights, StarterWeights, Weights
from leaven.recipe.recipe import FitHead, KeepHead, Model, Recipe
from leaven.recipe.shapes import channels_through


def build_model(model: Model, recipe: Recipe) -> BuildModel:
    layers = model.layers or Layers()
    origin = model.origin
    said = model.chosen_weights.origin if model.chosen_weights is not None else origin
    weights = _weights(model)
    if isinstance(model.source, tuple):
        stages = channels_through(model.source, recipe.data.channels, recipe.data.size)
        return BuildModel(Chain(stages), weights, (), None, origin, said)
    source = _call(model.source)
    match model.head:
        case KeepHead():
            is_as_published = isinstance(weights, HubWeights | StarterWeights)
            source = replace(source, classes_by=None) if is_as_published else source
            return BuildModel(source, weights, (), None, origin, said)
        case FitHead(path):
            replaced = path or (_plain_head(layers) if weights is not None and source.library != "user" else None)
    if replaced is None:
        return BuildModel(source, weights, layers.head if weights is not None else (), None, origin, said)
    new = (replaced,) if isinstance(weights, FileWeights) else ()  # the file may be of other classes
    return BuildModel(replace(source, classes_by=None), weights, new, replaced, origin, said)


def _call(source: Invocation) -> Call:
    card = source.card
    if card.kind == "user":
        by = next((p.name for p in card.parameters if p.name in ("classes", "num_classes")), None)
        return Call(source, "user", card.name, by)
    if card.model.loads == "bundle":
        return Call(source, "bundle", card.target, None)
    if card.model.timm_name:
        return Call(source, "timm", card.model.timm_name, "num_classes")
    return Call(source, "torchvision", card.target, "num_classes")


def _plain_head(layers: Layers) -> str | None:
    """The one layer that makes the outputs, if it is a linear one. It is then drawn as torch draws linear layers: how
    libraries draw the head of a whole new net can be far too large for features that are trained already."""
    types = {module.path: module.type for module in layers.modules}
    is_plain = len(layers.head) == 1 and types.get(layers.head[0]) in ("Linear", "Conv2d")
    return layers.head[0] if is_plain else None


def _weights(model: Model) -> Weights | None:
    if model.weights is not None:
        assert model.chosen_weights is not None
        return FileWeights(model.chosen_weights)
    if not model.pretrained:
        return None
    assert isinstance(model.source, Invocation)
    published = model.source.card.model
    if published.weights_package is not None:
        return StarterWeights(published.weights_package.name)
    return HubWeights(published.tag)
