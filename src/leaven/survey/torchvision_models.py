"""torchvision's models: their real arguments, and what their weights say of input and classes.

Classifiers come with all facts; segmentation, detection, video and flow models carry their task, so that a recipe that
uses one where it does not fit gets a clear answer.
"""

from collections.abc import Callable
from typing import Any

import torchvision
from torchvision.models import WeightsEnum

from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile
from leaven.survey.construction import add_particulars, constructor_signature, watch
from leaven.survey.docstring import first_sentence
from leaven.survey.signature import Signature

_SUPPLIED = frozenset({"weights", "weights_backbone", "progress", "num_classes", "pretrained", "backbone"})
_TASKS = {"segmentation": "segmentation", "detection": "detection", "video": "video", "optical_flow": "flow"}


def survey(cards: CardFile) -> None:
    """Adds every torchvision model except quantised copies."""
    for name in torchvision.models.list_models():
        if name.startswith("quantized_"):
            continue
        entry = torchvision.models.get_model_builder(name)
        family = entry.__module__.removeprefix("torchvision.models.").split(".")[0]
        package = f"torchvision.models.{family}" if family in _TASKS else "torchvision.models"
        card = cards.add(
            f"torchvision.{name}",
            f"{package}.{entry.__name__}",
            Signature(),
            spellings=(name,),
            summary=first_sentence(entry.__doc__),
            facts={"task": _TASKS.get(family, "image-classification"), **_weight_facts(name)},
        )
        _add_signature(cards, card, entry)
        if card["facts"]["task"] == "image-classification":
            names = {parameter["name"] for parameter in cards.shared(card["signature"])} if "signature" in card else ()
            card["facts"]["fixed_input_size"] = "image_size" in names or "input_size" in names


def _add_signature(cards: CardFile, card: dict[str, Any], entry: Callable[..., Any]) -> None:
    own = signatures.read(entry).without(_SUPPLIED)
    is_classifier = card["facts"]["task"] == "image-classification"
    construction = watch(entry, weights=None, progress=False) if is_classifier else None
    if construction is None:
        _take_by_name(own)
        card["parameters"] = own.parameters
        card["open_ended"] = own.open_ended
        return
    signature = constructor_signature(construction).without(_SUPPLIED)
    own_names = own.names()
    signature.parameters = own.parameters + [
        parameter for parameter in signature.parameters if parameter["name"] not in own_names
    ]
    _take_by_name(signature)
    card["signature"] = cards.share(signature.parameters)
    card["open_ended"] = signature.open_ended
    add_particulars(card, construction, signature)


def _take_by_name(signature: Signature) -> None:
    for parameter in signature.parameters:
        parameter["positional"] = False
        parameter.pop("required", None)


def _weight_facts(name: str) -> dict[str, Any]:
    """The default weights' facts, and under `weights` what the others say otherwise."""
    enum = torchvision.models.get_model_weights(name)
    members = sorted(enum, key=lambda member: member is not getattr(enum, "DEFAULT", None))
    facts = {member.name: _facts(member) for member in members}
    default = next(iter(facts.values()), {})
    weights = {
        tag: {key: value for key, value in told.items() if default.get(key) != value} for tag, told in facts.items()
    }
    return {**default, "has_weights": bool(facts), "weights": weights}


def _facts(weights: WeightsEnum) -> dict[str, Any]:
    preset = weights.transforms()
    meta = weights.meta
    found: dict[str, Any] = {}
    crop = _sizes(getattr(preset, "crop_size", None))
    resize = _sizes(getattr(preset, "resize_size", None))
    if crop:
        found["input_size"] = [3, *crop]
    if resize:
        found["resize_size"] = resize
        if crop:
            found["crop_pct"] = round(crop[0] / resize[0], 4)
    for field in ("mean", "std"):
        if (value := getattr(preset, field, None)) is not None:
            found[field] = list(value)
    if (interpolation := getattr(preset, "interpolation", None)) is not None:
        found["interpolation"] = interpolation.value
    if meta.get("categories"):
        found["classes"] = len(meta["categories"])
    for field in ("num_params", "min_size"):
        if field in meta:
            found[field] = signatures.plain(meta[field])
    return found


def _sizes(value: Any) -> list[int]:
    """A size as height and width."""
    if value is None:
        return []
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * 2 if len(sizes) == 1 else sizes
