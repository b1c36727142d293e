"""Images that are decoded once and stored are the same, bit for bit, as those that are decoded each time."""

import argparse
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests import at_work
from torch import Tensor
from torchvision.transforms import v2

from leaven import runtime
from leaven.cache.store import Store, default_store
from leaven.runtime.stored import decoded, identity

TENSOR = (v2.ToImage(), v2.ToDtype(torch.float32, scale=True))
RANDOM_FIRST = (v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), *TENSOR)
RESIZED = (v2.RGB(), v2.Resize(20), v2.CenterCrop(16), *TENSOR)
RESIZED_THEN_RANDOM = (v2.Resize(20), v2.RandomCrop(16), v2.ColorJitter(0.3), *TENSOR)
PIPELINES = [(RANDOM_FIRST, 0), (RESIZED, 3), (RESIZED, 1), (RESIZED_THEN_RANDOM, 1)]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Images of two classes, of different shapes and kinds: JPEG, PNG, grey, transparent, rotated."""
    rng = np.random.default_rng(0)
    for name in ("ant", "bee"):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 255, (60 + number, 90 - 5 * number, 3 + number % 2), dtype=np.uint8)
            if number % 2:
                Image.fromarray(pixels).save(folder / f"{number}.png")
            elif number == 4:
                Image.fromarray(pixels[:, :, 0]).save(folder / f"{number}.jpg")
            else:
                orientation = Image.Exif()
                orientation[0x0112] = 6
                Image.fromarray(pixels).save(folder / f"{number}.jpg", exif=orientation)
    return tmp_path / "photos"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["program.py"])
    monkeypatch.setattr(decoded, "ENTRY_BYTES", 4_000)  # several entries
    monkeypatch.setattr(decoded, "_LEAST_GAIN", 0)  # however busy the machine is
    return default_store()


def data_of(photos: Path, transforms: Sequence[Any], **more: Any) -> runtime.Data:
    transform = v2.Compose(list(transforms))
    dataset = runtime.image_folder(photos)
    split = runtime.split(dataset, train=75, val=25, test=0, seed=0)
    given = {"batch_size": 4, "workers": 0, **more}
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, **given)


def stored(photos: Path, transforms: Sequence[Any] = RESIZED, count: int = 3, **more: Any) -> runtime.Data:
    """Data with its training images in the store."""
    data = data_of(photos, transforms, **more)
    args = runtime.parse(argparse.ArgumentParser(), output=str(photos.parent / "runs"))
    runtime.Run(args, seed=0, monitor="val.loss").store_decoded(data.train, transforms=count)
    return data


def batches(data: runtime.Data) -> list[tuple[Tensor, Tensor]]:
    found = [batch for epoch in range(2) for batch in data.train.batches(epoch)]
    data.close()
    return found


def is_stored(data: runtime.Data) -> bool:
    return data.train.reader.decoded is not None  # type: ignore[attr-defined]


def are_equal(some: runtime.Data, others: runtime.Data) -> bool:
    pairs = zip(batches(some), batches(others), strict=True)
    return all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in pairs)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("transforms", "count"), PIPELINES)
def test_batches_are_the_same_bits(transforms: Sequence[Any], count: int, workers: int, photos: Path) -> None:
    data = stored(photos, transforms, count, workers=workers)
    assert is_stored(data)
    assert are_equal(data, data_of(photos, transforms))


def test_they_are_read_and_not_decoded(photos: Path) -> None:
    """Files that are gone after they were stored are not missed."""
    expected = batches(data_of(photos, RANDOM_FIRST))
    data = stored(photos, RANDOM_FIRST, 0)
    for file in photos.glob("*/*"):
        file.unlink()
    assert all(torch.equal(one, other) for (one, _), (other, _) in zip(batches(data), expected, strict=True))


def test_a_worker_that_does_not_inherit_memory_opens_the_store_itself(photos: Path) -> None:
    images = stored(photos).train.reader.decoded  # type: ignore[attr-defined]
    images.load(3)
    copy = pickle.loads(pickle.dumps(images))
    assert copy.load(3).tobytes() == images.load(3).tobytes()


def test_a_second_run_decodes_nothing(photos: Path, store: Store) -> None:
    stored(photos)
    before = {entry.key for entry in store.entries()}
    assert len(before) > 1
    assert is_stored(stored(photos))
    assert {entry.key for entry in store.entries()} == before


def test_one_byte_of_one_image_makes_one_new_entry(photos: Path, store: Store) -> None:
    before = stored(photos).split.train[0]
    count = len(store.entries())
    file = runtime.image_folder(photos).name(before)
    times = os.stat(file)
    content = bytearray(Path(file).read_bytes())
    content[-20] ^= 1
    Path(file).write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    data = stored(photos)
    assert len(store.entries()) == count + 1
    assert are_equal(data, data_of(photos, RESIZED))


@pytest.mark.parametrize(
    "changed",
    [
        lambda photos: stored(photos, (v2.RGB(), v2.Resize(21), *RESIZED[2:])),
        lambda photos: stored(
            photos, (v2.RGB(), v2.Resize(20, interpolation=v2.InterpolationMode.BICUBIC), *RESIZED[2:])
        ),
        lambda photos: stored(photos, RESIZED, 2),
    ],
    ids=["size", "another argument", "fewer transforms"],
)
def test_another_transform_makes_new_entries(changed: Callable[[Path], Any], photos: Path, store: Store) -> None:
    stored(photos)
    before = {entry.key for entry in store.entries()}
    assert is_stored(changed(photos))
    assert len({entry.key for entry in store.entries()} - before) >= len(before)


def test_another_version_of_a_library_makes_new_entries(
    photos: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(photos)
    before = len(store.entries())
    monkeypatch.setattr(identity, "_version", lambda name: "99.0")
    stored(photos)
    assert len(store.entries()) == 2 * before


def test_a_damaged_entry_is_made_again(photos: Path, store: Store) -> None:
    stored(photos)
    names = {entry.key for entry in store.entries()}
    file = store.folder / f"{min(names)}.entry"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink()
    file.write_bytes(content)
    store._used.clear()  # as in another process
    data = stored(photos)
    assert store.verify() == (len(names), [])
    assert are_equal(data, data_of(photos, RESIZED))


def test_an_entry_that_is_lost_during_training_is_not_missed(photos: Path, store: Store) -> None:
    data = stored(photos)
    store.clear()
    assert are_equal(data, data_of(photos, RESIZED))


def test_a_bad_file_is_skipped_as_it_would_be(photos: Path) -> None:
    (photos / "ant" / "3.png").write_bytes(b"no image")
    data = stored(photos, on_bad_file="skip")
    plain = data_of(photos, RESIZED, on_bad_file="skip")
    assert is_stored(data)
    assert are_equal(data, plain)
    assert data.skipped == plain.skipped


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("5kB", "the store has room for"), ("1GB", "the store can't be used")],
    ids=["full", "no folder"],
)
def test_without_a_store_images_are_decoded_in_every_epoch(
    limit: str, reason: str, photos: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", limit)
    if limit == "1GB":
        (photos.parent / "cache").mkdir()
        (photos.parent / "cache" / "store").write_text("not a folder")
    data = stored(photos)
    assert not is_stored(data)
    said = capfd.readouterr()
    assert "train: images are decoded in every epoch, because" in said.out + said.err
    assert reason in said.out + said.err
    assert are_equal(data, data_of(photos, RESIZED))


def test_what_is_too_large_for_memory_is_not_stored(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decoded, "memory", lambda: 20_000)
    assert not is_stored(stored(photos))
    said = capfd.readouterr()
    assert "more than a quarter of the memory" in said.out + said.err


def test_memory_stays_bounded(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded, "RESIDENT", 1000)
    assert are_equal(stored(photos), data_of(photos, RESIZED))


@pytest.mark.parametrize("train", ["random_resized_crop(16) -> horizontal_flip()", "resize(20) -> center_crop(16)"])
def test_training_ends_with_the_same_weights(train: str, photos: Path) -> None:
    recipe = (
        "model conv(8) -> global_pool() -> linear(classes)\n"
        f'data folder("photos") {{ train {train}; eval resize([16, 16]); split train=12 samples, val=4 samples }}\n'
        "train epochs=3, batch=4"
    )
    here = photos.parent
    once = at_work.program(here, recipe)
    always = at_work.program(here, f"{recipe}, cache=off", "always")
    assert once.read_text().count("run.store_decoded(") == 2
    assert "run.store_decoded(" not in always.read_text()
    at_work.run(once, "--output", "once")
    at_work.run(always, "--output", "always")
    one, other = (
        torch.load(at_work.run_folder(file, output) / "last.ckpt", weights_only=True)["state"]["model"]
        for file, output in ((once, "once"), (always, "always"))
    )
    assert all(torch.equal(one[key], other[key]) for key in one)


# -- approximately


@pytest.fixture
def large_photos(tmp_path: Path) -> Path:
    """JPEG files of smooth images, ten times as large as what they are resized to."""
    y, x = np.mgrid[0:200, 0:240]
    for kind, name in enumerate(("ant", "bee")):
        folder = tmp_path / "large" / name
        folder.mkdir(parents=True)
        for number in range(4):
            waves = [
                128 + 100 * np.sin(x / (20 + 5 * number)) * np.cos(y / (30 + channel + kind)) for channel in range(3)
            ]
            Image.fromarray(np.stack(waves, 2).astype(np.uint8)).save(folder / f"{number}.jpg", quality=95)
    return tmp_path / "large"


def in_store(photos: Path, transforms: Sequence[Any], count: int, *, exact: bool) -> Tensor:
    """The images of training, after they were decoded once."""
    data = data_of(photos, transforms)
    args = runtime.parse(argparse.ArgumentParser(), output=str(photos.parent / "runs"))
    runtime.Run(args, seed=0, monitor="val.loss").store_decoded(data.train, transforms=count, exact=exact)
    return torch.cat([images for images, _ in data.train.batches(0)])


def test_large_jpeg_files_are_decoded_at_a_smaller_size_with_nearly_the_same_result(large_photos: Path) -> None:
    exact, about = (in_store(large_photos, RESIZED, 3, exact=is_exact) for is_exact in (True, False))
    assert not torch.equal(exact, about)
    assert (exact - about).abs().mean() < 0.01
    assert (exact - about).abs().max() < 0.1
    assert torch.equal(exact, in_store(large_photos, RESIZED, 3, exact=True)), "they have entries of their own"
    assert torch.equal(about, in_store(large_photos, RESIZED, 3, exact=False))


@pytest.mark.parametrize("first", [v2.CenterCrop(30), v2.Resize(150), v2.Pad(1)])
def test_what_does_not_become_smaller_at_once_is_decoded_exactly(large_photos: Path, first: Any) -> None:
    transforms = (v2.RGB(), first, v2.Resize(20), v2.CenterCrop(16), *TENSOR)
    exact, about = (in_store(large_photos, transforms, 4, exact=is_exact) for is_exact in (True, False))
    assert torch.equal(exact, about)
