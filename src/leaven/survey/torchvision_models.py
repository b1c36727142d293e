"""torchvision's models: their real arguments, and what their weights say about input and classes.

Of segmentation, detection, video and flow models little more than the task is read, so that a recipe that uses one
where it does not fit gets a clear answer.
"""

from typing import Any

import torchvision
from torchvision.models import WeightsEnum

from leaven.catalog.traits import ModelTraits
from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile, differences
from leaven.survey.construction import Construction, add_differences, constructor_signature, watch
from leaven.survey.docstring import first_sentence
from leaven.survey.signature import Signature

_SUPPLIED = frozenset({"weights", "weights_backbone", "progress", "num_classes", "pretrained", "backbone"})
_TASKS = {
    "segmentation": "image-segmentation",
    "detection": "image-detection",
    "video": "video",
    "optical_flow": "flow",
}
_OTHER_DETECTORS = {"maskrcnn": "image-instances", "keypointrcnn": "keypoints"}  # by the beginning of their names
_FROZEN = "trainable_backbone_layers"  # what recipes say by `freeze`
_BACKBONE: dict[str, Any] = {
    "name": "weights_backbone",
    "type": "text|none",
    "default": None,
    "positional": False,
    "summary": "published weights of the backbone alone: DEFAULT, or a tag such as IMAGENET1K_V1",
}


def survey(cards: CardFile) -> None:
    """Adds every torchvision model except quantised copies."""
    for name in cards.counted(torchvision.models.list_models()):
        if name.startswith("quantized_"):
            continue
        entry = torchvision.models.get_model_builder(name)
        family = entry.__module__.removeprefix("torchvision.models.").split(".")[0]
        package = f"torchvision.models.{family}" if family in _TASKS else "torchvision.models"
        signature = signatures.read(entry).without({*_SUPPLIED, _FROZEN})
        is_detector = family == "detection"
        extra = {"weights_backbone": None} if is_detector else {}
        construction = watch(entry, weights=None, progress=False, **extra) if extra or family not in _TASKS else None
        known = constructor_signature(construction).names() if construction is not None else set()
        other = next((task for start, task in _OTHER_DETECTORS.items() if name.startswith(start)), None)
        backbone_layers = 6 if "mobilenet" in name else 5  # as torchvision counts them in `trainable_backbone_layers`
        traits = _published(name)._replace(
            task=other or _TASKS.get(family, "image-classification"),
            backbone_layers=backbone_layers if is_detector else None,
            has_fixed_input_size=bool(known & {"image_size", "input_size"}),
            has_auxiliary_outputs="aux_logits" in known,
            has_own_backbone="weights_backbone" in signatures.read(entry).names(),
        )
        target, summary = f"{package}.{entry.__name__}", first_sentence(entry.__doc__)
        card = cards.add(f"torchvision.{name}", target, Signature(), spellings=(name,), summary=summary, traits=traits)
        if is_detector:
            signature = Signature([*signature.parameters, _BACKBONE], signature.open_ended)
        _add_signature(cards, card, signature, construction)


def _add_signature(cards: CardFile, card: dict[str, Any], own: Signature, construction: Construction | None) -> None:
    if construction is None:
        card["signature"] = cards.share(own.as_options().parameters)
        card["open_ended"] = own.open_ended
        return
    inner = constructor_signature(construction).without({*_SUPPLIED, *own.names()})
    signature = Signature(own.parameters + inner.parameters, inner.open_ended).as_options()
    card["signature"] = cards.share(signature.parameters)
    card["open_ended"] = signature.open_ended
    add_differences(card, construction, signature)


def _published(name: str) -> ModelTraits:
    """The default weights' traits, and under `weights` what the others change."""
    enum = torchvision.models.get_model_weights(name)
    members = sorted(enum, key=lambda member: member is not getattr(enum, "DEFAULT", None))
    published = {member.name: _traits(member) for member in members}
    default = next(iter(published.values()), ModelTraits(has_weights=False))
    return default._replace(weights={tag: differences(default, traits) for tag, traits in published.items()})


def _traits(weights: WeightsEnum) -> ModelTraits:
    preset, meta = weights.transforms(), weights.meta
    crop = _sizes(getattr(preset, "crop_size", None))
    resize = _sizes(getattr(preset, "resize_size", None))
    interpolation = getattr(preset, "interpolation", None)
    return ModelTraits(
        classes=len(meta.get("categories") or ()) or None,
        parameters=meta.get("num_params"),
        input_size=(3, crop[0], crop[1]) if crop else None,
        smallest_input=_sizes(meta.get("min_size", 1))[0],
        resize=resize[0] if resize else None,
        crop_fraction=round(crop[0] / resize[0], 4) if crop and resize else None,
        mean=tuple(getattr(preset, "mean", ())),
        std=tuple(getattr(preset, "std", ())),
        interpolation=interpolation.value if interpolation is not None else ModelTraits().interpolation,
    )


def _sizes(value: Any) -> list[int]:
    """A size as height and width."""
    if value is None:
        return []
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * 2 if len(sizes) == 1 else sizes
