"""Model and data together: the default transforms, and whether what comes out of them fits the model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from leaven.binding.parameter_defaults import default_value
from leaven.binding.scope import Scope
from leaven.catalog import lookup
from leaven.catalog.values import Default, Invocation, Origin, Quantity, Setting, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span
from leaven.recipe.data import DataFacts
from leaven.recipe.models import ModelFacts, takes_size
from leaven.recipe.recipe import Data, KeepHead, Model, Steps

USUAL_SIZE = 224
_TENSORS = ("to_tensor", "to_dtype", "to_pure_tensor", "pil_to_tensor", "convert_image_dtype")
_ON_TENSORS = (
    "normalize",
    "random_erasing",
    "gaussian_noise",
    "linear_transformation",
)  # pictures must be numbers first


# -- defaults


def default_split(split: Invocation, facts: DataFacts) -> Invocation:
    """Official parts as they are, a tenth of train for validation where there is none, else 80/10/10."""
    if not facts.splits:
        shares, reason = {"train": 80, "val": 10, "test": 10}, "the data comes undivided"
    elif "val" in facts.splits:
        return replace(split, origin=Default("the parts that the data comes with"))
    else:
        shares, reason = {"val": 10}, "a tenth of train, as the data comes without a validation part"
    settings = tuple(
        Setting(s.name, Quantity(shares[s.name], "%"), Default(reason)) if s.name in shares else s
        for s in split.settings
    )
    return replace(split, settings=settings, origin=Default(reason))


def fill_steps(
    train: Steps | None, eval: Steps | None, data: DataFacts, model: ModelFacts
) -> tuple[Steps | None, Steps | None]:
    """The transforms of training and evaluation, with what was not written filled in."""
    if data.task != "image-classification":
        return train, eval
    size = model.size or data.size or (USUAL_SIZE, USUAL_SIZE)
    if eval is None:
        eval = _deterministic(train, data) if train is not None else _model_steps(size, data, model)
        if train is None:
            train = _training_steps(size, data, model, eval)
    elif train is None:
        train = Steps(eval.stages, Default("as in evaluation"))
    return _completed(train, data, model), _completed(eval, data, model)


def _model_steps(size: tuple[int, int], data: DataFacts, model: ModelFacts) -> Steps:
    origin = Default(f"as {model.name} was trained" if model.size else "the data's own size")
    if data.size == size:
        return Steps((), origin)
    if model.size is None and data.is_natural is None:
        return Steps((), Default("as the data gives them"))
    how = model.interpolation
    if data.size is not None or data.is_natural is False:
        return Steps((step("resize", origin, size=list(size), interpolation=how),), origin)
    shorter = model.resize or round(min(size) / 0.875)
    resized = step("resize", origin, size=shorter, interpolation=how)
    return Steps((resized, step("center_crop", origin, size=_side(size))), origin)


def _training_steps(size: tuple[int, int], data: DataFacts, model: ModelFacts, eval: Steps) -> Steps:
    if data.is_natural is None:
        return Steps(eval.stages, Default("as in evaluation: nothing tells whether flips and crops are safe"))
    if not data.is_natural:
        return Steps(eval.stages, Default("as in evaluation: flips and crops are not safe for this data"))
    origin = Default("photographs may be cropped and mirrored")
    if data.size is not None and data.size == size:
        crop = step("random_crop", origin, size=_side(size), padding=max(1, size[0] // 8))
    else:
        crop = step("random_resized_crop", origin, size=_side(size), interpolation=model.interpolation)
    return Steps((crop, step("horizontal_flip", origin)), origin)


def _deterministic(train: Steps, data: DataFacts) -> Steps:
    """The training steps without chance, at the same output size."""
    origin = Default("the training steps without chance")
    stages: list[Invocation] = []
    for stage in train.stages:
        name = stage.card.friendly
        if not is_random(stage):
            stages.append(stage)
            continue
        side = stage.value("size")
        if name == "random_resized_crop":
            if (sides := _pair(side)) is not None:
                shorter = round(min(sides) / 0.875)
                stages += [step("resize", origin, size=shorter), step("center_crop", origin, size=side)]
            elif side is not None:  # known only when the recipe runs
                stages.append(step("resize", origin, size=side if isinstance(side, tuple) else (side, side)))
        elif name == "random_crop" and side is not None and data.size != _pair(side):
            stages.append(step("center_crop", origin, size=side))
    return Steps(tuple(stages), origin)


def is_random(stage: Invocation) -> bool:
    """Whether a transform draws lots; what a transform of the user's does, nobody knows."""
    return stage.card.transform.is_random


