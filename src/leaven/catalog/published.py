"""The models that can be used as they were published: found by name."""

import os.path

from leaven.catalog import lookup
from leaven.catalog.card import Card
from leaven.formats.class_names import published_set
from leaven.formats.published_model import PublishedModel

_OF_FILES = (".bundle", ".ckpt", ".leaven")


def library_model(name: str) -> Card | None:
    """The image model of a library that a name means; None for any other name. A path is not looked up: that could
    take a minute, if the libraries were not indexed before."""
    if os.path.basename(name) != name or name.endswith(_OF_FILES):
        return None
    cards = lookup.find("model", name)
    if not cards or cards[0].model.loads != "library" or cards[0].model.task != "image-classification":
        return None
    return cards[0]


def published_model(name: str) -> PublishedModel | None:
    """The published classifier that a name means; None where there is none."""
    card = library_model(name)
    known = card.model if card is not None else None
    if card is None or known is None or not (known.has_weights and known.input_size and known.mean and known.std):
        return None
    height, width = known.input_size[1:]
    return PublishedModel(
        name=name,
        library="timm" if known.timm_name else "torchvision",
        built_as=known.timm_name or card.target.rpartition(".")[2],
        tag=known.tag,
        package=known.weights_package.name if known.weights_package is not None else None,
        classes=published_set(known.classes),
        size=(height, width),
        resize=known.shorter_side((height, width)),
        is_squashed=known.is_squashed,
        interpolation=known.interpolation,
        mean=known.mean,
        std=known.std,
    )
