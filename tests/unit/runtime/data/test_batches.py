"""Batches: the same whatever loads them and wherever one begins, and honest about what can't be loaded."""

import hashlib
import os
import random
import select
import signal
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests import at_work
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, get_worker_info
from torchvision.transforms import v2 as T

from leaven.runtime.data import batches
from leaven.runtime.data.batches import Data, Split
from leaven.runtime.data.datasets import Dataset, digits, image_folder
from leaven.runtime.data.shares import batch_sizes, share_of
from leaven.runtime.data.splits import SplitIndices, split
from leaven.runtime.data.torch_datasets import user_dataset
from leaven.runtime.failures import BadFile, Failure
from leaven.tasks.classification import Classes

TENSOR = [T.ToImage(), T.ToDtype(torch.float32, scale=True)]
PLAIN = T.Compose(TENSOR)
WORKERS = (0, 2, 4)


def fingerprint(batches: Iterable[tuple[Tensor, Tensor]]) -> list[str]:
    """One hash per batch, of its very bytes."""
    return [
        hashlib.sha256(images.contiguous().numpy().tobytes() + labels.numpy().tobytes()).hexdigest()
        for images, labels in batches
    ]


def photos(root: Path, count: int = 20, size: tuple[int, int] = (40, 30)) -> Path:
    chance = np.random.default_rng(0)
    for name in ("ants", "bees"):
        (root / name).mkdir(parents=True)
        for number in range(count):
            pixels = chance.integers(0, 255, (*size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number:03}.png")
    return root


def numbers(count: int, labels: Sequence[int] | None = None) -> Dataset:
    """Samples that are their own number."""
    labels = labels or [index % 2 for index in range(count)]
    return Dataset(Classes(("even", "odd")), labels, count, Numbers(), str, in_memory=True)


class Numbers:
    def __call__(self, index: int) -> Tensor:
        return torch.tensor([float(index)])


def whole(count: int) -> SplitIndices:
    return SplitIndices(np.arange(count), np.arange(count), np.arange(0))


def seen(batches: Iterable[tuple[Tensor, Tensor]]) -> list[list[int]]:
    return [images.flatten().int().tolist() for images, _ in batches]


def flat(batches: Iterable[tuple[Tensor, Tensor]]) -> list[int]:
    return [number for batch in seen(batches) for number in batch]


def make(items: Any, parts: SplitIndices, steps: Any = None, **options: Any) -> Data:
    return Data(items, parts, train_transform=steps, eval_transform=options.pop("eval", steps), **options)


# -- the same result, always


def test_batches_are_the_same_bytes_with_any_number_of_workers(tmp_path: Path) -> None:
    items = image_folder(photos(tmp_path, size=(260, 250)))  # large enough for torch to share a sum among threads
    steps = T.Compose([*TENSOR, T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4), T.RandomCrop(240)])
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    prints = []
    for workers in WORKERS:
        data = make(items, split(items), steps, batch_size=8, workers=workers, seed=3)
        prints.append([fingerprint(data.train.batches(epoch)) for epoch in (0, 1)] + [fingerprint(data.val.batches(0))])
        assert torch.get_num_threads() == 2
        data.close()
    torch.set_num_threads(threads)
    assert prints[0] == prints[1] == prints[2]
    assert not set(prints[0][0]) & set(prints[0][1])


def noise(image: Image.Image) -> Tensor:
    """A user's own step, with chance from wherever users take it."""
    drawn = random.random() + np.random.rand() + torch.rand(()).item()
    return torch.tensor(np.asarray(image, dtype=np.float32) + drawn)


