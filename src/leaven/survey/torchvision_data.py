"""torchvision's datasets.

A small table says what a dataset's class can't: the number of classes, the size of the images, the official splits, and
whether a mirrored image keeps its label: a mirrored cat is a cat, a mirrored 2 is not a 2.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from torchvision import datasets

from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile
from leaven.survey.docstring import first_sentence
from leaven.survey.names import spellings


@dataclass(frozen=True)
class _Known:
    """What is well known of a classification data set."""

    classes: int
    size: tuple[int, int] | None = None  # None where pictures differ in size
    channels: int = 3
    parts: tuple[str, ...] = ()  # the values of `split`: train, val (where there is one), test
    natural: bool = True  # a picture and its mirror image show the same thing


_TRAIN_TEST = ("train", "", "test")
_ALL = ("train", "val", "test")
_KNOWN = {
    "CIFAR10": _Known(10, (32, 32)),
    "CIFAR100": _Known(100, (32, 32)),
    "MNIST": _Known(10, (28, 28), 1, natural=False),
    "FashionMNIST": _Known(10, (28, 28), 1),
    "KMNIST": _Known(10, (28, 28), 1, natural=False),
    "QMNIST": _Known(10, (28, 28), 1, natural=False),
    "EMNIST": _Known(0, (28, 28), 1, natural=False),
    "USPS": _Known(10, (16, 16), 1, natural=False),
    "SEMEION": _Known(10, (16, 16), 1, natural=False),
    "SVHN": _Known(10, (32, 32), parts=_TRAIN_TEST, natural=False),
    "STL10": _Known(10, (96, 96), parts=_TRAIN_TEST),
    "Food101": _Known(101, parts=_TRAIN_TEST),
    "Flowers102": _Known(102, parts=_ALL),
    "StanfordCars": _Known(196, parts=_TRAIN_TEST),
    "FGVCAircraft": _Known(100, parts=_ALL),
    "OxfordIIITPet": _Known(37, parts=("trainval", "", "test")),
    "DTD": _Known(47, parts=_ALL),
    "GTSRB": _Known(43, parts=_TRAIN_TEST, natural=False),
    "EuroSAT": _Known(10, (64, 64)),
    "PCAM": _Known(2, (96, 96), parts=_ALL),
    "Country211": _Known(211, parts=("train", "valid", "test")),
    "FER2013": _Known(7, (48, 48), 1, parts=_TRAIN_TEST),
    "RenderedSST2": _Known(2, (448, 448), parts=_ALL, natural=False),
    "CLEVRClassification": _Known(8, (320, 480), parts=("train", "", "val")),
    "Caltech101": _Known(101),
    "Caltech256": _Known(257),
    "SUN397": _Known(397),
    "Places365": _Known(365, parts=("train-standard", "", "val")),
    "ImageNet": _Known(1000, parts=("train", "", "val")),
    "Imagenette": _Known(10, parts=("train", "", "val")),
    "Omniglot": _Known(0, (105, 105), 1, natural=False),
    "INaturalist": _Known(0),
    "ImageFolder": _Known(0),
    "FakeData": _Known(0),
}
_OTHER_TASKS = {
    "Segmentation": "segmentation",
    "Cityscapes": "segmentation",
    "SBDataset": "segmentation",
    "Detection": "detection",
    "WIDERFace": "detection",
    "Kitti": "detection",
    "Captions": "captions",
    "Flickr": "captions",
    "SBU": "captions",
    "Stereo": "stereo",
    "Flow": "flow",
    "Sintel": "flow",
    "Flying": "flow",
    "HD1K": "flow",
    "Kinetics": "video",
    "HMDB51": "video",
    "UCF101": "video",
}
_SUPPLIED = ("transform", "target_transform", "transforms", "loader", "is_valid_file")
_ABSTRACT = ("VisionDataset", "DatasetFolder", "LSUNClass")


def survey(cards: CardFile) -> None:
    """torchvision's datasets."""
    for name in datasets.__all__:
        class_ = getattr(datasets, name)
        if not inspect.isclass(class_) or not issubclass(class_, datasets.VisionDataset) or name in _ABSTRACT:
            continue
        signature = signatures.read(class_)
        for parameter in signature.parameters:
            if parameter["name"] == "download":
                parameter["default"] = True  # what is not there is fetched, as with Leaven's own cards
        facts = _facts(name, signature.names())
        chosen_by_part = {key for arguments in facts.get("split_arguments", {}).values() for key in arguments}
        cards.add(
            f"torchvision.{name}",
            f"torchvision.datasets.{name}",
            signature.without({*_SUPPLIED, *chosen_by_part}),
            spellings=spellings(name, "data"),
            summary=first_sentence(class_.__doc__),
            facts=facts,
        )


def _facts(name: str, parameters: set[str]) -> dict[str, Any]:
    known = _KNOWN.get(name)
    if known is None:
        return {"task": next((task for part, task in _OTHER_TASKS.items() if part in name), "other")}
    facts: dict[str, Any] = {"task": "image-classification", "channels": known.channels, "natural": known.natural}
    if known.classes:
        facts["classes"] = known.classes
    if name == "EMNIST":
        facts["classes_by_split"] = {split: len(names) for split, names in datasets.EMNIST.classes_split_dict.items()}
    if known.size:
        facts["size"] = list(known.size)
    if parts := _parts(known, parameters):
        facts["splits"] = list(parts)
        facts["split_arguments"] = parts
    facts["download"] = "download" in parameters
    return facts


def _parts(known: _Known, parameters: set[str]) -> dict[str, dict[str, Any]]:
    """The official parts, each with the arguments that give it."""
    if "train" in parameters:
        return {"train": {"train": True}, "test": {"train": False}}
    if known.parts and "split" in parameters:
        return {part: {"split": value} for part, value in zip(_ALL, known.parts, strict=True) if value}
    return {}
