"""Samples with their targets: images from memory and from folders; and targets as the target of the task reads them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.datasets import load_digits

from leaven.formats.image_folder import PART_NAMES, image_files, sub_folders
from leaven.runtime.data.images import convert_image


@dataclass(frozen=True)
class Samples:
    """The samples of a dataset with their targets."""

    classes: tuple[str, ...]
    inputs: Any
    targets: Any
    predefined: Mapping[str, np.ndarray] = field(default_factory=dict)  # the splits that the data comes with

    def strata(self, indices: np.ndarray) -> np.ndarray:
        """A number for each sample: those with the same number are divided alike among the splits."""
        return np.zeros(len(indices)) if self.targets is None else np.asarray(self.targets)[indices]


def digits() -> Samples:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    found = load_digits()
    images = [Image.fromarray(image) for image in np.rint(found["images"] * (255 / 16)).astype(np.uint8)]
    return Samples(tuple(map(str, found["target_names"])), images, found["target"].tolist())


# -- files


class ImageFiles:
    """Opens image files by their index in a list."""

    def __init__(self, files: Sequence[Any]) -> None:
        self.files = [os.path.abspath(file) if isinstance(file, str) else file for file in files]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Image.Image:
        with Image.open(self.files[index]) as opened:
            return convert_image(ImageOps.exif_transpose(opened), "RGB")


def samples_of_files(splits: Mapping[str, Sequence[tuple[str, str]]], classes: Sequence[str]) -> Samples:
    """Files with the names of their classes, split after split; a split without a name is the whole."""
    pairs = [pair for split in splits.values() for pair in split]
    labels = [classes.index(name) for _, name in pairs]
    return Samples(tuple(classes), ImageFiles([file for file, _ in pairs]), labels, predefined=predefined_in(splits))


def predefined_in(splits: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The indices of each split, where they come one after the other."""
    ends = np.cumsum([0, *map(len, splits.values())])
    return {name: np.arange(ends[at], ends[at + 1]) for at, name in enumerate(splits) if name}


def image_folder(path: str) -> Samples:
    """The images of a folder with one sub-folder per class, optionally inside `train/`, `val/` and `test/`."""
    folder, tops = Path(path), sub_folders(Path(path))
    known = {top: part for part, names in PART_NAMES.items() for top in tops if top.lower() in names}
    # a `train` of images beside a `bus` is a class
    parts = {part: folder / top for top, part in known.items() if len(known) == len(tops) or sub_folders(folder / top)}
    parts = {part: parts[part] for part in PART_NAMES if part in parts} if "train" in parts else {"": folder}
    splits = {
        part: [(file, name) for name in sub_folders(there) for file in sorted(image_files(there / name))]
        for part, there in parts.items()
    }
    classes = sorted({name for _, name in next(iter(splits.values()))})
    return samples_of_files({part: pairs for part, pairs in splits.items() if pairs}, classes)


# -- numbers, or several labels


@dataclass(frozen=True)
class TargetSamples(Samples):
    """Samples with targets that are not the index of a class."""

    target: Any = None  # what they mean

    def strata(self, indices: np.ndarray) -> np.ndarray:
        """A number for each sample: those with the same number are divided alike among the splits."""
        return np.asarray(self.target.strata([self.targets[index] for index in indices.tolist()]))


def read_targets(splits: Mapping[str, Sequence[tuple[Any, Any]]], reader: Any, inputs: Any) -> Samples:
    """Samples with the targets that a model learns to predict, split after split."""
    pairs = [pair for split in splits.values() for pair in split]
    target, values = reader.read([label for _, label in pairs])
    every = inputs([one for one, _ in pairs])
    return TargetSamples(target.names, every, values, predefined=predefined_in(splits), target=target)


def fitted(samples: Any, split: Mapping[str, np.ndarray]) -> Any:
    """Samples with targets as a model is trained on them: numbers are standardised by those of the training split."""
    target, values = samples.target.fitted(samples.targets, split["train"].tolist())
    return replace(samples, target=target, targets=torch.tensor(values))
