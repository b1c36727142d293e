"""The default split and the default transforms, which follow from the data and the model."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from leaven.binding.parameter_defaults import default_value
from leaven.binding.scope import Scope
from leaven.catalog import lookup
from leaven.catalog.values import Default, Invocation, Origin, Quantity, Setting, is_written
from leaven.messages import inputs as messages
from leaven.recipe.data import DataFacts
from leaven.recipe.model_facts import ModelFacts
from leaven.recipe.recipe import Transforms

USUAL_SIZE = 224
_LEAST_CROP = 0.25  # of an image that is segmented: in a smaller part, things are hard to tell
_LEAST_OF_FEW = 0.35  # of one of few images for a trained model, which needs no hard ones; docs/benchmarks.md
_TENSORS = ("to_tensor", "to_dtype", "to_pure_tensor", "pil_to_tensor", "convert_image_dtype")
_ON_TENSORS = ("normalize", "random_erasing", "gaussian_noise", "linear_transformation")


def default_split(split: Invocation, facts: DataFacts) -> Invocation:
    """Predefined splits as they are, a tenth of train for validation where there is none, else 80/10/10."""
    if not facts.splits:
        shares, reason = {"train": 80, "val": 10, "test": 10}, "no predefined split"
    elif "val" in facts.splits:
        return replace(split, origin=Default(""))
    else:
        shares, reason = {"val": 10}, "a tenth of train, as there is no predefined validation split"
    for name, share in shares.items():
        split = split.with_setting(Setting(name, Quantity(share, "%"), Default(reason)))
    return replace(split, origin=Default(reason))


def fill_in(
    train: Transforms | None, eval: Transforms | None, data: DataFacts, model: ModelFacts, few: int | None
) -> tuple[Transforms | None, Transforms | None]:
    """The transforms of training and evaluation, with what was not written filled in.

    `few` is the number of images for training, where a trained model gets only few.
    """
    if not data.task.is_for_images:
        return train, eval
    size = model.size or data.size or (USUAL_SIZE, USUAL_SIZE)
    train, eval = _resized_for(model, train) if train else None, _resized_for(model, eval) if eval else None
    if eval is None:
        eval = _deterministic(train, data, model) if train else _resized_for(model, _for_evaluation(size, data, model))
        train = train or _resized_for(model, _for_training(size, data, model, eval, few))
    elif train is None:
        train = Transforms(eval.stages, Default("as in evaluation"))
    return _completed(train, data, model), _completed(eval, data, model)


def with_size(model: ModelFacts, statement: Invocation, written: Iterable[Transforms], scope: Scope) -> ModelFacts:
    """The facts of a model, with the image size of the recipe's `size` statement."""
    wanted = height_and_width(statement.settings[0].value)
    for transforms in written:
        scope.add(messages.two_sizes(statement, transforms.origin))
    if wanted is None:  # known only when the recipe runs
        return model
    return replace(model, size=wanted, size_origin=statement.origin)


def _resized_for(model: ModelFacts, transforms: Transforms) -> Transforms:
    """The transforms with the interpolation that the model was trained with, where they resize and say no other."""
    if model.published.input_size is None:
        return transforms
    return replace(transforms, stages=tuple(_resampled(stage, model) for stage in transforms.stages))


def _resampled(stage: Invocation, model: ModelFacts) -> Invocation:
    resizes = stage.card.parameter("antialias") is not None  # rotations interpolate, too, but never shrink
    settings = []
    for setting in stage.settings:
        if isinstance(setting.value, tuple):  # `random_apply` has transforms of its own
            inner = (_resampled(item, model) if isinstance(item, Invocation) else item for item in setting.value)
            settings.append(replace(setting, value=tuple(inner)))
        elif setting.name == "interpolation" and resizes and not is_written(setting.origin):
            settings.append(Setting("interpolation", model.published.interpolation, _as_trained(model)))
        else:
            settings.append(setting)
    return replace(stage, settings=tuple(settings))


def _as_trained(model: ModelFacts) -> Default:
    return Default(f"as {model.name} was trained")


def _for_evaluation(size: tuple[int, int], data: DataFacts, model: ModelFacts) -> Transforms:
    origin = model.size_origin or (_as_trained(model) if model.size else Default("the data's own size"))
    if data.task.traits.model_resizes and model.size_origin is None:
        return Transforms((), Default("the model resizes images itself"))
    if data.task.traits.model_resizes:
        return Transforms((transform("resize", origin, size=list(size)),), origin)
    if data.size == size:
        return Transforms((), origin)
    if model.size is None and data.is_natural is None:
        return Transforms((), Default("as they are in the data"))
    if data.size is not None or data.is_natural is False or data.task.traits.moves_targets:  # nothing may be cut off
        return Transforms((transform("resize", origin, size=list(size)),), origin)
    return Transforms(_cropped(size, model, origin), origin)


