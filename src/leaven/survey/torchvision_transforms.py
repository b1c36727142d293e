"""torchvision's transforms."""

import inspect
import re

from torchvision.transforms import v2

from leaven.catalog.traits import TransformTraits
from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile
from leaven.survey.names import shorter

_RANDOM_CALL = re.compile(r"torch\.(rand\w*|empty\(1\)\.uniform_|multinomial|distributions)|\brandom\.|_rand\w*\(")


def survey(cards: CardFile) -> None:
    """torchvision's transforms; `random_` may be left out of a name where nothing else has the rest of it."""
    for name, class_ in sorted(vars(v2).items()):
        if not inspect.isclass(class_) or not issubclass(class_, v2.Transform) or class_ is v2.Transform:
            continue
        own = [part for part in class_.__mro__ if issubclass(part, v2.Transform) and part is not v2.Transform]
        traits = TransformTraits(is_random=any(_RANDOM_CALL.search(inspect.getsource(part)) for part in own))
        cards.add_class(class_, f"torchvision.transforms.v2.{name}", signatures.read(class_), traits)
    taken = set(cards.names)
    for friendly, (number, *_) in sorted(cards.names.items()):
        takes_transforms = any(entry["name"] == "transforms" for entry in cards.cards[number].get("parameters", ()))
        if not takes_transforms and (short := shorter(friendly, taken)):
            cards.names[short] = [number]
