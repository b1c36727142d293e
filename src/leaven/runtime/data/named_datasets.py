"""Datasets that are known by name, from a copy on disk in the layout of their own archives.

What a copy looks like is decided in `sources/`. Where files are missing, torchvision downloads those it offers and
compares their hashes; nothing else is taken from the network.
"""

import sys

from leaven.runtime.data.datasets import Dataset, Place, opened, place
from leaven.runtime.data.torch_datasets import made_by
from leaven.runtime.downloads import rank_zero_first
from leaven.sources.image_arrays import Cifar10, Cifar100, FashionMnist, Mnist
from leaven.sources.imagenet import ImageNet, StanfordDogs
from leaven.sources.oxford_pets import OxfordPets
from leaven.terminal import status_line
from leaven.terminal.visible import visible


def mnist(root: Place, *, download: bool = True) -> Dataset:
    """MNIST: the idx files of 70,000 handwritten digits, packed or not."""
    return _named(Mnist(*place(root), download=download), "MNIST", "11 MB")


def fashion_mnist(root: Place, *, download: bool = True) -> Dataset:
    """Fashion-MNIST: the idx files of 70,000 images of clothes, packed or not."""
    return _named(FashionMnist(*place(root), download=download), "FashionMNIST", "30 MB")


def cifar10(root: Place, *, download: bool = True) -> Dataset:
    """CIFAR-10: its binary version, or the arrays in its Python version."""
    return _named(Cifar10(*place(root), download=download), "CIFAR10", "170 MB")


def cifar100(root: Place, *, download: bool = True) -> Dataset:
    """CIFAR-100 with its 100 fine classes: its binary version, or the arrays in its Python version."""
    return _named(Cifar100(*place(root), download=download), "CIFAR100", "169 MB")


def oxford_pets(root: Place, *, masks: str | None = None, download: bool = False) -> Dataset:
    """The Oxford-IIIT pets: photographs of 37 breeds of cats and dogs; or with `masks="trimaps"`, their outlines."""
    return _named(OxfordPets(*place(root), masks=masks, download=download), "OxfordIIITPet", "800 MB")


def imagenet(root: Place) -> Dataset:
    """ImageNet in torchvision's layout or Kaggle's, or any of its classes in folders."""
    return opened(ImageNet(*place(root)))


def stanford_dogs(root: Place) -> Dataset:
    """The Stanford dogs: photographs of 120 breeds."""
    return opened(StanfordDogs(*place(root)))


def _named(source: Mnist | Cifar10 | OxfordPets, name: str, size: str) -> Dataset:
    with rank_zero_first():
        if source.download and not source.is_there():
            from torchvision import datasets  # takes a while to load

            path = str(source.path)
            print(f"{visible(path)} does not have {name}: it is downloaded, about {size}", file=sys.stderr)
            with status_line.doing(""):  # torchvision shows the progress itself
                made_by(getattr(datasets, name), {"root": path, "download": True})
    return opened(source)
