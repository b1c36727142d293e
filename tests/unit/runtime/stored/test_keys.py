"""Stored outputs are used again only where nothing has changed that they depend on."""

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision.transforms import v2

from leaven import runtime
from leaven.cache.store import Store, default_store
from leaven.runtime.stored import identity


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of four images each, in each of two splits."""
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for name in ("ant", "bee"):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for number in range(4):
                pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["program.py"])
    return default_store()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


class Prepared(NamedTuple):
    phase: runtime.Phase
    data: runtime.Data
    rest: nn.Module
    features: runtime.Data


def prepared(
    photos: Path,
    model: nn.Module | None = None,
    size: int = 12,
    all_but: str = "4",
    on_bad_file: Literal["stop", "skip"] = "stop",
    shares: dict[str, float] | None = None,
    **run: object,
) -> Prepared:
    """A phase that has stored what it can."""
    model = model or net()
    transform = v2.Compose([v2.Resize(size), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    dataset = runtime.image_folder(photos)
    split = runtime.split(dataset, **{"test": 0, **(shares or {})}, seed=0, resplit=shares is not None)  # type: ignore[arg-type]
    data = runtime.Data(
        dataset,
        split,
        train_transform=transform,
        eval_transform=transform,
        batch_size=4,
        workers=0,
        on_bad_file=on_bad_file,
    )
    args = runtime.parse(argparse.ArgumentParser(), output=str(photos.parent / "runs"))
    phase = runtime.Run(args, seed=0, monitor="val.loss", **run).phase("one", model, data, epochs=2)  # type: ignore[arg-type]
    runtime.freeze(model, all_but=[all_but])
    return Prepared(phase, data, *phase.frozen_once(model, data))


def computed(store: Store) -> int:
    """How many entries the store has."""
    return len(store.entries())


def a_byte_of_an_image(photos: Path) -> None:
    file = photos / "train" / "ant" / "0.png"
    times = os.stat(file)
    content = bytearray(file.read_bytes())
    pixels = np.array(Image.open(file))
    pixels[3, 3, 0] ^= 1
    Image.fromarray(pixels).save(file)
    assert file.read_bytes() != bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if nothing had happened


def test_a_second_run_computes_nothing(photos: Path, store: Store) -> None:
    prepared(photos)
    before = store.entries()
    _, data, _, features = prepared(photos)
    assert features.train is not data.train
    assert {entry.key for entry in store.entries()} == {entry.key for entry in before}


def test_one_byte_of_one_image_makes_a_new_entry(photos: Path, store: Store) -> None:
    prepared(photos)
    before = computed(store)
    a_byte_of_an_image(photos)
    phase, data, _, features = prepared(photos)
    assert computed(store) == before + 2, "for training, and that they are equal; nothing has changed in validation"
    images, _ = next(data.train.batches(0))
    kept, _ = next(features.train.batches(0))
    assert torch.equal(phase.model[:4](images), kept.outputs["model"][0])


@pytest.mark.parametrize(
    "changed",
    [
        lambda photos: prepared(photos, size=10),
        lambda photos: prepared(photos, precision="bf16-mixed"),
        lambda photos: prepared(photos, _with_another_weight()),
        lambda photos: prepared(photos, nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.GELU(), *list(net())[2:])),
    ],
    ids=["transform", "precision", "weight", "layer"],
)
def test_what_outputs_depend_on_makes_new_entries(
    changed: Callable[[Path], object], photos: Path, store: Store
) -> None:
    prepared(photos)
    before = computed(store)
    changed(photos)
    assert computed(store) == 2 * before


def _with_another_weight() -> nn.Module:
    model = net()
    with torch.no_grad():
        model.get_parameter("0.weight").view(-1)[0] += 1e-6
    return model


def test_another_version_of_a_library_makes_new_entries(
    photos: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(photos)
    before = computed(store)
    real = importlib.metadata.version
    monkeypatch.setattr(identity, "_version", lambda name: "99" if name == "pillow" else real(name))
    prepared(photos)
    assert computed(store) == 2 * before


def test_a_damaged_entry_is_computed_again(photos: Path, store: Store) -> None:
    prepared(photos)
    kept = {file.name: file.read_bytes() for file in store.folder.glob("*.entry")}
    largest = max(kept, key=lambda name: len(kept[name]))
    content = bytearray(kept[largest])
    content[-1] ^= 1
    (store.folder / largest).write_bytes(bytes(content))
    store._used.clear()  # as in another process
    prepared(photos)
    assert {file.name: file.read_bytes() for file in store.folder.glob("*.entry")} == kept


def test_a_store_that_is_too_small_is_not_used(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "10")
    _, data, rest, features = prepared(photos)
    assert (type(rest), features) == (nn.Sequential, data)
    assert "one: the frozen layers run in every epoch, because" in capsys.readouterr().out


def test_a_store_that_can_not_be_written_is_not_used(
    photos: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.folder.parent.mkdir(parents=True, exist_ok=True)
    store.folder.write_text("a file, where the folder should be")
    _, data, _, features = prepared(photos)
    assert features is data
    assert "the store can't be used" in capsys.readouterr().out
    assert torch.is_tensor(next(features.train.batches(0))[0])
