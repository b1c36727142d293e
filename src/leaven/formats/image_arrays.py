"""Datasets whose images are all in a few files: the idx files of MNIST, the batches of CIFAR.

Decides where a copy on disk has these files and how they are read; a look reads only their headers. Nothing in them is
run: the batches of CIFAR's Python version are pickles, which may name any function, so that only those of arrays are
read. A ValueError says what is wrong with a file.
"""

import gzip
import os
import pickle
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    import numpy as np

SIDE = 32  # pixels of an image of CIFAR
PIXELS = 3 * SIDE * SIDE
IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
IDX_HEADERS = {3: 2051, 1: 2049}  # the number that a file of unsigned bytes with so many dimensions begins with


class Batches(NamedTuple):
    """How a version of CIFAR is stored: the files of each split, the labels before the pixels, the names of classes."""

    folders: tuple[str, str]  # of the binary version, and of Python's
    binary: Mapping[str, tuple[str, ...]]
    pickled: Mapping[str, tuple[str, ...]]
    label: str  # the key of the labels in a pickle
    label_bytes: int  # in a record of the binary version; the last of them counts
    names: tuple[str, str, str]  # the file of the class names: of the binary version, of Python's, and the key in it


CIFAR10 = Batches(
    ("cifar-10-batches-bin", "cifar-10-batches-py"),
    {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)},
    {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    "labels",
    1,
    ("batches.meta.txt", "batches.meta", "label_names"),
)
CIFAR100 = Batches(
    ("cifar-100-binary", "cifar-100-python"),
    {"train": ("train.bin",), "test": ("test.bin",)},
    {"train": ("train",), "test": ("test",)},
    "fine_labels",
    2,
    ("fine_label_names.txt", "meta", "fine_label_names"),
)


class Arrays(NamedTuple):
    """The images and labels of a split, as arrays."""

    pixels: "np.ndarray"
    labels: "np.ndarray"


# -- idx


def idx_files(root: Path, folder: str) -> tuple[dict[str, Path], list[str]]:
    """The files by their published names, and the names of those that are missing where some are."""
    wanted = [name for names in IDX_FILES.values() for name in names]
    found: dict[str, Path] = {}
    for place in (root / folder / "raw", root / "raw", root / folder, root):  # as torchvision puts them, or as they are
        for name in wanted:
            spellings = (name, name.replace("-idx", ".idx"), f"{name}.gz", f"{name.replace('-idx', '.idx')}.gz")
            file = next((place / each for each in spellings if (place / each).is_file()), None)
            if file is not None:
                found.setdefault(name, file)
    return found, [name for name in wanted if name not in found]


def idx_shape(file: Path, dimensions: int) -> tuple[int, ...]:
    """How many images or labels a file has, and the size of an image."""
    with _unpacked(file) as content:
        return _idx_shape(content, dimensions)


def read_idx(files: Mapping[str, Path], split: str) -> Arrays:
    """The images and labels of a split."""
    import numpy as np

    images, labels = IDX_FILES[split]
    found = []
    for name, dimensions in ((images, 3), (labels, 1)):
        with _unpacked(files[name]) as content:
            shape = _idx_shape(content, dimensions)
            values = np.frombuffer(content.read(), dtype=np.uint8)
        if values.size != np.prod(shape):
            raise ValueError(f"{files[name].name} is truncated")
        found.append(values.reshape(shape))
    if len(found[0]) != len(found[1]):
        raise ValueError(f"{images} has {len(found[0]):,} images, but {labels} has {len(found[1]):,} labels")
    return Arrays(*found)


def _unpacked(file: Path) -> BinaryIO:
    return gzip.open(file) if file.suffix == ".gz" else file.open("rb")  # type: ignore[return-value]


