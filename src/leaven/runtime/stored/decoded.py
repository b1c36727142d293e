"""Decoded images: each is decoded once, with its first transforms if they are not random, and then read from the store.

An entry has some images one after the other, after a table of their shapes. What is read is what was decoded, pixel by
pixel: nothing is lost in between. With `exact=false`, JPEG files that are resized to at most half of their size are
decoded at a smaller size, which is faster. An image that could not be decoded is not in the store; whoever asks for it
loads it from its file, and finds out why.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
from PIL import Image
from torchvision.transforms import v2

from leaven.cache.entry_file import Entry
from leaven.cache.store import default_store, key_of
from leaven.formats.machine import cores, memory
from leaven.runtime.data.batches import MOST_WORKERS, IndexedSplit
from leaven.runtime.data.datasets import ImageFiles
from leaven.runtime.data.loading import Transform, transforms_in
from leaven.runtime.run.progress import Bar
from leaven.runtime.stored import identity
from leaven.runtime.stored.arrays import ENTRY_BYTES, RESIDENT
from leaven.runtime.stored.identity import NotStored
from leaven.terminal.byte_sizes import show_bytes

FORMAT = 1
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # by the number of channels
_MOST_ROWS = 2**16  # of an entry
_TRIED = 8  # images, to measure what is gained
_LEAST_GAIN = 2  # times faster than decoding
_SHARE_OF_MEMORY = 4  # a quarter: what is larger would be read from disk in every epoch


# of the transforms that are not random, those that give an image again, as in `plan/passes/decoded_images.py`
_LEAVE_AN_IMAGE = (v2.RGB, v2.Grayscale, v2.Resize, v2.CenterCrop, v2.Pad)


def image_transforms(split: IndexedSplit) -> int:
    """How many transforms of a split can be applied before its images are stored."""
    return len(list(takewhile(lambda each: isinstance(each, _LEAVE_AN_IMAGE), transforms_in(split.reader.transform))))


@dataclass(eq=False, repr=False)
class DecodedImages:
    """Loads images of a split from the store. Pickled, for worker processes, it opens the entries anew."""

    _decode: Callable[[int], Any]
    rest: Transform  # those that are left to do
    _keys: "Keys"
    _row_of: np.ndarray  # by the index of a sample in its dataset
    approximation: str = ""  # how images were decoded that differ slightly

    def __post_init__(self) -> None:
        self._opened: dict[int, _Packed | None] = {}
        self._touched = 0

    def load(self, index: int) -> Any:
        """An image after its first transforms."""
        number, row = divmod(int(self._row_of[index]), self._keys.rows)
        if number not in self._opened:
            entry = default_store().open(self._keys.names[number])
            self._opened[number] = None if entry is None else _Packed(entry, self._keys.count(number))
        packed = self._opened[number]
        image = packed.image(row) if packed is not None else None
        if image is None:
            return self._decode(index)
        self._touched += image.width * image.height * len(image.getbands())
        if self._touched > RESIDENT:
            self._touched = 0
            for each in filter(None, self._opened.values()):
                each.entry.forget_pages()
        return image

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": {}}


@dataclass(frozen=True)
class Keys:
    """The keys of the entries that have the images of a split, so many `rows` each, `total` in all."""

    names: Sequence[str]
    rows: int
    total: int

    def count(self, number: int) -> int:
        """How many images an entry has."""
        return min(self.rows, self.total - number * self.rows)


class _Packed:
    """The images of an entry."""

    def __init__(self, entry: Entry, count: int) -> None:
        self.entry = entry
        self._shapes = np.frombuffer(entry.data, dtype="<i4", count=3 * count).reshape(count, 3)
        self._starts = self._shapes.nbytes + np.cumsum([0, *self._shapes.prod(axis=1, dtype=np.int64)])

    def image(self, row: int) -> Image.Image | None:
        height, width, channels = self._shapes[row].tolist()
        if not channels:
            return None
        pixels = self.entry.data[self._starts[row] : self._starts[row + 1]]
        return Image.frombytes(_MODES[channels], (width, height), pixels)


def _packed(images: Iterable[Image.Image | None]) -> list[bytes]:
    """The data of an entry with these images."""
    shapes, parts = [], []
    for image in images:
        shapes.append((0, 0, 0) if image is None else (image.height, image.width, len(image.getbands())))
        parts.append(b"" if image is None else image.tobytes())
    return [np.array(shapes, dtype="<i4").tobytes(), *parts]


class Decoding:
    """Decodes the images of a split that are not in the store; `NotStored` where that would not be faster."""

    def __init__(self, split: IndexedSplit, transforms: int, *, exact: bool = True) -> None:
        self._split = split
        self._store = default_store()
        dataset = split.reader.dataset
        if not isinstance(dataset.load, ImageFiles):
            raise NotStored("they are not read from files")
        samples = self._samples = identity.of_samples(split.reader)
        every = transforms_in(split.reader.transform)
        self._first, self._rest = every[:transforms], every[transforms:]
        load = dataset.load if exact else replace(dataset.load, at_least=edge_after(self._first))
        self._approximation = load.decoding if load.at_least else ""
        self._decode = partial(_decoded, load, self._first)
        self._mean = self._probe()  # bytes
        rows = min(_MOST_ROWS, 2 ** int(np.log2(max(1, ENTRY_BYTES // self._mean))))
        facts = {
            "what": "decoded images",
            "format": FORMAT,
            "decoding": load.decoding,
            "transforms": identity.of_transform(self._first),
            "libraries": identity.decoders(),
        }
        starts = range(0, len(samples), rows)
        self._keys = Keys([key_of(**facts, samples=samples[at : at + rows]) for at in starts], rows, len(samples))

    def missing(self) -> list[int]:
        """The numbers of the entries that are not in the store."""
        return [number for number, name in enumerate(self._keys.names) if self._store.open(name) is None]

    def require_room(self, missing: Sequence[int]) -> None:
        """A `StoreError` if there is no room for these entries."""
        self._store.require_room(self._mean * sum(map(self._keys.count, missing)))

    def decode(self, mine: Sequence[int], world: int, stop_if_asked: Callable[[], None]) -> int:
        """Decode the images of some entries, which are this process's share; returns how many images it was."""
        keys, reader = self._keys, self._split.reader
        group = f"decoded images, of {len(reader.dataset):,} with {reader.dataset.target.brief}"
        threads = max(1, min(MOST_WORKERS, cores() // world))  # Pillow leaves Python's lock while it decodes
        title = f"decoding each image of {self._split.name} once"
        with ThreadPoolExecutor(threads) as pool, Bar(title, sum(map(keys.count, mine))) as bar:
            for number in mine:
                stop_if_asked()
                rows = slice(number * keys.rows, (number + 1) * keys.rows)
                chunk = reader.indices[rows]
                images = _packed(pool.map(partial(_plain_image, self._decode), chunk))
                if identity.of_samples(reader, rows) != self._samples[rows]:
                    raise NotStored("files are being changed")
                about = {"group": group, "split": self._split.name, "rows": len(chunk)}
                self._store.write(keys.names[number], about, images)
                bar.advance(len(chunk))
            return bar.done

    def images(self) -> DecodedImages:
        """The decoded images of the whole split."""
        if any(self._store.open(name) is None for name in self._keys.names):
            raise NotStored("the store does not keep what is written to it")
        rest = v2.Compose(list(self._rest)) if self._rest else None
        return DecodedImages(self._decode, rest, self._keys, self._split.reader.rows(), self._approximation)

    def _probe(self) -> int:
        """The mean size of a decoded image, found by trying some; `NotStored` where it would not pay to store them."""
        indices = self._split.reader.indices
        tried = np.unique(np.linspace(0, len(indices) - 1, _TRIED).astype(np.int64))
        began = time.perf_counter()
        images = [image for index in indices[tried] if (image := _plain_image(self._decode, index)) is not None]
        decoding = time.perf_counter() - began
        if not images:
            raise NotStored("some files can't be read")
        pixels = [image.tobytes() for image in images]
        began = time.perf_counter()
        for image, each in zip(images, pixels, strict=True):
            Image.frombytes(image.mode, image.size, each)
        if decoding < _LEAST_GAIN * (time.perf_counter() - began):
            raise NotStored("reading them from the store would hardly be faster")
        mean = max(1, sum(map(len, pixels)) // len(pixels))
        needed, share = mean * len(indices), memory() // _SHARE_OF_MEMORY
        if needed > share:
            most = show_bytes(share)
            raise NotStored(f"they would take {show_bytes(needed)}, more than a quarter of the memory ({most})")
        return mean


def edge_after(transforms: Sequence[Any]) -> int:
    """How long an edge of an image has to be for the first of some transforms, if that makes images smaller; else 0."""
    first = next((each for each in transforms if not isinstance(each, v2.RGB | v2.Grayscale)), None)
    size = first.size if isinstance(first, v2.Resize) else None
    return max(size) if isinstance(size, Sequence) else size or 0


def _decoded(load: Callable[[int], Any], transforms: Sequence[Any], index: int) -> Any:
    image = load(index)
    for transform in transforms:
        image = transform(image)
    return image


def _plain_image(decode: Callable[[int], Any], index: int) -> Image.Image | None:
    """An image of 8 bits per channel; None where it is something else, or can't be decoded."""
    try:
        image = decode(int(index))
    except Exception:  # it is reported when the image is used
        return None
    is_plain = isinstance(image, Image.Image) and image.mode in _MODES.values()
    return image if is_plain else None
