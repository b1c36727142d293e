"""How a batch is made from its samples, in the training process or in a worker.

Decides what happens to each sample, and to one that can't be read. Which samples make up a batch is decided in
`batches.py`.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from ctypes import c_bool
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from multiprocessing.sharedctypes import RawValue
from multiprocessing.util import Finalize
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch.utils import data
from torch.utils.data import get_worker_info

from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.images import NO_FILE
from leaven.runtime.data.samples import LABELLED, Samples
from leaven.runtime.failures import BadFile, Failure, unexpected
from leaven.runtime.model.outside import OutsideState
from leaven.runtime.model.own_objects import OwnObjects
from leaven.runtime.model.state import changed_names
from leaven.runtime.seeding import seed_all

Transform = Callable[..., Any] | None
OUTSIDE = ""  # the owner of variables of the user's code
Changed = frozenset[tuple[str, str]]  # the names of plain state that has changed, each after its owner
_Pair = tuple[tuple[Any, ...], Any]  # what the transforms return, and the value
_STOPPING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, eq=False)
class BatchKey:
    """The samples of a batch, by their `indices`, each with its position in the order of the epoch.

    Where only so many `views` of every sample are used, they say which; the positions are then those in the split.
    """

    epoch: int
    positions: Sequence[int]
    indices: np.ndarray
    views: np.ndarray | None = None

    def first(self, count: int) -> "BatchKey":
        """The first samples of the batch."""
        views = None if self.views is None else self.views[:count]
        return BatchKey(self.epoch, self.positions[:count], self.indices[:count], views)

    def samples(self) -> Iterator[tuple[int, int, int]]:
        """The index of each sample, after what its random transforms are seeded with: a number and its position."""
        epochs = [self.epoch] * len(self.indices) if self.views is None else self.views.tolist()
        return zip(epochs, self.positions, self.indices.tolist(), strict=True)


@dataclass(frozen=True, eq=False)
class DrawnSample:
    """A sample as an epoch draws it: the arguments of the transforms, its value, its name, and its batch and place in
    it, both from 0."""

    given: tuple[Any, ...]
    value: Any
    name: str
    batch: int = 0
    place: int = 0

    def prepared(self, transform: Transform) -> Any:
        """The image after the transforms, whose own state is left alone."""
        if transform is None:
            return self.given[0]
        made = copied(transform)(*deepcopy(self.given))
        return made if len(self.given) == 1 else made[0]


class Decoded(Protocol):
    """Images after the first of their transforms; `rest` are the others. They are equal to those that are loaded,
    unless it is an `approximation`."""

    rest: Transform
    approximation: str

    def load(self, index: int) -> Any: ...


class Loaded(NamedTuple):
    """A batch, with the names of the files that could not be read, and the state that loading has changed in a worker
    process."""

    inputs: Any
    targets: Any
    bad: tuple[str, ...]
    changed: Changed = frozenset()


class StateInWorker:
    """The plain state of the user's code in a worker process, and how it was before the first batch."""

    def __init__(self, *loading: Any) -> None:
        self._own, self._outside = OwnObjects(loading), OutsideState()
        self._before = self._now()

    def changed(self) -> Changed:
        now = self._now()
        return frozenset((owner, name) for owner in now for name in changed_names(self._before[owner], now[owner]))

    def _now(self) -> dict[str, dict[str, Any]]:
        return {"data": self._own.state(), OUTSIDE: self._outside.now()}


