"""Datasets whose samples are loaded one at a time, by index: folders, tables, scikit-learn's digits.

What counts as an image or a class in a folder is decided in `formats`, for the checker too; datasets that come as
Python objects are in `torch_datasets.py`. The split is decided in `splits.py`, order and transforms in `batches.py`.
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from leaven.cache.file_hashes import hashes_in
from leaven.files.regular import open_regular
from leaven.formats.finding import BadSource
from leaven.formats.tables import PLAIN, Layout
from leaven.formats.target import Target, TargetReader, Value
from leaven.formats.texts import Text, parts_of, text_fault
from leaven.runtime.data.images import open_image
from leaven.runtime.failures import BadFile, Caution, Failure
from leaven.sources.folder import Folder
from leaven.sources.source import Source
from leaven.sources.table import Table
from leaven.sources.text_folder import TextFolder
from leaven.tasks.classification.target import Classes, Label
from leaven.terminal import status_line

LABEL = Label()
Place = str | os.PathLike[str]


@dataclass(frozen=True)
class Dataset:
    """All samples of a dataset. `predefined` holds the splits that it comes with, as indices.

    Where `values` is None, only loading a sample tells its value: `load` then returns the pair of image and value.
    A dataset can be pickled, for worker processes. `digests` identifies samples by their content; None where it is not
    known that loading a sample gives the same image each time.
    """

    target: Target
    values: Sequence[Value] | None
    size: int
    load: Callable[[int], Any]
    name: Callable[[int], str]
    predefined: Mapping[str, Sequence[int]] = field(default_factory=dict)
    in_memory: bool = False
    digests: Callable[[np.ndarray], Sequence[bytes]] | None = None

    def __len__(self) -> int:
        return self.size


# -- digits


@status_line.doing("reading the data…")
def digits() -> Dataset:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    from sklearn.datasets import load_digits  # takes a second, and few programs need it

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = [int(label) for label in bunch.target]
    classes = Classes(tuple(str(name) for name in bunch.target_names))
    opener, names = Pixels(pixels), [f"digit {index}" for index in range(len(labels))]
    name, digests = names.__getitem__, opener.digests
    return Dataset(classes, labels, len(labels), opener, name, in_memory=True, digests=digests)


@dataclass(frozen=True)
class Pixels:
    """Opens images that are stored as one array."""

    pixels: np.ndarray

    def __call__(self, index: int) -> Image.Image:
        return Image.fromarray(self.pixels[index])

    def digests(self, indices: np.ndarray) -> list[bytes]:
        return [content_digest(self.pixels[index].tobytes()) for index in indices.tolist()]


def content_digest(content: bytes) -> bytes:
    """A hash of the content of a file or of an image."""
    return blake2b(content, digest_size=16).digest()


@dataclass(frozen=True)
class ImageFiles:
    """Opens image files by their index in a list; `contents` has those that are inside of a table."""

    files: Sequence[str]
    mode: str = "RGB"
    contents: Sequence[bytes | None] | None = None
    at_least: int = 0  # pixels that each edge of an image needs; 0 where it needs all that it has
    columns: tuple[str, ...] = ()  # of the table that names them
    layout: Layout = PLAIN  # of that table
    ending: str = ""  # that it leaves out
    start: str = field(default_factory=os.getcwd)  # of relative paths; user code may change the working directory

    def __call__(self, index: int) -> Image.Image:
        content, name = self.contents[index] if self.contents is not None else None, self.files[index]
        source = self._place(index) if content is None else BytesIO(content)
        return open_image(source, self.mode, name, self.at_least)

    def _place(self, index: int) -> str:
        return os.path.join(self.start, self.files[index])

    @property
    def decoding(self) -> str:
        """How a file becomes an image."""
        return f"upright, {self.mode}{f', at least {self.at_least}' * bool(self.at_least)}"

    def digests(self, indices: np.ndarray) -> list[bytes]:
        """The digests of the files' bytes."""
        chosen = indices.tolist()
        files = [index for index in chosen if self.contents is None or self.contents[index] is None]
        known = dict(zip(files, file_digests([self._place(index) for index in files]), strict=True))
        within = self.contents or ()
        return [known[index] if index in known else content_digest(within[index] or b"") for index in chosen]