def _idx_shape(content: BinaryIO, dimensions: int) -> tuple[int, ...]:
    what = "images" if dimensions == 3 else "labels"
    try:
        header = content.read(4 * (1 + dimensions))
        kind, *shape = struct.unpack(f">{1 + dimensions}I", header)
    except (EOFError, OSError, struct.error):
        raise ValueError(f"{os.path.basename(content.name)} can't be read") from None
    if kind != IDX_HEADERS[dimensions]:
        raise ValueError(f"{os.path.basename(content.name)} is not an idx file of {what}")
    return tuple(shape)


# -- CIFAR


def batch_files(root: Path, batches: Batches) -> dict[str, list[Path]]:
    """The files of each split, of the binary version where both are there; empty where one is missing."""
    for number, names in enumerate((batches.binary, batches.pickled)):
        for place in (root / batches.folders[number], root):
            found = {split: [place / name for name in files] for split, files in names.items()}
            if all(file.is_file() for files in found.values() for file in files):
                return found
    return {}


def batch_count(file: Path, batches: Batches) -> int | None:
    """How many images a file has; None where only reading it would tell."""
    size = os.path.getsize(file)
    if file.suffix == ".bin":
        return size // (batches.label_bytes + PIXELS)
    published = {30_000_000: 10_000, 150_000_000: 50_000}
    return next((count for bytes_, count in published.items() if bytes_ < size < bytes_ * 1.1), None)


def read_batches(files: Sequence[Path], batches: Batches) -> Arrays:
    """The images and labels of some files."""
    import numpy as np

    read = [_read_batch(file, batches) for file in files]
    pixels = np.concatenate([each.pixels for each in read]).reshape(-1, 3, SIDE, SIDE)
    return Arrays(pixels.transpose(0, 2, 3, 1), np.concatenate([each.labels for each in read]))


def _read_batch(file: Path, batches: Batches) -> Arrays:
    import numpy as np

    if file.suffix == ".bin":
        values = np.fromfile(file, dtype=np.uint8)
        length = batches.label_bytes + PIXELS
        if not values.size or values.size % length:
            raise ValueError(f"{file.name} is truncated: its size is not a multiple of {length:,} bytes")
        records = values.reshape(-1, length)
        return Arrays(records[:, batches.label_bytes :], records[:, batches.label_bytes - 1])
    read = read_pickle(file)
    pixels, labels = read.get("data"), read.get(batches.label)
    if not isinstance(pixels, np.ndarray) or pixels.shape[1:] != (PIXELS,) or not isinstance(labels, list):
        raise ValueError(f"{file.name} is not a batch of CIFAR")
    if len(pixels) != len(labels):
        raise ValueError(f"{file.name} has {len(pixels):,} images, but {len(labels):,} labels")
    return Arrays(pixels, np.asarray(labels))


def batch_names(file: Path, batches: Batches) -> tuple[str, ...]:
    """The names of the classes, which are in a file beside the batches; none where it is not there."""
    binary, pickled, key = batches.names
    with suppress(OSError):
        if file.suffix == ".bin":
            return tuple((file.parent / binary).read_text("utf-8").split())
        return tuple(map(str, read_pickle(file.parent / pickled).get(key, ())))
    return ()


class ArrayUnpickler(pickle.Unpickler):
    """Reads numbers, strings, lists and arrays, and calls nothing else."""

    CALLED = (("multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"))

    def find_class(self, module: str, name: str) -> Any:
        is_numpy = module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "_codecs")
        if not is_numpy or (module.rpartition(".")[2], name) not in self.CALLED:
            raise ValueError(f"it would call {module}.{name}")
        return getattr(import_module(module.replace("numpy.core", "numpy._core")), name)


def read_pickle(file: Path) -> dict[str, Any]:
    """A pickled mapping of numbers, strings and arrays; a ValueError where it is anything else."""
    with file.open("rb") as content:
        try:
            read = ArrayUnpickler(content, encoding="latin1").load()
        except Exception as problem:  # a damaged pickle makes Python raise nearly anything
            raise ValueError(f"{file.name} can't be read: {problem or type(problem).__name__}") from None
    if not isinstance(read, dict):
        raise ValueError(f"{file.name} is not a batch of CIFAR")
    return read
