"""The default split and the default transforms, which follow from the data and the model."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from leaven.binding.parameter_defaults import default_value
from leaven.binding.scope import Scope
from leaven.catalog import lookup
from leaven.catalog.values import Default, Invocation, Origin, Quantity, Setting, Written
from leaven.messages import inputs as messages
from leaven.recipe.data import DataFacts
from leaven.recipe.model_facts import ModelFacts
from leaven.recipe.recipe import Transforms

USUAL_SIZE = 224
USUAL_SHARE = 0.875  # of the resized image that is left by a crop in the centre
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
    settings = tuple(
        Setting(s.name, Quantity(shares[s.name], "%"), Default(reason)) if s.name in shares else s
        for s in split.settings
    )
    return replace(split, settings=settings, origin=Default(reason))


def fill_in(
    train: Transforms | None, eval: Transforms | None, data: DataFacts, model: ModelFacts
) -> tuple[Transforms | None, Transforms | None]:
    """The transforms of training and evaluation, with what was not written filled in."""
    if not data.task.is_for_images:
        return train, eval
    size = model.size or data.size or (USUAL_SIZE, USUAL_SIZE)
    if eval is None:
        eval = _deterministic(train, data) if train is not None else _for_evaluation(size, data, model)
        if train is None:
            train = _for_training(size, data, model, eval)
    elif train is None:
        train = Transforms(eval.stages, Default("as in evaluation"))
    return _completed(train, data, model), _completed(eval, data, model)


def with_size(model: ModelFacts, statement: Invocation, written: Iterable[Transforms], scope: Scope) -> ModelFacts:
    """The model's usual images, but of the size that the recipe says."""
    wanted = height_and_width(statement.settings[0].value)
    for transforms in written:
        scope.add(messages.two_sizes(statement, transforms.origin))
    if wanted is None:  # known only when the recipe runs
        return model
    share = min(model.size) / model.resize if model.size and model.resize else USUAL_SHARE
    return replace(model, size=wanted, resize=int(min(wanted) / share), size_origin=statement.origin)


def _for_evaluation(size: tuple[int, int], data: DataFacts, model: ModelFacts) -> Transforms:
    trained = Default(f"as {model.name} was trained" if model.size else "the data's own size")
    origin = model.size_origin or trained
    if data.size == size:
        return Transforms((), origin)
    if model.size is None and data.is_natural is None:
        return Transforms((), Default("as they are in the data"))
    how = model.interpolation
    if data.size is not None or data.is_natural is False:
        return Transforms((transform("resize", origin, size=list(size), interpolation=how),), origin)
    shorter = model.resize or round(min(size) / USUAL_SHARE)
    resized = transform("resize", origin, size=shorter, interpolation=how)
    return Transforms((resized, transform("center_crop", origin, size=_side(size))), origin)


def _for_training(size: tuple[int, int], data: DataFacts, model: ModelFacts, eval: Transforms) -> Transforms:
    safe = data.task.known.augmentation if data.task.known is not None else ()
    if data.is_natural is None:
        return Transforms(eval.stages, Default("as in evaluation: it is not known whether flips and crops are safe"))
    if not data.is_natural:
        return Transforms(eval.stages, Default("as in evaluation: flips and crops are not safe for this data"))
    if not safe:
        return Transforms(eval.stages, Default("as in evaluation: a crop or a flip may change the target"))
    origin = Default("photographs may be cropped and mirrored" if "crop" in safe else "photographs may be mirrored")
    sized = model.size_origin or origin
    stages = eval.stages
    if "crop" in safe and data.size is not None and data.size == size:
        stages = (transform("random_crop", sized, size=_side(size), padding=max(1, size[0] // 8)),)
    elif "crop" in safe:
        stages = (transform("random_resized_crop", sized, size=_side(size), interpolation=model.interpolation),)
    return Transforms((*stages, transform("horizontal_flip", origin)) if "flip" in safe else stages, origin)


def _deterministic(train: Transforms, data: DataFacts) -> Transforms:
    """The training transforms without the random ones, at the same output size."""
    origin = Default("the training transforms without the random ones")
    stages: list[Invocation] = []
    for stage in train.stages:
        name = stage.card.friendly
        if not is_random(stage):
            stages.append(stage)
            continue
        side = stage.value("size")
        if name == "random_resized_crop":
            if (sides := height_and_width(side)) is not None:
                shorter = round(min(sides) / USUAL_SHARE)
                stages += [transform("resize", origin, size=shorter), transform("center_crop", origin, size=side)]
            elif side is not None:  # known only when the recipe runs
                stages.append(transform("resize", origin, size=side if isinstance(side, tuple) else (side, side)))
        elif name == "random_crop" and side is not None and data.size != height_and_width(side):
            stages.append(transform("center_crop", origin, size=side))
    return Transforms(tuple(stages), origin)


def is_random(stage: Invocation) -> bool:
    """Whether a transform is random, as far as it is known: nothing is of user code."""
    return stage.card.transform.is_random


def _completed(written: Transforms, data: DataFacts, model: ModelFacts) -> Transforms:
    """The transforms with conversion to RGB and to tensors and with normalisation, unless these are written."""
    names = [stage.card.friendly for stage in written.stages]
    origin = Default("always")
    before: list[Invocation] = []
    middle: list[Invocation] = []
    after: list[Invocation] = []
    first = next((at for at, name in enumerate(names) if name in _ON_TENSORS), len(names))
    if data.channels == 1 and model.channels == 3 and not {"rgb", "grayscale"} & set(names):
        before.append(transform("rgb", Default(f"{model.name} takes three channels")))
    if not set(_TENSORS) & set(names):
        middle.append(transform("to_tensor", origin))
    if model.mean and "normalize" not in names:
        known = Default(f"as {model.name} was trained")
        after.append(transform("normalize", known, mean=list(model.mean), std=list(model.std)))
    return Transforms((*before, *written.stages[:first], *middle, *written.stages[first:], *after), written.origin)


def transform(name: str, origin: Origin, **values: Any) -> Invocation:
    """A transform that is not written in the recipe."""
    card = lookup.find("transform", name)[0]
    settings = []
    for parameter in card.parameters:
        value = values.get(parameter.name, default_value(parameter))
        why = origin if parameter.name == "size" or isinstance(origin, Default) else Default("")
        settings.append(Setting(parameter.name, tuple(value) if isinstance(value, list) else value, why))
    return Invocation(card, tuple(settings), origin)


def check_split(split: Invocation, scope: Scope) -> None:
    """Report splits that add up to more than 100%."""
    shares = [s.value for s in split.settings if isinstance(s.value, Quantity) and isinstance(s.origin, Written)]
    total = sum(share.amount for share in shares if share.unit == "%")
    if total > 100:
        scope.add(messages.split_above_all(split, total))


def height_and_width(size: Any) -> tuple[int, int] | None:
    """Height and width, where both are known."""
    sides = size if isinstance(size, tuple) else (size,)
    return (sides[0], sides[-1]) if sides and all(isinstance(side, int) for side in sides) else None


def _side(size: tuple[int, int]) -> Any:
    return size[0] if size[0] == size[1] else list(size)
