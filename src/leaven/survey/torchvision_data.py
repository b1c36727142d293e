"""torchvision's datasets.

A small table says what a dataset's class can't: the number of classes, the size of the images, the official splits, and
whether a flipped image keeps its label: a flipped cat is a cat, a flipped 2 is not a 2.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from torchvision import datasets

from leaven.catalog.habits import by_name
from leaven.catalog.traits import DataTraits
from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile


@dataclass(frozen=True)
class _Known:
    """Facts about a classification dataset; no classes where they depend on the arguments."""

    classes: int
    size: tuple[int, int] | None = None  # None where images differ in size
    channels: int = 3
    splits: tuple[str, ...] = ()  # the values of `split`: train, val (where there is one), test
    is_safe_to_augment: bool = True


_TRAIN_TEST = ("train", "", "test")
_ALL = ("train", "val", "test")
_KNOWN = {
    "CIFAR10": _Known(10, (32, 32)),
    "CIFAR100": _Known(100, (32, 32)),
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "QMNIST"), _Known(10, (28, 28), 1, is_safe_to_augment=False)),
    "EMNIST": _Known(0, (28, 28), 1, is_safe_to_augment=False),
    **dict.fromkeys(("USPS", "SEMEION"), _Known(10, (16, 16), 1, is_safe_to_augment=False)),
    "SVHN": _Known(10, (32, 32), splits=_TRAIN_TEST, is_safe_to_augment=False),
    "STL10": _Known(10, (96, 96), splits=_TRAIN_TEST),
    "Food101": _Known(101, splits=_TRAIN_TEST),
    "Flowers102": _Known(102, splits=_ALL),
    "StanfordCars": _Known(196, splits=_TRAIN_TEST),
    "FGVCAircraft": _Known(100, splits=_ALL),
    "OxfordIIITPet": _Known(37, splits=("trainval", "", "test")),
    "DTD": _Known(47, splits=_ALL),
    "GTSRB": _Known(43, splits=_TRAIN_TEST, is_safe_to_augment=False),
    "EuroSAT": _Known(10, (64, 64)),
    "PCAM": _Known(2, (96, 96), splits=_ALL),
    "Country211": _Known(211, splits=("train", "valid", "test")),
    "FER2013": _Known(7, (48, 48), 1, splits=_TRAIN_TEST),
    "RenderedSST2": _Known(2, (448, 448), splits=_ALL, is_safe_to_augment=False),
    "CLEVRClassification": _Known(8, (320, 480), splits=("train", "", "val")),
    "Caltech101": _Known(101),
    "Caltech256": _Known(257),
    "SUN397": _Known(397),
    "Places365": _Known(365, splits=("train-standard", "", "val")),
    "ImageNet": _Known(1000, splits=("train", "", "val")),
    "Imagenette": _Known(10, splits=("train", "", "val")),
    "Omniglot": _Known(0, (105, 105), 1, is_safe_to_augment=False),
    **dict.fromkeys(("INaturalist", "ImageFolder", "FakeData"), _Known(0)),
}
_OTHER_TASKS = by_name(
    {
        "segmentation": "Segmentation Cityscapes SBDataset",
        "detection": "Detection WIDERFace Kitti",
        "captions": "Captions Flickr SBU",
        "stereo": "Stereo",
        "flow": "Flow Sintel Flying HD1K",
        "video": "Kinetics HMDB51 UCF101",
    }
)
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
                parameter["default"] = True  # missing data is downloaded, as with Leaven's own cards
        traits = _traits(name, signature.names())
        chosen_by_split = {key for arguments in traits.split_arguments.values() for key in arguments}
        signature = signature.without({*_SUPPLIED, *chosen_by_split})
        cards.add_class(class_, f"torchvision.datasets.{name}", signature, traits)


def _traits(name: str, parameters: set[str]) -> DataTraits:
    known = _KNOWN.get(name)
    if known is None:
        return DataTraits(next((task for part, task in _OTHER_TASKS.items() if part in name), "other"))
    splits = _splits(known, parameters)
    return DataTraits(
        on_disk="leaven.sources.folder.TorchvisionFolder" if name == "ImageFolder" else "",
        classes=known.classes or None,
        channels=known.channels,
        size=known.size,
        splits=tuple(splits),
        split_arguments=splits,
        is_safe_to_augment=known.is_safe_to_augment,
    )


def _splits(known: _Known, parameters: set[str]) -> dict[str, dict[str, Any]]:
    """The official splits, each with the arguments that select it."""
    if "train" in parameters:
        return {"train": {"train": True}, "test": {"train": False}}
    if known.splits and "split" in parameters:
        return {split: {"split": value} for split, value in zip(_ALL, known.splits, strict=True) if value}
    return {}