def test_a_users_own_chance_is_exact_too() -> None:
    items = digits()
    prints = []
    for workers in (0, 2):
        data = make(items, split(items, train=10, val=1, test=0), noise, batch_size=64, workers=workers)
        prints.append(fingerprint(data.train.batches(0)) + fingerprint(data.val.batches(0)))
        data.close()
    assert prints[0] == prints[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_can_be_begun_in_the_middle(workers: int) -> None:
    items = digits()
    steps = T.Compose([T.RandomCrop(8, padding=2), *TENSOR])
    data = make(items, split(items), steps, batch_size=64, workers=workers)
    full = fingerprint(data.train.batches(1))
    assert len(full) == data.train.steps() == 23
    for first in (0, 1, 17, 23):
        assert fingerprint(data.train.batches(1, first=first)) == full[first:]
    for _ in data.train.batches(0):
        break  # an epoch that is left early leaves nothing behind
    assert fingerprint(data.train.batches(1)) == full
    data.close()


def test_an_item_drawn_twice_is_augmented_twice() -> None:
    items = Dataset(Classes(("a", "b")), [0, 1], 2, digits().load, str, in_memory=True)
    data = make(items, whole(2), T.Compose([T.RandomCrop(8, padding=4), *TENSOR]), batch_size=2, sampler="balanced")
    pictures = {
        (int(label), image.numpy().tobytes())
        for e in range(20)
        for b in data.train.batches(e)
        for image, label in zip(*b, strict=True)
    }
    assert len(pictures) > 20


def test_without_a_seed_loading_leaves_the_global_generators_alone() -> None:
    data = make(digits(), split(digits()), PLAIN, batch_size=64, seed=None)
    torch.manual_seed(5)
    for _ in data.train.batches(0):
        pass
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert drawn == torch.rand(1)


# -- the order


def test_every_item_comes_once_per_epoch_in_an_order_of_its_own() -> None:
    data = make(numbers(50), whole(50), batch_size=8)
    first, second = flat(data.train.batches(0)), flat(data.train.batches(1))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first == flat(make(numbers(50), whole(50), batch_size=8).train.batches(0))
    assert first != flat(make(numbers(50), whole(50), batch_size=8, seed=1).train.batches(0))
    assert flat(data.train.batches(0, shuffle=False)) == list(range(50))


def test_evaluation_reads_everything_in_order() -> None:
    data = make(numbers(50), whole(50), batch_size=8)
    assert flat(data.val.batches(0)) == list(range(50))
    assert len(seen(data.val.batches(0))) == data.val.steps() == 7
    assert (len(data.val), len(data.test), data.test.steps(), seen(data.test.batches(0))) == (50, 0, 0, [])


def test_labels_belong_to_their_images() -> None:
    for images, labels in make(numbers(50), whole(50), batch_size=8).train.batches(0):
        assert (images.flatten().int() % 2).tolist() == labels.tolist()
        assert labels.dtype == torch.int64


def test_balanced_draws_every_class_equally_often() -> None:
    items = numbers(1000, [0] * 950 + [1] * 50)
    data = make(items, whole(1000), batch_size=100, sampler="balanced")
    epoch = [(images, labels) for images, labels in data.train.batches(0)]
    drawn = torch.cat([labels for _, labels in epoch])
    assert len(drawn) == 1000
    assert 430 < int(drawn.sum()) < 570
    assert fingerprint(epoch) == fingerprint(data.train.batches(0)) != fingerprint(data.train.batches(1))
    assert data.train.class_counts() == [950, 50]


@pytest.mark.parametrize(
    ("count", "batch", "expected"),
    [
        (10, 4, [4, 4, 2]),
        (9, 4, [4, 4]),  # normalisation can't learn from a single item
        (8, 4, [4, 4]),
        (1, 4, [1]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_the_last_batch_is_kept_unless_it_is_a_single_item(count: int, batch: int, expected: list[int]) -> None:
    assert batch_sizes(count, batch) == expected


@pytest.mark.parametrize(
    ("size", "batch", "world", "expected"),
    [
        (8, 8, 1, [(0, 8, 1.0)]),
        (8, 8, 2, [(0, 4, 0.5), (4, 8, 0.5)]),
        (10, 10, 4, [(0, 2, 0.2), (2, 5, 0.3), (5, 7, 0.2), (7, 10, 0.3)]),
        (3, 8, 2, [(0, 3, 1.0), (0, 3, 0.0)]),  # the second repeats what the first has, and it does not count
        (5, 8, 4, [(0, 2, 0.4), (2, 5, 0.6), (0, 2, 0.0), (2, 5, 0.0)]),
        (1, 8, 2, [(0, 1, 1.0), (0, 1, 0.0)]),
        (2, 2, 2, [(0, 1, 0.5), (1, 2, 0.5)]),
    ],
)
def test_every_sample_of_a_batch_counts_in_one_process(
    size: int, batch: int, world: int, expected: list[tuple[int, int, float]]
) -> None:
    shares = [share_of(size, batch, rank, world) for rank in range(world)]
    assert [(share.start, share.stop, share.part) for share in shares] == expected


def test_processes_share_the_same_order_and_the_same_augmentation() -> None:
    steps = T.Compose([T.RandomCrop(8, padding=2), *TENSOR])
    items = digits()
    data = make(items, split(items, train=20, val=5, test=0), steps, batch_size=32)
    alone = list(data.train.batches(2))
    shares = [list(data.train.batches(2, rank=rank, world=4)) for rank in range(4)]
    assert {len(share) for share in shares} == {data.train.steps(4)} == {len(alone)}
    for number, (images, labels) in enumerate(alone):
        counts = [bool(data.train.part(number, rank, 4)) for rank in range(4)]
        assert torch.equal(images, torch.cat([share[number][0] for share in compress(shares, counts)]))
        assert torch.equal(labels, torch.cat([share[number][1] for share in compress(shares, counts)]))
    evaluated = [torch.cat([labels for _, labels in data.val.batches(0, rank=rank, world=3)]) for rank in range(3)]
    in_order = torch.cat([labels for _, labels in data.val.batches(0)])
    for rank in range(3):
        assert torch.equal(evaluated[rank], in_order[rank::3])


def test_without_shuffling_each_training_sample_is_in_one_share() -> None:
    data = make(numbers(50), whole(50), batch_size=7)
    shares = [flat(data.train.batches(0, rank=rank, world=3, shuffle=False)) for rank in range(3)]
    assert sorted(chain(*shares)) == list(range(50))


def test_a_batch_that_can_not_be_shared() -> None:
    data = make(numbers(50), whole(50), batch_size=2)
    with pytest.raises(Failure, match="a batch of 2 can't be divided among 3 processes") as caught:
        data.train.steps(3)
    assert caught.value.help == "write `batch=3`"


# -- bad files


@pytest.fixture
def damaged(tmp_path: Path) -> Dataset:
    """Forty photographs of which three can't be read."""
    root = photos(tmp_path)
    (root / "ants" / "003.png").write_bytes(b"")
    (root / "ants" / "007.png").write_bytes((root / "ants" / "008.png").read_bytes()[:200])
    (root / "bees" / "019.png").write_bytes(b"<html>")
    return image_folder(root)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_file_stops_the_run_and_is_named(damaged: Dataset, workers: int) -> None:
    data = make(damaged, whole(40), PLAIN, batch_size=40, workers=workers)
    with pytest.raises(BadFile) as caught:
        list(data.val.batches(0))
    assert caught.value.headline.endswith("ants/003.png can't be read: it is empty")
    assert "on_bad_file skip" in caught.value.help
    assert "Traceback" not in str(caught.value)
    data.close()
    assert not active_children(), "though the failure is still being looked at"


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_skipped_and_counted(damaged: Dataset, workers: int) -> None:
    data = make(damaged, whole(40), PLAIN, batch_size=8, workers=workers, on_bad_file="skip")
    for _ in range(2):
        assert sum(len(labels) for _, labels in data.train.batches(0)) == 37
    assert sum(len(labels) for _, labels in data.val.batches(0)) == 37
    assert [Path(name).name for name in data.skipped] == ["003.png", "007.png", "019.png"]
    data.close()


def test_where_a_whole_batch_is_bad_the_next_items_stand_in(damaged: Dataset) -> None:
    """So that the number of steps stays what the schedule was told, and processes stay together."""
    data = make(damaged, whole(40), PLAIN, batch_size=1, on_bad_file="skip")
    assert [len(labels) for _, labels in data.train.batches(0)] == [1] * 40
    pair = SplitIndices(np.array([3, 7, 8]), np.arange(0), np.arange(0))
    assert [
        len(labels) for _, labels in make(damaged, pair, PLAIN, batch_size=3, on_bad_file="skip").train.batches(0)
    ] == [1]
    assert len(data.skipped) == 3


def test_where_everything_is_bad_the_run_ends(damaged: Dataset) -> None:
    bad = SplitIndices(np.array([3, 7, 39]), np.arange(0), np.arange(0))
    with pytest.raises(Failure, match="none of the 3 training samples can be read"):
        list(make(damaged, bad, PLAIN, batch_size=2, on_bad_file="skip").train.batches(0))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("steps", "headline"),
    [
        (T.Compose([T.RandomRotation(45, expand=True), *TENSOR]), "the images of a batch differ in size: 3×"),
        (T.Resize(8), "the transforms end with a PIL Image, not with a tensor"),
    ],
)
def test_steps_that_make_no_batch(tmp_path: Path, workers: int, steps: Any, headline: str) -> None:
    items = image_folder(photos(tmp_path, 4))
    data = make(items, whole(8), steps, batch_size=8, workers=workers)
    with pytest.raises(Failure, match=headline):
        list(data.train.batches(0))
    data.close()


class Stumbling:
    def __call__(self, index: int) -> Tensor:
        raise ZeroDivisionError("a mistake in the program")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mistake_in_a_users_code_is_no_bad_file(workers: int) -> None:
    items = Dataset(Classes(("a", "b")), [0, 1], 2, Stumbling(), str)
    data = make(items, whole(2), batch_size=2, workers=workers, on_bad_file="skip")
    with pytest.raises(ZeroDivisionError, match="a mistake in the program"):
        list(data.train.batches(0))
    data.close()


class Leaving:
    def __call__(self, index: int) -> Tensor:
        os._exit(9)


def test_a_worker_that_was_killed() -> None:
    data = make(Dataset(Classes(("a", "b")), [0, 1], 2, Leaving(), str), whole(2), batch_size=2, workers=1)
    with pytest.raises(Failure, match="a worker process that loads data was killed"):
        list(data.train.batches(0))


# -- workers


def test_auto_takes_no_workers_for_what_is_in_memory_or_quickly_loaded(tmp_path: Path) -> None:
    assert make(digits(), split(digits()), PLAIN).train.workers == 0
    few = image_folder(photos(tmp_path / "few", 4))
    assert make(few, split(few), PLAIN).train.workers == 0


def test_auto_takes_workers_for_what_takes_long_and_they_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = image_folder(photos(tmp_path / "few", 4))
    alone = list(make(few, split(few), PLAIN, batch_size=2).train.batches(0))
    monkeypatch.setattr(batches, "QUICKLY", 0.0)
    data = make(few, split(few), PLAIN, batch_size=2)
    state = torch.get_rng_state()
    assert 1 <= data.train.workers <= 4
    assert torch.equal(torch.get_rng_state(), state)
    helped = list(data.train.batches(0))
    assert all(torch.equal(one, other) for (one, _), (other, _) in zip(alone, helped, strict=True))


def test_auto_does_not_call_your_own_code_to_measure_it() -> None:
    called: list[int] = []

    def load(index: int) -> Tensor:
        called.append(index)
        return torch.zeros(1)

    few = make(Dataset(Classes(("a", "b")), [0, 1] * 8, 16, load, str), whole(16), batch_size=4)
    many = make(Dataset(Classes(("a", "b")), [0, 1] * 300, 600, load, str), whole(600), batch_size=4)
    assert few.train.workers == 0
    assert many.train.workers >= 1
    assert not called


class Whereabouts:
    def __call__(self, index: int) -> Tensor:
        return torch.tensor([float(os.getpid())])


def test_workers_are_kept_from_one_epoch_to_the_next() -> None:
    data = make(Dataset(Classes(("a", "b")), [0, 1] * 8, 16, Whereabouts(), str), whole(16), batch_size=4, workers=2)
    first, second = ({int(i) for images, _ in data.train.batches(e) for i in images.flatten()} for e in (0, 1))
    assert first == second
    assert len(first) == 2
    data.close()


def test_two_readings_of_one_part_do_not_mix() -> None:
    data = make(numbers(40), whole(40), batch_size=4, workers=2)
    one = data.train.batches(0)
    next(one)
    other = data.train.batches(1)
    next(other)
    with pytest.raises(RuntimeError, match="restarted"):
        next(one)
    data.close()


class Handlers:
    """Samples that tell what a worker does with signals, whose numbers are their indices."""

    def __call__(self, index: int) -> Tensor:
        if index:
            signal.raise_signal(index)
        return torch.tensor([float(os.getpid())])


def test_workers_leave_signals_that_stop_a_run_to_the_training_process() -> None:
    """A terminal sends Ctrl-C to all processes, a cluster SIGTERM; the run still has a checkpoint to write."""
    dataset = Dataset(Classes(("a",)), [0] * 16, 16, Handlers(), str)
    indices = np.array([0, 0, signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGTERM, 0, 0])
    data = make(dataset, SplitIndices(np.arange(1), indices, np.arange(0)), batch_size=1, workers=2)
    pids = [int(images) for images, _ in data.val.batches(0)]
    assert len(pids) == len(indices)
    assert len(set(pids)) == 2
    data.close()


LEFT = """
import os, signal
import numpy as np, torch
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.splits import SplitIndices
from leaven.tasks.classification import Classes

class Zeros:
    def __call__(self, index):
        return torch.zeros(1)

alive = open("alive", "w")  # which the workers inherit
split = SplitIndices(np.arange(16), np.arange(0), np.arange(0))
dataset = Dataset(Classes(("a", "b")), [0, 1] * 8, 16, Zeros(), str)
data = Data(dataset, split, train_transform=None, eval_transform=None, batch_size=4, workers=2)
batches = data.train.batches(0)
next(batches)
print("data loading began", flush=True)
END
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise RuntimeError('with batches left')"])
def test_workers_end_with_the_training_process_however_it_ends(end: str, tmp_path: Path) -> None:
    file = tmp_path / "left.py"
    file.write_text(LEFT.replace("END", end))
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    running = at_work.start(file)
    assert running.end() == (-signal.SIGKILL if "KILL" in end else 1), running.said
    assert "data loading began" in running.said
    ended, _, _ = select.select([alive], [], [], at_work.LIMIT)  # until nobody has it open for writing
    assert ended, "workers are left behind"
    os.close(alive)


# -- the user's own sets


class Own(TorchDataset[Any]):
    classes = ("a", "b")

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.full((1, 2, 2), float(index)), torch.tensor(index % 2)


def test_items_of_a_users_set_pass_the_steps_only_if_there_are_any() -> None:
    items = user_dataset(Own())
    parts = SplitIndices(np.arange(8), np.arange(8, 10), np.arange(0))
    for images, labels in Data(
        items, parts, train_transform=None, eval_transform=lambda image: image + 100, batch_size=8
    ).train.batches(0):
        assert (images[:, 0, 0, 0] % 2).tolist() == labels.tolist()
    [(images, _)] = Data(
        items, parts, train_transform=None, eval_transform=lambda image: image + 100, batch_size=8
    ).val.batches(0)
    assert images[:, 0, 0, 0].tolist() == [108, 109]


def test_balanced_needs_labels() -> None:
    items = user_dataset(Own())
    with pytest.raises(Failure, match="needs the labels before training"):
        next(make(items, whole(10), batch_size=2, sampler="balanced").train.batches(0))


class Flowing(IterableDataset[Any]):
    """A stream that shares its items out among workers, and shuffles a little by chance."""

    classes = ("a", "b")

    def __init__(self, count: int = 200) -> None:
        self.count = count

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        worker = get_worker_info()
        first, every = (worker.id, worker.num_workers) if worker else (0, 1)
        for index in range(first, self.count, every):
            yield torch.tensor([float(index)]), index % 2


class Shaken(Flowing):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        for image, label in super().__iter__():
            yield image + random.random(), label


def everything(data: Data) -> dict[str, list[int]]:
    return {name: sorted(flat(getattr(data, name).batches(0))) for name in ("train", "val", "test")}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_is_divided_and_read_whole(workers: int) -> None:
    stream = user_dataset(Flowing())
    data = make(stream, split(stream), batch_size=16, workers=workers)
    parts = everything(data)
    assert sorted(chain(*parts.values())) == list(range(200))
    assert [len(part) for part in parts.values()] == [160, 20, 20]
    assert (len(data.train), len(data.val)) == (160, 20)
    assert data.train.steps() == len(list(data.train.batches(0)))


def test_a_stream_that_draws_random_numbers_resumes_where_it_was() -> None:
    stream = user_dataset(Shaken())
    parts = split(stream)
    runs = [fingerprint(make(stream, parts, noise_of_tensor, batch_size=16).train.batches(1)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert fingerprint(make(stream, parts, noise_of_tensor, batch_size=16).train.batches(1, first=4)) == runs[0][4:]
    assert not set(fingerprint(make(stream, parts, noise_of_tensor, batch_size=16).train.batches(0))) & set(runs[0])


def noise_of_tensor(image: Tensor) -> Tensor:
    return image + torch.rand(1)


def test_a_stream_is_shared_by_processes_in_equal_steps() -> None:
    stream = user_dataset({"train": Shaken(103), "val": Flowing(11)})
    data = make(stream, split(stream), noise_of_tensor, batch_size=10)
    alone = list(data.train.batches(1))
    shares = [list(data.train.batches(1, rank=rank, world=2)) for rank in range(2)]
    assert [len(share) for share in shares] == [data.train.steps(2)] * 2 == [len(alone)] * 2
    for number, (images, _) in enumerate(alone):
        counts = [bool(data.train.part(number, rank, 2)) for rank in range(2)]
        assert torch.equal(images, torch.cat([share[number][0] for share in compress(shares, counts)]))
    data = make(stream, split(stream), batch_size=10)
    evaluated = [flat(data.val.batches(0, rank=rank, world=2)) for rank in range(2)]
    assert sorted(chain(*evaluated)) == list(range(11))


def test_parts_are_used_alike(tmp_path: Path) -> None:
    stream = user_dataset(Flowing())
    parts: list[Split] = [make(stream, split(stream)).train, make(digits(), split(digits()), PLAIN).train]
    assert [part.name for part in parts] == ["train", "train"]
    assert [len(part.class_counts()) for part in parts] == [2, 10]
