"""A file gives the same image each time it is decoded: images are decoded once, and stored.

The transforms before the first random one give the same image, too: what is stored is the image after them, as long as
they leave it an image. Whether that is faster and not too large only the files tell, so the program finds it
(`runtime/stored/decoded.py`); here is decided what the recipe tells.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from leaven.plan.plan import Choice, Plan, StoreDecoded, TrainPhase, Transforms
from leaven.plan.values import Value
from leaven.planning.passes.inputs import SPLITS, why_never_stored

ABOUT = "images"
_AS_ASKED = "read each time they are needed"
_LEAVE_AN_IMAGE = {  # of the transforms that are not random, with what is done to an image
    "torchvision.transforms.v2.RGB": "converted",
    "torchvision.transforms.v2.Grayscale": "converted",
    "torchvision.transforms.v2.Resize": "resized",
    "torchvision.transforms.v2.CenterCrop": "cropped",
    "torchvision.transforms.v2.Pad": "padded",
}


def store_decoded_images(plan: Plan) -> Plan:
    is_in_memory = plan.data.images_in == "memory" or plan.data.eval.is_tokenizing
    if is_in_memory or not any(phase.trains for phase in plan.phases):
        return plan
    stored: list[StoreDecoded] = []
    choices: list[Choice] = []
    for split, used in (("train", plan.data.train), ("val", plan.data.eval)):
        reason = next(_reasons(plan, split, used), "")
        about = f"{ABOUT}, {SPLITS[split]}"
        if reason:
            choices.append(Choice(about, "", _AS_ASKED, _AS_ASKED, reason))
            continue
        done = [_LEAVE_AN_IMAGE.get(getattr(one, "target", "")) for one in used.calls]
        first = [] if plan.task.moves_targets else list(takewhile(bool, done))
        resizes = next((word for word in first if word != "converted"), "") == "resized"  # before the size matters
        approximate = plan.approximate if resizes else None
        how = "decoded at a smaller size if they are JPEG" if approximate is not None else "decoded"
        asked = "`exact=false` asks for this approximation" if approximate is not None else ""
        what = _done(word for word in first if word)
        stored.append(StoreDecoded(split, len(first), what, approximate))
        chosen = f"{how}{what} once, and stored"
        choices.append(Choice(about, "", _AS_ASKED, chosen, asked or "they are the same in every epoch"))
    train, val = choices
    if replace(train, about=val.about) == val:
        choices = [replace(train, about=ABOUT)]
    return replace(plan, data=replace(plan.data, decoded=tuple(stored)), choices=(*plan.choices, *choices))


def _reasons(plan: Plan, split: str, transforms: Transforms) -> Iterator[str]:
    """Why the images of a split are not stored."""
    yield from why_never_stored(plan)
    if plan.data.images_in != "files":
        yield "it is not known which files they are in"
    if transforms.own:
        yield f"{', '.join(transforms.own)} is your own code, which may use more of a file than its pixels"
    for phase in plan.phases:
        for use in phase.techniques:
            if use.call.is_user and "on_data" in use.hooks:
                yield f"`{use.name}` is your own code, which may change the data"
    times = [_times(phase, split) for phase in plan.phases if phase.trains]
    if set(times) == {1}:
        is_stored = all(split in phase.stored for phase in plan.phases if phase.trains)
        yield "only the frozen layers need them, once" if is_stored else "there is only one epoch"


def _times(phase: TrainPhase, split: str) -> Value:
    """How often the images of a split are used in a phase, where that is known."""
    if split not in phase.stored:
        return phase.epochs.value
    return phase.views.value if split == "train" and phase.views is not None else 1


def _done(words: Iterable[str]) -> str:
    """`, resized and cropped`."""
    named = list(dict.fromkeys(words))
    return "".join([*(f", {word}" for word in named[:-1]), *(f" and {word}" for word in named[-1:])])
