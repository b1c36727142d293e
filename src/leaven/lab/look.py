"""The first batch of an epoch as a run trains on it, images or texts with labels, and the way of its first sample.

The data is that of the program. What techniques do to whole batches, such as mixup, comes later: `trace` shows it.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from leaven.formats.finite_json import as_json
from leaven.lab.tracing.contents import pixels
from leaven.lab.tracing.data_way import DataWay, Draw
from leaven.lab.tracing.opened import Opened, SplitName
from leaven.lab.tracing.shown import tiles_of, way_lines
from leaven.lab.tracing.warnings import DataWarning
from leaven.pictures.batch import Rows, Tile, rows_png
from leaven.runtime.data.batches import Data, IndexedSplit
from leaven.runtime.data.loading import one_thread, transforms_in
from leaven.runtime.failures import Caution, Failure
from leaven.runtime.seeding import generators_kept
from leaven.terminal.visible import visible

MOST = 32  # images of a batch
MOST_TEXTS = 16  # of a batch
WIDEST = 110  # letters of a line
EXAMINED = 8  # samples that warnings are about
EXAMINED_TEXTS = 500


@dataclass(frozen=True, eq=False)
class Shown:
    """A sample of a batch: its label or labels, and its pixels or the tokens of its text."""

    label: str
    pixels: np.ndarray | None = None
    text: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """The first batch of an epoch, of which some samples are shown, and the way of its first sample."""

    name: str
    split: SplitName
    epoch: int
    count: int  # of the samples in the batch
    about: str  # the batch in words
    first: Draw
    shown: tuple[Shown, ...]
    warnings: tuple[DataWarning, ...]
    is_text: bool = False

    @property
    def title(self) -> str:
        """`first batch: train, epoch 1, 32 of 64 images`."""
        return f"first batch: {self.split}{f', epoch {self.epoch}' if self.split == 'train' else ''}, {self.about}"

    @property
    def rows(self) -> list[Rows]:
        """The tiles of a picture."""
        batch = [Tile(one.pixels, one.label) for one in self.shown]
        return [Rows("a sample after each transform", tiles_of(self.first)), Rows(self.title, batch)]

    def picture(self) -> bytes | None:
        """A PNG file of the images with their labels; None for texts."""
        return None if self.is_text else rows_png(self.rows)

    @as_json
    def to_json(self) -> dict[str, Any]:
        samples = [{"label": one.label} | ({"text": one.text} if self.is_text else {}) for one in self.shown]
        return {
            **{"name": self.name, "split": self.split, "epoch": self.epoch, "count": self.count, "about": self.about},
            "first": self.first.to_json(),
            "samples": samples,
            "warnings": [one.to_json() for one in self.warnings],
        }

    def __str__(self) -> str:
        """For a terminal: of texts, the labels and tokens; of images, the way of the first one."""
        lines = [self.title, ""]
        if self.is_text:
            labels = [visible(one.label).replace("\n", ", ") for one in self.shown]
            width = max(map(len, labels), default=0)
            lines += [
                f"{label:<{width}}  {_shortened(visible(one.text))}"
                for label, one in zip(labels, self.shown, strict=True)
            ]
            lines += [f"… and {self.count - len(self.shown)} more"] if self.count > len(self.shown) else []
        else:
            lines += way_lines(self.first)
        lines += ["", *(f"warning: {visible(str(one))}" for one in self.warnings)] if self.warnings else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Look at {self.title}>"


def look(opened: Opened, split: SplitName = "train", epoch: int = 1) -> Look:
    """The first batch of an epoch, and the way of its first sample."""
    data = opened.data
    inputs, targets = _first_batch(data, split, epoch)
    with generators_kept(), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        way = DataWay(opened, split)
        first = way.draw(None, epoch - 1)
        warned = way.warnings(_examined(way, epoch - 1))
    is_text = isinstance(inputs, dict)
    shown, about = _texts(inputs, targets, data) if is_text else _images(inputs, targets, data, split)
    return Look(opened.name, split, epoch, len(targets), about, first, tuple(shown), warned, is_text)


def _first_batch(data: Data, split: SplitName, epoch: int) -> tuple[Any, Any]:
    part = getattr(data, split)
    batch: tuple[Any, Any] | None = next(iter(part.batches(epoch - 1)), None) if len(part) else None
    if batch is None:
        raise Failure(f"the data has no samples for {split}")
    return batch


def _examined(way: DataWay, epoch: int) -> list[Any]:
    """The ways of some samples of the first batch; of texts, which are quick, those of many."""
    split = getattr(way.data, way.wanted)
    if not isinstance(split, IndexedSplit):
        return [way.looked_at(None, epoch)]
    most = EXAMINED_TEXTS if split.has_lengths else EXAMINED
    return [way.looked_at(where, epoch) for where in way.first_of(epoch, most)]


def _images(images: Any, targets: Any, data: Data, split: SplitName) -> tuple[list[Shown], str]:
    transforms = transforms_in(data.train_transform if split == "train" else data.eval_transform)
    shown = []
    for image, one in zip(images[:MOST], targets[:MOST], strict=True):
        marked = pixels(image, transforms)
        marked = None if marked is None else data.samples.shown(marked, one, data.target)
        shown.append(Shown(data.samples.caption(one, data.target), marked))
    return shown, f"{len(shown)} of {len(images)} images" if len(images) > len(shown) else f"{len(images)} images"


def _texts(inputs: Any, targets: Any, data: Data) -> tuple[list[Shown], str]:
    counted = inputs["attention_mask"].bool()
    padding = 100 * (1 - float(counted.float().mean()))
    tokenizer: Any = data.eval_transform
    shown = [
        Shown(data.samples.caption(one, data.target), text=" ".join(tokenizer.tokens({"input_ids": ids[kept]})))
        for one, ids, kept in zip(targets[:MOST_TEXTS], inputs["input_ids"], counted, strict=False)
    ]
    return shown, f"{len(targets)} texts of up to {counted.shape[1]} tokens, {padding:.0f} % padding"


def _shortened(tokens: str) -> str:
    return tokens if len(tokens) <= WIDEST else f"{tokens[: WIDEST - 1]}…"