def _completed(steps: Steps, data: DataFacts, model: ModelFacts) -> Steps:
    """The steps with colour channels, conversion to numbers and normalisation, unless they are written."""
    names = [stage.card.friendly for stage in steps.stages]
    origin = Default("always")
    before: list[Invocation] = []
    middle: list[Invocation] = []
    after: list[Invocation] = []
    first = next((at for at, name in enumerate(names) if name in _ON_TENSORS), len(names))
    if data.channels == 1 and model.channels == 3 and not {"rgb", "grayscale"} & set(names):
        before.append(step("rgb", Default(f"{model.name} takes three channels")))
    if not set(_TENSORS) & set(names):
        middle.append(step("to_tensor", origin))
    if model.mean and "normalize" not in names:
        known = Default(f"as {model.name} was trained")
        after.append(step("normalize", known, mean=list(model.mean), std=list(model.std)))
    return Steps((*before, *steps.stages[:first], *middle, *steps.stages[first:], *after), steps.origin)


def step(name: str, origin: Origin, **values: Any) -> Invocation:
    """A transform that nobody wrote."""
    card = lookup.find("transform", name)[0]
    settings = []
    for parameter in card.parameters:
        value = values.get(parameter.name, default_value(parameter))
        settings.append(Setting(parameter.name, tuple(value) if isinstance(value, list) else value, origin))
    return Invocation(card, tuple(settings), origin)


# -- whether it fits


@dataclass(frozen=True, slots=True)
class Picture:
    """What is known of an image on its way: `shorter` is the shorter side of pictures of different shapes."""

    channels: int | None
    size: tuple[int, int] | None = None
    shorter: int | None = None
    varies: bool = False


def check_fit(model: Model, facts: ModelFacts, data: Data, data_facts: DataFacts, scope: Scope) -> None:
    """Classes, channels and size of the data against the model."""
    _check_classes(model, facts, data, scope)
    if data_facts.task != "image-classification" or (isinstance(model.source, tuple) and data_facts.size):
        return
    reported: set[int] = set()
    for part in (data.train, data.eval):
        if part is None:
            continue
        picture, places = _through(part, data, data_facts)
        if places["size"].start in reported:
            continue
        if not _check_picture(picture, facts, places, scope):
            reported.add(places["size"].start)


def check_split(split: Invocation, scope: Scope) -> None:
    """The parts of a split add up to the whole at most."""
    shares = [
        setting
        for setting in split.settings
        if isinstance(setting.value, Quantity) and setting.value.unit == "%" and isinstance(setting.origin, Written)
    ]
    total = sum(setting.value.amount for setting in shares)
    if total > 100:
        assert isinstance(split.origin, Written)
        scope.report(
            "wrong-value",
            f"the parts add up to {total:g}%",
            Spot(split.origin.span, "more than there is"),
            fix="make them add up to 100%",
        )


def _check_classes(model: Model, facts: ModelFacts, data: Data, scope: Scope) -> None:
    if not isinstance(model.head, KeepHead) or facts.classes is None or data.classes is None:
        return
    if facts.classes == data.classes or not (model.pretrained or facts.layers is None):
        return
    assert isinstance(model.origin, Written)
    source = data.source.origin
    spots = [Spot(source.span, f"{data.classes} classes")] if isinstance(source, Written) else []
    scope.report(
        "class-count",
        f"the head of {facts.name} has {facts.classes} outputs, and the data has {data.classes} classes",
        Spot(facts.kept or model.origin.span, "the head is kept"),
        *spots,
        fix="leave out `head=keep`: the head is then fitted to the data",
    )


def _through(steps: Steps, data: Data, facts: DataFacts) -> tuple[Picture, dict[str, Span]]:
    """What the steps make of an image, and the places to blame for its channels and for its size."""
    known = data.source.card.kind != "user"
    picture = Picture(facts.channels, facts.size, None, facts.size is None and known)
    place = steps.origin.span if isinstance(steps.origin, Written) else _span(data.source)
    places = {"channels": place, "size": place}
    for stage in steps.stages:
        after = _after(stage, picture)
        if isinstance(stage.origin, Written):
            if after.channels != picture.channels:
                places["channels"] = stage.origin.span
            if replace(after, channels=picture.channels) != picture:
                places["size"] = stage.origin.span
        picture = after
    return picture, places


