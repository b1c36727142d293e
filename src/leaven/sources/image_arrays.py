"""MNIST and CIFAR: datasets whose images are all in a few files.

Where the files are and how they are read is decided in `formats/image_arrays.py`.
"""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

from leaven.formats import image_arrays as arrays
from leaven.formats.finding import About
from leaven.formats.image_folder import sub_folders
from leaven.sources.source import Samples, SourceFacts, predefined, returns_findings

_DAMAGED = (ValueError, OSError, EOFError, gzip.BadGzipFile, zlib.error)
_ROOT = About("root", "the files are read from this folder")


class _Place(NamedTuple):
    path: Path
    name: str
    download: bool = True


class Mnist(_Place):
    """The four idx files of MNIST, packed or not."""

    TITLE: ClassVar[str] = "MNIST"
    FOLDER: ClassVar[str] = "MNIST"
    NAMES: ClassVar[tuple[str, ...]] = tuple(map(str, range(10)))

    def is_there(self) -> bool:
        return not arrays.idx_files(self.path, self.FOLDER)[1]

    @returns_findings
    def look(self) -> SourceFacts | None:
        if self.download and not self.is_there():
            return None
        files = self._files()
        with _reading(self.name):
            counts = {split: arrays.idx_shape(files[images], 3)[0] for split, (images, _) in arrays.IDX_FILES.items()}
        return SourceFacts(self.NAMES, tuple(counts), counts=counts)

    def open(self) -> Samples:
        files = self._files()
        return _samples(lambda split: arrays.read_idx(files, split), self.NAMES, self.name)

    def _files(self) -> Mapping[str, Path]:
        files, missing = arrays.idx_files(self.path, self.FOLDER)
        if not missing:
            return files
        listed = ", ".join(f"`{name}`" for name in missing)
        fact = f"`{self.name}` has no {listed}" if files else f"{self.TITLE} is not in `{self.name}`"
        place = f"`{self.name}` or `{_below(self.name, self.FOLDER)}/raw`"
        help = f"put {listed}, packed (.gz) or not, into {place}; `download=true` downloads them"
        raise _ROOT.error("missing-file", fact, help)


class FashionMnist(Mnist):
    """Fashion-MNIST: the files of MNIST, with other images."""

    TITLE = "Fashion-MNIST"
    FOLDER = "FashionMNIST"
    NAMES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


class Cifar10(_Place):
    """The batches of CIFAR-10: the binary version, or Python's."""

    TITLE: ClassVar[str] = "CIFAR-10"
    BATCHES: ClassVar[arrays.Batches] = arrays.CIFAR10
    ARCHIVES: ClassVar[tuple[str, str]] = ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")

    def is_there(self) -> bool:
        return bool(arrays.batch_files(self.path, self.BATCHES))

    @returns_findings
    def look(self) -> SourceFacts | None:
        if self.download and not self.is_there():
            return None
        files = self._files()
        with _reading(self.name):
            names = arrays.batch_names(files["train"][0], self.BATCHES)
            counts = dict.fromkeys(files, 0)
            for split, file in ((split, file) for split, there in files.items() for file in there):
                known = arrays.batch_count(file, self.BATCHES)
                counts[split] += len(arrays.read_batches([file], self.BATCHES).labels) if known is None else known
        return SourceFacts(names, tuple(counts), counts=counts)

    def open(self) -> Samples:
        files = self._files()
        with _reading(self.name):
            names = arrays.batch_names(files["train"][0], self.BATCHES)
        return _samples(lambda split: arrays.read_batches(files[split], self.BATCHES), names, self.name)

    def _files(self) -> Mapping[str, Sequence[Path]]:
        if files := arrays.batch_files(self.path, self.BATCHES):
            return files
        fact = f"{self.TITLE} is not in `{self.name}`"
        folders = " or ".join(f"`{_below(self.name, folder)}`" for folder in self.BATCHES.folders)
        packed = next((name for name in self.ARCHIVES if (self.path / name).is_file()), None)
        help = f"put its files into {folders}; `download=true` downloads them"
        if packed is not None:
            help = f"unpack its archive: `tar xf {_below(self.name, packed)} -C {self.name}`"
        elif len(sub_folders(self.path)) > 1:
            help = f'for images in the folders of their classes, write `folder("{self.name}")`; otherwise {help}'
        raise _ROOT.error("missing-file", fact, help)


class Cifar100(Cifar10):
    """The files of CIFAR-100."""

    TITLE = "CIFAR-100"
    BATCHES = arrays.CIFAR100
    ARCHIVES = ("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz")


def _samples(read_split: Callable[[str], arrays.Arrays], names: tuple[str, ...], name: str) -> Samples:
    """All images in memory, one split after the other."""
    import numpy as np

    from leaven.tasks.classification.target import Classes  # a look does without

    with _reading(name):
        read = {split: read_split(split) for split in ("train", "test")}
        labels = np.concatenate([each.labels for each in read.values()])
        names = names or tuple(map(str, range(int(labels.max()) + 1)))
        if labels.max() >= len(names):
            raise ValueError(f"has the label {labels.max()}, but only {len(names)} classes")
    files = [f"image {number} of {split}" for split, each in read.items() for number in range(len(each.labels))]
    sizes = {split: len(each.labels) for split, each in read.items()}
    pixels = np.concatenate([each.pixels for each in read.values()])
    return Samples(Classes(names), labels.tolist(), files, predefined(sizes), pixels=pixels)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as problem:
        fact = f"`{name}` can't be read: {problem or type(problem).__name__}"
        raise _ROOT.error("wrong-format", fact, "copy or download the files again") from None


def _below(name: str, inside: str) -> str:
    return os.path.join("" if name == "." else name, inside).replace(os.sep, "/")