def file_digests(files: Sequence[str]) -> list[bytes]:
    """The hashes of files; those of unchanged ones are remembered."""
    if not files:
        return []
    ends = [os.path.abspath(file) for file in (min(files), max(files))]
    folder = os.path.commonpath(ends) if ends[0] != ends[1] else os.path.dirname(ends[0])
    table = hashes_in(Path(folder))
    found = table.of(files)
    table.save()
    return found


# -- images on disk


def image_folder(path: Place, *, target: TargetReader | None = None) -> Dataset:
    """The images of a folder with one sub-folder per class, optionally inside `train/`, `val/` and `test/`.

    With `target`, the images are listed with their labels in a table in the folder, `metadata.csv`.
    """
    return opened(Folder(*place(path), target))


def table(
    path: Place,
    *,
    image: str | None = None,
    text: str | Sequence[str] | None = None,
    target: TargetReader = LABEL,
    root: Place | None = None,
    ending: str = "",
    separator: str | None = None,
    header: bool | Literal["auto"] = "auto",
    columns: Sequence[str] | None = None,
    quote: str | None = '"',
    encoding: str = "utf-8",
    on_bad_file: Literal["stop", "skip"] = "stop",
) -> Dataset:
    """The images or texts that a table lists, one per row; a folder may hold one table per split: `train.csv`,
    `val.csv`. Two columns of texts are read as pairs. Rows without a label may be skipped.

    `header` says whether the first line names the columns; by default it does, unless `columns` names them. With
    `quote=None`, quotes are part of the text.
    """
    start = Path(root) if root is not None else None
    layout = Layout(separator, header, tuple(columns or ()), quote, encoding)
    return opened(Table(*place(path), target, image, text, start, ending, layout, on_bad_file=on_bad_file))


def text_folder(path: Place, *, classes: Sequence[str] | None = None) -> Dataset:
    """The texts of a folder with one sub-folder of files per class, optionally inside `train/`, `val/` and `test/`.

    Without `classes`, every sub-folder is one.
    """
    return opened(TextFolder(*place(path), classes=classes))


def place(path: Place) -> tuple[Path, str]:
    """Where a source is, and how it is shown."""
    return Path(path), Path(path).as_posix()


@status_line.doing("reading the data…")
def opened(source: Source) -> Dataset:
    """The samples of a source; a failure where they can't be read."""
    try:
        samples = source.open()
    except BadSource as bad:
        raise Failure("\n".join((bad.finding.fact, *bad.finding.notes)), bad.finding.help) from None
    for finding in samples.findings:
        warnings.warn(finding.fact, Caution, stacklevel=3)
    columns, layout = (source.inputs.columns, source.layout) if isinstance(source, Table) else ((), PLAIN)
    ending = source.ending if isinstance(source, Table) else ""
    files, splits, in_memory = samples.files, samples.predefined, True
    opener: Texts | Pixels | ImageFiles
    if samples.texts is not None or isinstance(source, TextFolder):
        read = TextFiles(files) if samples.texts is None else samples.texts.__getitem__
        opener = Texts(read, files, columns, layout)
    elif samples.pixels is not None:
        opener = Pixels(samples.pixels)
    else:
        opener = ImageFiles(files, contents=samples.images, columns=columns, layout=layout, ending=ending)
        in_memory = False
    name, digests = files.__getitem__, opener.digests
    return Dataset(samples.target, samples.values, len(files), opener, name, splits, in_memory, digests)


# -- texts


@dataclass(frozen=True)
class Texts:
    """Reads texts by their index; one that no model can use is a bad file. `places` are what failures call them."""

    read: Callable[[int], Text]
    places: Sequence[str]
    columns: tuple[str, ...] = ()  # of the table that they come from
    layout: Layout = PLAIN  # of that table

    def __call__(self, index: int) -> Text:
        text = self.read(index)
        if fault := text_fault(text):
            raise BadFile(self.places[index], f"it {fault.fact}")
        return text

    def digests(self, indices: np.ndarray) -> list[bytes]:
        return [
            content_digest("\0".join(parts_of(self.read(index))).encode(errors="replace")) for index in indices.tolist()
        ]


@dataclass(frozen=True)
class TextFiles:
    """Texts in files, one each."""

    files: Sequence[str]
    start: str = field(default_factory=os.getcwd)

    def __call__(self, index: int) -> Text:
        file = self.files[index]
        try:
            with open_regular(os.path.join(self.start, file)) as stream:
                return stream.read().decode("utf-8-sig", "surrogateescape")
        except OSError as problem:
            raise BadFile(file, problem.strerror or str(problem)) from None
