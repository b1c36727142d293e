"""Where something can't be stored, training is as it would be without a store, and a line says why."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.unit.runtime.stored.test_keys import Prepared
from torch import Tensor, nn
from torch.utils.data import IterableDataset
from torchvision.transforms import v2

from leaven import runtime
from leaven.cache.store import Store, default_store
from leaven.runtime.data.batches import IndexedSplit
from leaven.runtime.run.guard import batch_that_fits
from leaven.runtime.stored import decoded

TRANSFORM = v2.Compose([v2.Resize(12), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for name in ("ant", "bee"):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for number in range(8):
                Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["program.py"])
    monkeypatch.setattr(decoded, "_LEAST_GAIN", 0)  # however busy the machine is
    return default_store()


class Net(nn.Module):
    """A frozen part and a head. What the model does with images is up to its subclasses."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(images))  # type: ignore[no-any-return]


class Branching(Net):
    """Can't be traced: what it computes depends on the values of the images."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images if images.mean() > 0 else -images)


class Noise(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images + torch.rand_like(images)


class Random(Net):
    """Its frozen layers draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Noise(), *self.body)


def data_of(photos: Path, **more: Any) -> runtime.Data:
    dataset = runtime.image_folder(photos)
    split = runtime.split(dataset, test=0, seed=0)
    given = {"batch_size": 4, "workers": 0, "train_transform": TRANSFORM, **more}
    return runtime.Data(dataset, split, eval_transform=TRANSFORM, **given)


def prepared(data: runtime.Data, folder: Path, model: nn.Module | None = None) -> Prepared:
    """A phase that has stored what it can."""
    model = model or Net()
    args = runtime.parse(argparse.ArgumentParser(), output=str(folder / "runs"))
    phase = runtime.Run(args, seed=0, monitor="val.loss").phase("one", model, data, epochs=2)
    runtime.freeze(model, all_but=["head"])
    return Prepared(phase, data, *phase.frozen_once(model, data))


def first_images(split: Any) -> Tensor:
    images = next(split.batches(0))[0]
    assert torch.is_tensor(images), "they are images, and not what was stored"
    return images


@pytest.mark.parametrize(("model", "reason"), [(Branching, "Branching"), (Random, "random numbers")])
def test_a_model_that_can_not_be_cut_runs_as_it_is_on_images_from_the_store(
    model: type[nn.Module], reason: str, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_of(photos)
    expected = first_images(data_of(photos).train)
    features = prepared(data, photos.parent, model()).features
    said = capsys.readouterr().out
    assert "one: the frozen layers run in every epoch, because" in said
    assert reason in said
    for split in (data.train, data.val):
        assert isinstance(split, IndexedSplit)
        assert split.reader.decoded is not None, "images are decoded once instead"
    assert torch.equal(first_images(features.train), expected)


def test_files_that_are_gone_before_they_are_stored(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(photos, on_bad_file="skip")
    (photos / "train" / "ant" / "3.png").unlink()
    features = prepared(data, photos.parent).features
    assert "because some files can't be read" in capsys.readouterr().out
    assert sum(len(targets) for _, targets in features.train.batches(0)) == 15
    assert [Path(name).name for name in data.skipped] == ["3.png"]


def test_files_that_vanish_while_they_are_stored(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(photos, on_bad_file="skip")
    assert isinstance(data.train, IndexedSplit)
    load = data.train.reader.dataset.load

    def vanishing(index: int) -> Any:
        loaded = load(index)
        (photos / "train" / "bee" / "7.png").unlink(missing_ok=True)
        return loaded

    data.train.reader = replace(data.train.reader, dataset=replace(data.train.reader.dataset, load=vanishing))
    features = prepared(data, photos.parent).features
    assert "because some files can't be read" in capsys.readouterr().out
    assert sum(len(targets) for _, targets in features.train.batches(0)) == 15


class Growing(IterableDataset[Any]):
    """A stream with more samples each time it is read."""

    classes = ("dark", "light")

    def __init__(self) -> None:
        self.length = 16

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.length):
            yield Image.new("RGB", (16, 16), (8 * number % 256, 0, 0)), number % 2
        self.length += 4


def test_data_whose_length_changes_is_never_stored(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = runtime.user_dataset(Growing())
    split = runtime.split(dataset, train=75, val=25, test=0, seed=0)
    data = runtime.Data(dataset, split, train_transform=TRANSFORM, eval_transform=TRANSFORM, batch_size=4)
    features = prepared(data, tmp_path).features
    assert "because the images come as a stream" in capsys.readouterr().out
    assert features is data
    assert not store.entries()


# -- memory


class Limited(nn.Linear):
    """A head that takes only so many samples."""

    most = 1000

    def forward(self, features: Tensor) -> Tensor:
        if len(features) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        return super().forward(features)


@pytest.mark.parametrize("is_training", [True, False])
def test_a_batch_that_does_not_fit_into_memory(is_training: bool, photos: Path) -> None:
    model, data = Net(), data_of(photos)
    model.head = head = Limited(4, 2)
    phase, _, rest, features = prepared(data, photos.parent, model)
    if is_training:
        optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
        phase.setup(rest, optimizer, runtime.constant(optimizer))
        batch, _ = next(phase.batches(features.train))
        assert not torch.is_tensor(batch), "it has stored outputs"
    head.most = 2
    assert batch_that_fits(phase) == 2


# -- the disk


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache on a disk of its own, of 64 KB."""
    cache = tmp_path / "cache"
    cache.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", cache], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"a file system can't be mounted here: {problem}")
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "1GB")
    yield cache
    subprocess.run(["umount", "-l", cache], check=True)


def wide() -> nn.Module:
    """A model whose frozen layers have outputs of 16 KB per image."""
    model = Net()
    model.body = nn.Sequential(nn.Conv2d(3, 40, 3), nn.Flatten())
    model.head = nn.Linear(4000, 2)
    return model


def test_a_disk_that_is_full(small_disk: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(photos)
    features = prepared(data, photos.parent, wide()).features
    assert re.search("run in every epoch, because .*(No space left|room)", capsys.readouterr().out)
    assert torch.equal(first_images(features.train), first_images(data_of(photos).train))
    assert not list(small_disk.glob("store/*.partial"))


def test_a_full_disk_does_not_change_the_views(
    small_disk: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = v2.Compose([v2.RandomCrop(12), *TRANSFORM.transforms[1:]])
    data, same = (data_of(photos, train_transform=random).with_views(2) for _ in range(2))
    features = prepared(data, photos.parent, wide()).features
    assert "run in every epoch, because" in capsys.readouterr().out
    seen = {
        epoch: torch.cat([images for images, _ in features.train.batches(epoch, shuffle=False)]) for epoch in range(3)
    }
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(first_images(features.train), first_images(same.train))


def test_a_disk_that_can_only_be_read(small_disk: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    data = data_of(photos)
    features = prepared(data, photos.parent).features
    assert re.search("run in every epoch, because .*Read-only file system", capsys.readouterr().out)
    assert torch.equal(first_images(features.train), first_images(data_of(photos).train))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written(photos: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.folder.mkdir(parents=True)
    store.folder.chmod(0o500)
    features = prepared(data_of(photos), photos.parent).features
    assert "run in every epoch, because" in capsys.readouterr().out
    first_images(features.train)