@dataclass(frozen=True, eq=False)
class BatchReader(data.Dataset[Any]):
    """Makes whole batches from their keys. A failure is returned, not raised: raised by the training process, it has
    no worker's traceback."""

    dataset: Dataset
    indices: np.ndarray
    transform: Transform
    seed: int | None
    skips_bad_files: bool
    is_train: bool
    samples: Samples = LABELLED
    decoded: Decoded | None = None
    start: str = field(default_factory=os.getcwd)  # of relative paths

    def __getitem__(self, key: BatchKey) -> Loaded | Failure:
        if get_worker_info() is not None:
            state = self._state_in_worker  # before the first batch is loaded
            loaded = self._batch(key)
            return loaded if isinstance(loaded, Failure) else loaded._replace(changed=state.changed())
        with one_thread():
            return self._batch(key)

    @cached_property
    def _state_in_worker(self) -> StateInWorker:
        return StateInWorker(self.dataset, self.transform)

    def _batch(self, key: BatchKey) -> Loaded | Failure:
        pairs: list[_Pair] = []
        bad: list[str] = []
        try:
            for epoch, position, index in key.samples():
                self._add(epoch, position, index, pairs, bad)
            if bad and self.is_train:
                self._refill(key, pairs, bad)
            if not pairs:
                return Loaded(None, (), tuple(bad))
            images = self.samples.inputs([image for (image, *_), _ in pairs])
            targets = self.samples.targets([tuple(moved) for (_, *moved), _ in pairs], [value for _, value in pairs])
            return Loaded(images, targets, tuple(bad))
        except Failure as failure:
            return failure

    def rows(self) -> np.ndarray:
        """The place in the split of the sample at each index of the dataset."""
        places = np.zeros(len(self.dataset), dtype=np.int64)
        places[self.indices] = np.arange(len(self.indices))
        return places

    def _add(self, epoch: int, position: int, index: int, pairs: list[_Pair], bad: list[str]) -> None:
        self._seed(epoch, position)
        try:
            sample = self.dataset.load(index) if self.decoded is None else self.decoded.load(index)
            image, value = self._with_value(sample, index)
            given = self.samples.given(image, value)
        except BadFile as failure:
            name = failure.file or self.dataset.name(index)  # what is wrong in memory has no file
            if failure.reason == NO_FILE and os.path.exists(os.path.join(self.start, name)):
                raise Failure(
                    f"user code has changed the working directory to {os.getcwd()}, so {name} is not found",
                    f"remove `os.chdir` from it; relative paths start in {self.start}",
                ) from None
            if not self.skips_bad_files:
                raise failure if failure.file else failure.of(name) from None
            bad.append(name)
            return
        pairs.append((self._transformed(given), value))

    def _with_value(self, sample: Any, index: int) -> tuple[Any, Any]:
        return sample if self.dataset.values is None else (sample, self.dataset.values[index])

    def drawn(self, key: BatchKey, at: int) -> DrawnSample:
        """A sample of a batch before its transforms, for which the generators are then seeded."""
        epoch, position, index = next(islice(key.samples(), at, None))
        self._seed(epoch, position)
        image, value = self._with_value(self.dataset.load(index), index)
        return DrawnSample(self.samples.given(image, value), value, self.dataset.name(index))

    def _seed(self, epoch: int, position: int) -> None:
        if self.seed is not None and self.draws_from != "nothing":
            seed_all(self.seed, epoch, position, torch_only=self.draws_from == "torch", devices=False)

    @cached_property
    def draws_from(self) -> Literal["nothing", "torch", "all"]:
        """Which generators loading and transforms draw from: torchvision's transforms use torch's alone.

        Seeding Python's and NumPy's as well takes four times as long.
        """
        if hasattr(self.transform, "encoded"):
            return "nothing"
        is_known = self.dataset.values is not None and (self.transform is None or _is_torchvision(self.transform))
        return "torch" if is_known else "all"

    def _transformed(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        transform = self.transform if self.decoded is None else self.decoded.rest
        if transform is None:
            return given
        about = "data.train" if self.is_train else "data.eval"
        try:
            result = transform(*given)
        except Failure:
            raise
        except Exception as problem:
            if os.environ.get("LEAVEN_DEBUG"):
                raise
            raise unexpected(problem, about) from None
        if result is None:
            raise Failure("a transform returned None", "let your function return the image", about)
        if len(given) == 1:
            return (result,)
        if not isinstance(result, tuple | list) or len(result) != len(given):
            fact = f"a transform was given {len(given)} values and did not return as many"
            raise Failure(fact, "let your function take and return the image and what is marked in it", about)
        return tuple(result)

    def _refill(self, key: BatchKey, pairs: list[_Pair], bad: list[str]) -> None:
        """Use the next samples where fewer than two could be read: batch normalisation needs two."""
        enough = min(2, len(key.indices))
        start = int(np.searchsorted(self.indices, key.indices[-1]))
        for offset in range(1, len(self.indices)):
            if len(pairs) >= enough:
                return
            index = int(self.indices[(start + offset) % len(self.indices)])
            self._add(key.epoch, key.positions[-1], index, pairs, bad)
        if not pairs:
            raise Failure(f"none of the {len(self.indices)} training samples can be read; the last was {bad[-1]}")


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, as in a worker: with more, a mean over an image's pixels has other last digits."""
    threads = torch.get_num_threads()
    if threads == 1:  # to set it again costs milliseconds: oneDNN begins anew
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def copied(transform: Any) -> Any:
    """A copy of a transform, whose own state, such as a generator, is left alone; itself where it can't be copied."""
    with suppress(Exception):  # whatever it has
        return deepcopy(transform)
    return transform


def transforms_in(transform: Transform) -> Sequence[Any]:
    """The transforms that are applied one after the other."""
    return tuple(getattr(transform, "transforms", () if transform is None else (transform,)))


def _is_torchvision(transform: Any) -> bool:
    if not type(transform).__module__.startswith("torchvision.transforms.v2.") or hasattr(transform, "lambd"):
        return False
    return all(_is_torchvision(inner) for inner in getattr(transform, "transforms", ()))


def loader_of(reader: data.Dataset[Any], workers: int, **options: Any) -> data.DataLoader[Any]:
    """A loader of the whole batches that a reader makes."""
    return data.DataLoader(
        reader,
        batch_size=None,
        collate_fn=_unchanged,
        num_workers=workers,
        worker_init_fn=WorkerSetup(_is_exiting(os.getpid())) if workers else None,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator(),  # so that the loader does not draw from the global generator
        **options,
    )


def _unchanged(batch: Any) -> Any:
    return batch


def start_loading(loader: data.DataLoader[Any]) -> Iterator[Any]:
    """The batches of a loader. Its workers leave Ctrl-C and SIGTERM to the training process from their first moment."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return iter(loader)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)  # which workers inherit
    try:
        return iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def _is_exiting(_process: int) -> Any:
    """Whether a process exits and is about to end its workers, in memory that they share."""
    shared = RawValue(c_bool, False)
    Finalize(None, setattr, args=(shared, "value", True), exitpriority=1)
    return shared


@dataclass(frozen=True)
class WorkerSetup:
    """One thread per worker, and signals that stop a run ignored: the training process decides when to stop.

    A terminal sends Ctrl-C to all of them, and a cluster SIGTERM. But `multiprocessing` too ends its processes with
    SIGTERM, when it exits.
    """

    is_exiting: Any  # shared between processes

    def __call__(self, _number: int) -> None:
        torch.set_num_threads(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0) if self.is_exiting.value else None)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(0)
