"""Datasets that are known by name, from a copy on disk."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import loadmat
from timm.data.imagenet_info import ImageNetInfo
from torchvision import datasets

from leaven.formats.image_arrays import (
    CIFAR10,
    CIFAR100,
    IDX_FILES,
    Arrays,
    Batches,
    batch_files,
    batch_names,
    idx_files,
    read_batches,
    read_idx,
)
from leaven.formats.image_folder import image_files, sub_folders
from leaven.plain.failures import Failure
from leaven.plain.samples import ImageFiles, Samples, image_folder, predefined_in, samples_of_files


class Pixels:
    """Images that are stored as one array."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> Image.Image:
        return Image.fromarray(self.pixels[index])


def samples_of_arrays(splits: Mapping[str, Arrays], classes: tuple[str, ...]) -> Samples:
    """Images and labels as arrays, split after split."""
    pixels = np.concatenate([each.pixels for each in splits.values()])
    labels = np.concatenate([each.labels for each in splits.values()]).tolist()
    predefined = predefined_in({split: each.labels for split, each in splits.items()})
    return Samples(classes, Pixels(pixels), labels, predefined=predefined)


def mnist(root: str, *, download: bool = True) -> Samples:
    """The idx files of MNIST, packed or not."""
    return samples_of_idx(root, datasets.MNIST, tuple(map(str, range(10))), download)


def fashion_mnist(root: str, *, download: bool = True) -> Samples:
    """The idx files of Fashion-MNIST, packed or not."""
    return samples_of_idx(root, datasets.FashionMNIST, tuple(datasets.FashionMNIST.classes), download)


def samples_of_idx(root: str, made: type[datasets.MNIST], classes: tuple[str, ...], download: bool) -> Samples:
    """The images and labels of idx files."""
    if download and idx_files(Path(root), made.__name__)[1]:
        made(root, download=True)
    files, missing = idx_files(Path(root), made.__name__)
    if missing:
        raise Failure(f"{root} has no {', '.join(missing)}")
    return samples_of_arrays({split: read_idx(files, split) for split in IDX_FILES}, classes)


def cifar10(root: str, *, download: bool = True) -> Samples:
    """The batches of CIFAR-10: the binary version, or Python's."""
    return samples_of_batches(root, datasets.CIFAR10, CIFAR10, download)


def cifar100(root: str, *, download: bool = True) -> Samples:
    """The files of CIFAR-100: the binary version, or Python's."""
    return samples_of_batches(root, datasets.CIFAR100, CIFAR100, download)


def samples_of_batches(root: str, made: type[datasets.CIFAR10], batches: Batches, download: bool) -> Samples:
    """The images and labels of all batches."""
    if download and not batch_files(Path(root), batches):
        made(root, download=True)
    files = batch_files(Path(root), batches)
    if not files:
        raise Failure(f"{root} has no {' or '.join(batches.folders)}")
    splits = {split: read_batches(there, batches) for split, there in files.items()}
    count = max(int(each.labels.max()) for each in splits.values()) + 1
    return samples_of_arrays(splits, batch_names(files["train"][0], batches) or tuple(map(str, range(count))))


def imagenet(root: str) -> Samples:
    """ImageNet in folders that are named by the wnid of their class, optionally inside `train/` and `val/`."""
    if (Path(root) / "ILSVRC").is_dir():
        raise Failure(f"{root} has the layout of Kaggle", "the normal program can read it")
    read, words = image_folder(root), ImageNetInfo("imagenet-1k")
    names = (words.label_name_to_description(one) if re.fullmatch(r"n\d{8}", one) else one for one in read.classes)
    return replace(read, classes=tuple(names))


def stanford_dogs(root: str) -> Samples:
    """The Stanford dogs: `Images/n02085620-Chihuahua`, with the official split in `train_list.mat`."""
    inside = [place for name in ("Images", "images/Images", "images", "") if (place := Path(root) / name).is_dir()]
    folder = next((place for place in inside if sum("-" in name for name in sub_folders(place)) > 1), None)
    if folder is None:
        raise Failure(f"{root} has no folders of breeds, such as n02085620-Chihuahua", "unpack images.tar into it")
    folders = [name for name in sub_folders(folder) if re.fullmatch(r"n\d{8}-.+", name)]
    lists = [place for place in (Path(root), Path(root) / "lists") if (place / "train_list.mat").is_file()]
    splits = {"": [(file, name) for name in folders for file in sorted(image_files(folder / name))]}
    if lists:
        read = {split: loadmat(lists[0] / f"{split}_list.mat", squeeze_me=True) for split in ("train", "test")}
        files = {split: [str(one) for one in each["file_list"].reshape(-1)] for split, each in read.items()}
        splits = {split: [(str(folder / f), f.partition("/")[0]) for f in each] for split, each in files.items()}
    found = samples_of_files(splits, folders)
    return replace(found, classes=tuple(name[10:].replace("_", " ") for name in folders))


def oxford_pets(root: str, *, download: bool = False) -> Samples:
    """The Oxford-IIIT pets, with their official split."""
    if download and not (Path(root) / "images").is_dir():
        datasets.OxfordIIITPet(root, download=True)
    folder = next(
        (place for name in ("oxford-iiit-pet", "") if (place := Path(root) / name / "annotations").is_dir()), None
    )
    if folder is None:
        raise Failure(f"{root} has no images and annotations")
    lists = {"train": "trainval.txt", "test": "test.txt"}
    pets = {split: [line.split()[:2] for line in (folder / name).open()] for split, name in lists.items()}
    every = [(image, int(breed)) for split in pets.values() for image, breed in split]
    names = {breed: " ".join(word.capitalize() for word in image.split("_")[:-1]) for image, breed in every}
    images = ImageFiles([str(folder.parent / "images" / f"{image}.jpg") for image, _ in every])
    return Samples(
        tuple(names[at] for at in sorted(names)), images, [at - 1 for _, at in every], predefined=predefined_in(pets)
    )
