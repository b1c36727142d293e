"""torchvision's datasets; `torchvision_data.toml` says what their classes don't."""

import inspect
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchvision import datasets

from leaven.catalog.tables import by_name
from leaven.catalog.traits import DataTraits, as_tuples
from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_KNOWN: dict[str, dict[str, Any]] = as_tuples(_TABLES["classification"])
_OTHER_TASKS = by_name(_TABLES["other_tasks"], "torchvision_data.toml: [other_tasks]")
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
    if name not in _KNOWN:
        return DataTraits(next((task for part, task in _OTHER_TASKS.items() if part in name), "other"))
    known = {"channels": 3, "is_safe_to_augment": True} | _KNOWN[name]
    splits = _splits(known.pop("splits", {}), parameters)
    on_disk = "leaven.sources.folder.TorchvisionFolder" if name == "ImageFolder" else ""
    return DataTraits(on_disk=on_disk, splits=tuple(splits), split_arguments=splits, **known)


def _splits(known: Mapping[str, str], parameters: set[str]) -> dict[str, dict[str, Any]]:
    """The official splits, each with the arguments that select it."""
    if "train" in parameters:
        return {"train": {"train": True}, "test": {"train": False}}
    return {split: {"split": value} for split, value in known.items()} if "split" in parameters else {}