def _after(stage: Invocation, picture: Picture) -> Picture:
    name, size = stage.card.friendly, stage.value("size")
    if stage.card.kind == "user":
        return Picture(None)
    if any(_after(inner, picture) != picture for inner in _held(stage)):  # one that may be applied, or in any order
        return Picture(None)
    if name == "rgb":
        return replace(picture, channels=3)
    if name == "grayscale":
        channels = stage.value("num_output_channels", 1)
        return replace(picture, channels=channels if isinstance(channels, int) else None)
    if name == "resize" and isinstance(size, int):
        if picture.size is not None and picture.size[0] == picture.size[1]:
            return replace(picture, size=(size, size), varies=False)
        return replace(picture, size=None, shorter=size, varies=True)
    if size is not None and ("crop" in name or name == "resize"):
        return replace(picture, size=_pair(size), varies=False)
    if name in ("pad", "five_crop", "ten_crop", "random_resize", "random_zoom_out", "scale_jitter", "lambda"):
        return Picture(picture.channels)
    return picture


def _held(stage: Invocation) -> list[Invocation]:
    """The transforms that a transform such as `random_apply` is given."""
    lists = [setting.value for setting in stage.settings if isinstance(setting.value, tuple)]
    return [item for items in lists for item in items if isinstance(item, Invocation)]


def _check_picture(picture: Picture, facts: ModelFacts, places: Mapping[str, Span], scope: Scope) -> bool:
    """Whether the model can take such pictures; the first reason against it is reported."""
    place = places["size"]
    if picture.channels and facts.channels and picture.channels != facts.channels:
        better = "rgb()" if facts.channels == 3 else "grayscale()"
        count = f"{picture.channels} channel" + "s" * (picture.channels != 1)
        scope.report(
            "input-channels",
            f"{facts.name} takes pictures with {facts.channels} channels, and these have {picture.channels}",
            Spot(places["channels"], f"{count} from here on"),
            fix=f"add `-> {better}` to the transforms"
            + (f", or give the model `in_chans={picture.channels}`" if "in_chans" in facts.arguments else ""),
        )
        return False
    if picture.varies:
        shorter = picture.shorter or (facts.size and facts.size[0]) or USUAL_SIZE
        scope.report(
            "input-size",
            "the pictures have different shapes behind these steps, and can't be put into one batch",
            Spot(place, "the sides keep their proportion" if picture.shorter else "as they come from the data"),
            fix=f"add `-> center_crop({shorter})`, or give both sides: `resize([{shorter}, {shorter}])`",
        )
        return False
    if picture.size is None:
        return True
    height, width = picture.size
    if facts.is_size_fixed and facts.size is not None and picture.size != facts.size:
        scope.report(
            "input-size",
            f"{facts.name} takes pictures of {facts.size[0]} x {facts.size[1]}, not of {height} x {width}",
            Spot(place, f"{height} x {width} from here on"),
            fix=_other_size(place, height, facts.size[0])
            + (f", or give the model `img_size={height}`" if "img_size" in facts.arguments else ""),
        )
        return False
    if min(picture.size) < facts.smallest:
        scope.report(
            "input-size",
            f"{facts.name} takes pictures of {facts.smallest} x {facts.smallest} or more, not of {height} x {width}",
            Spot(place, f"{height} x {width} from here on"),
            fix=_other_size(place, height, facts.size[0] if facts.size else facts.smallest),
        )
        return False
    if not takes_size(facts, picture.size):
        scope.report(
            "input-size",
            f"pictures of {height} x {width} do not pass through {facts.name}",
            Spot(place, f"{height} x {width} from here on"),
            fix=_other_size(place, height, (facts.size or (USUAL_SIZE,))[0]),
        )
        return False
    return True


def _other_size(place: Span, size: int, better: int) -> str:
    """The step that makes pictures too large or too small, with the right size."""
    sized = re.sub(rf"\b{size}\b", str(better), place.text)
    return f"write `{sized}`" if sized != place.text else f"add `resize({better})` to the transforms"


def _pair(size: Any) -> tuple[int, int] | None:
    """Height and width, where both are known."""
    sides = size if isinstance(size, tuple) else (size,)
    return (sides[0], sides[-1]) if sides and all(isinstance(side, int) for side in sides) else None


def _side(size: tuple[int, int]) -> Any:
    return size[0] if size[0] == size[1] else list(size)


def _span(source: Invocation) -> Span:
    assert isinstance(source.origin, Written)
    return source.origin.span
