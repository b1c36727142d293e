"""How a batch is made of its items, in the training process or in a worker.

Decides what happens to each item, and what to a bad one. Which items make up a batch is decided in `batches.py`.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate, get_worker_info

from leaven.runtime.chance import sow
from leaven.runtime.failures import BadFile, Failure, unforeseen
from leaven.runtime.items import Items

Steps = Callable[[Any], Any] | None
Chance = Literal["torch", "everywhere"]


@dataclass(frozen=True, eq=False)
class BatchKey:
    """What a batch holds: the items at `indices`, each with its place in the order of the epoch."""

    epoch: int
    places: range
    indices: np.ndarray


@dataclass(frozen=True, eq=False)
class Reader(Dataset[Any]):
    """Makes whole batches from their keys, here or in a worker. A failure is handed over, not raised: told by the
    training process, it has no traceback of a worker's."""

    items: Items
    places: np.ndarray
    steps: Steps
    seed: int
    chance: Chance | None
    skips: bool
    refills: bool

    def __getitem__(self, key: BatchKey) -> tuple[Any, Tensor, tuple[str, ...]] | Failure:
        if get_worker_info() is not None:
            return self._batch(key)
        # As in a worker: with other numbers of threads, a mean over a picture's pixels has other last digits.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._batch(key)
        finally:
            torch.set_num_threads(threads)

    def _batch(self, key: BatchKey) -> tuple[Any, Tensor, tuple[str, ...]] | Failure:
        pairs: list[tuple[Any, int]] = []
        bad: list[str] = []
        try:
            for place, index in zip(key.places, key.indices.tolist(), strict=True):
                self._add(key.epoch, place, index, pairs, bad)
            if bad and self.refills:
                self._refill(key, pairs, bad)
            if not pairs:
                return None, torch.empty(0, dtype=torch.int64), tuple(bad)
            images, labels = zip(*pairs, strict=True)
            return collated(images), torch.tensor(labels), tuple(bad)
        except Failure as failure:
            return failure

    def _add(self, epoch: int, place: int, index: int, pairs: list[tuple[Any, int]], bad: list[str]) -> None:
        if self.chance is not None:
            sow(self.seed, epoch, place, everywhere=self.chance == "everywhere", devices=False)
        try:
            item = self.items.load(index)
        except BadFile as failure:
            if not self.skips:
                raise
            bad.append(failure.file)
            return
        image, label = item if self.items.labels is None else (item, self.items.labels[index])
        pairs.append((self._prepared(image), label))

    @property
    def _steps_in_program(self) -> str:
        """How a program calls the steps."""
        return "augment = |prepare = " if self.refills else "prepare = "

    def _prepared(self, image: Any) -> Any:
        if self.steps is None:
            return image
        try:
            prepared = self.steps(image)
        except Failure:
            raise
        except Exception as problem:
            if os.environ.get("LEAVEN_DEBUG"):
                raise
            raise unforeseen(problem, self._steps_in_program) from None
        if prepared is None:
            help = "a function of yours must return what it made"
            raise Failure("the steps end with nothing", help, self._steps_in_program)
        return prepared

    def _refill(self, key: BatchKey, pairs: list[tuple[Any, int]], bad: list[str]) -> None:
        """Let the next items in the list stand in where fewer than two are left: a step needs a batch to learn from."""
        enough = min(2, len(key.indices))
        start = int(np.searchsorted(self.places, key.indices[-1]))
        for offset in range(1, len(self.places)):
            if len(pairs) >= enough:
                return
            self._add(key.epoch, key.places[-1], int(self.places[(start + offset) % len(self.places)]), pairs, bad)
        if not pairs:
            raise Failure(f"none of the {len(self.places)} training items can be read; the last was {bad[-1]}")


def chance_of(items: Items, steps: Steps) -> Chance:
    """Where chance in loading and in the steps is drawn from: torchvision's transforms draw from torch alone.

    Sowing Python's and NumPy's generators as well takes four times as long.
    """
    is_known = items.labels is not None and (steps is None or _is_torchvision(steps))
    return "torch" if is_known else "everywhere"


def _is_torchvision(steps: Any) -> bool:
    if not type(steps).__module__.startswith("torchvision.transforms.v2.") or hasattr(steps, "lambd"):
        return False
    return all(_is_torchvision(step) for step in getattr(steps, "transforms", ()))


def collated(images: Sequence[Any]) -> Any:
    """One tensor of many; where that can't be, a failure says what is wrong with the steps."""
    try:
        return default_collate(list(images))
    except (RuntimeError, TypeError):
        kind = type(images[0])
        if not isinstance(images[0], Tensor | np.ndarray):
            raise Failure(
                f"the steps end with a {kind.__module__.partition('.')[0]} {kind.__name__}, not with a tensor",
                "let them end with `to_image() -> to_dtype(float32, scale=true)`",
            ) from None
        shapes = {tuple(image.shape) for image in images}
        if len(shapes) == 1:
            raise
        some = " and ".join("×".join(map(str, shape)) for shape in sorted(shapes)[:2])
        help = "let the steps end with one size: `resize(256) -> center_crop(224)`"
        raise Failure(f"the pictures of a batch differ in size: {some}", help) from None


def settle_worker(_number: int) -> None:
    """One thread for each worker, and no ear for Ctrl-C: the training process decides when to end."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)