def _cropped(size: tuple[int, int], model: ModelFacts, origin: Origin, **how: Any) -> tuple[Invocation, ...]:
    """An image resized and cropped to a size, with the share of it that the model was trained with."""
    shorter = model.published.shorter_side(size)
    resized = transform("resize", origin, size=[shorter] * 2 if model.published.is_squashed else shorter, **how)
    return resized, transform("center_crop", origin, size=_side(size))


def _for_training(
    size: tuple[int, int], data: DataFacts, model: ModelFacts, eval: Transforms, few: int | None
) -> Transforms:
    safe = data.task.traits.augmentation
    if data.is_natural is None:
        return Transforms(eval.stages, Default("as in evaluation: it is not known whether flips and crops are safe"))
    if not data.is_natural:
        return Transforms(eval.stages, Default("as in evaluation: flips and crops are not safe for this data"))
    if not safe:
        return Transforms(eval.stages, Default("as in evaluation: a crop or a flip may change the target"))
    origin = Default("photographs may be cropped and flipped" if "crop" in safe else "photographs may be flipped")
    sized = model.size_origin or origin
    stages = eval.stages
    if "crop" in safe and data.size is not None and data.size == size:
        stages = (transform("random_crop", sized, size=_side(size), padding=max(1, size[0] // 8)),)
    elif "crop" in safe and data.task.traits.moves_targets:
        stages = (transform("random_resized_crop", sized, size=_side(size), scale=[_LEAST_CROP, 1.0]),)
    elif "crop" in safe and few is not None:
        mild = model.size_origin or Default(f"{few:,} images for a trained model: crops keep most of each")
        stages = (transform("random_resized_crop", mild, size=_side(size), scale=[_LEAST_OF_FEW, 1.0]),)
    elif "crop" in safe:
        stages = (transform("random_resized_crop", sized, size=_side(size)),)
    return Transforms((*stages, transform("horizontal_flip", origin)) if "flip" in safe else stages, origin)


def _deterministic(train: Transforms, data: DataFacts, model: ModelFacts) -> Transforms:
    """The training transforms without the random ones, at the same output size."""
    origin = Default("the training transforms without the random ones")
    stages: list[Invocation] = []
    for stage in train.stages:
        name = stage.card.friendly
        if not stage.card.transform.is_random:
            stages.append(stage)
            continue
        side = stage.value("size")
        if name == "random_resized_crop":
            how = {word: stage.value(word) for word in ("interpolation", "antialias")}
            if (sides := height_and_width(side)) is not None and not data.task.traits.moves_targets:
                stages += _cropped(sides, model, origin, **how)
            elif side is not None:  # known only when the recipe runs
                square = side if isinstance(side, tuple) else (side, side)
                stages.append(transform("resize", origin, size=square, **how))
        elif name == "random_crop" and side is not None and data.size != height_and_width(side):
            stages.append(transform("center_crop", origin, size=side))
    return Transforms(tuple(stages), origin)


def _completed(written: Transforms, data: DataFacts, model: ModelFacts) -> Transforms:
    """The transforms with conversion to RGB and to tensors and with normalisation, unless these are written."""
    names = [stage.card.friendly for stage in written.stages]
    stages = list(written.stages)
    if not set(_TENSORS) & set(names):
        first = next((at for at, name in enumerate(names) if name in _ON_TENSORS), len(names))
        stages.insert(first, transform("to_tensor", Default("always")))
    if data.channels == 1 and model.channels == 3 and not {"rgb", "grayscale"} & set(names):
        stages.insert(0, transform("rgb", Default(f"{model.name} takes three channels")))
    if model.mean and "normalize" not in names:
        stages.append(transform("normalize", _as_trained(model), mean=list(model.mean), std=list(model.std)))
    return Transforms(tuple(stages), written.origin)


def transform(name: str, origin: Origin, **values: Any) -> Invocation:
    """A transform that is not written in the recipe."""
    card = lookup.find("transform", name)[0]
    settings = []
    for parameter in card.parameters:
        value = values.get(parameter.name, default_value(parameter))
        why = origin if parameter.name == "size" or isinstance(origin, Default) else Default("")
        settings.append(Setting(parameter.name, tuple(value) if isinstance(value, list) else value, why))
    return Invocation(card, tuple(settings), origin)


def height_and_width(size: Any) -> tuple[int, int] | None:
    """Height and width, where both are known."""
    sides = size if isinstance(size, tuple) else (size,)
    return (sides[0], sides[-1]) if sides and all(isinstance(side, int) for side in sides) else None


def _side(size: tuple[int, int]) -> Any:
    return size[0] if size[0] == size[1] else list(size)
