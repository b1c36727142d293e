"""Counts of images are remembered, and every change of a folder is noticed."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from leaven.cache import folder_counts, location
from leaven.formats import image_folder
from leaven.formats.image_folder import read_image_folder

LONG_AGO = 1_700_000_000


@pytest.fixture(autouse=True)
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and directories that count as old: the time of change can't be set back."""
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(location, "_RACY_NANOSECONDS", 0)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that were listed."""
    found: list[str] = []
    original = image_folder._directories

    def directories(folder: str) -> Iterator[folder_counts.Directory]:
        found.append(os.path.basename(folder))
        return original(folder)

    monkeypatch.setattr(image_folder, "_directories", directories)
    return found


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, count in (("ants", 900), ("bees", 600), ("bees/small", 300)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(count):
            (tmp_path / "photos" / name / f"{index}.jpg").touch()
    return tmp_path / "photos"


def counts(photos: Path) -> dict[str, int]:
    return dict(read_image_folder(photos, "photos").parts[""].images)


def test_folders_that_have_not_changed_are_not_listed_again(photos: Path, listed: list[str]) -> None:
    assert counts(photos) == {"ants": 900, "bees": 900}
    assert listed == ["ants", "bees"]
    assert counts(photos) == {"ants": 900, "bees": 900}
    assert listed == ["ants", "bees"]


@pytest.mark.parametrize("place", ["bees/new.jpg", "bees/small/new.jpg", "bees/larger/new.jpg"])
def test_a_new_image_is_counted(photos: Path, listed: list[str], place: str) -> None:
    counts(photos)
    (photos / place).parent.mkdir(exist_ok=True)
    (photos / place).touch()
    os.utime((photos / place).parent, (LONG_AGO, LONG_AGO))
    assert counts(photos) == {"ants": 900, "bees": 901}
    assert listed == ["ants", "bees", "bees"]


def test_images_that_are_removed_renamed_or_moved_are_noticed(photos: Path) -> None:
    counts(photos)
    (photos / "ants" / "0.jpg").unlink()
    (photos / "ants" / "1.jpg").rename(photos / "ants" / "1.txt")
    (photos / "ants" / "2.jpg").rename(photos / "bees" / "small" / "2b.jpg")
    assert counts(photos) == {"ants": 897, "bees": 901}
    shutil.rmtree(photos / "bees" / "small")
    assert counts(photos) == {"ants": 897, "bees": 600}


def test_a_folder_that_replaces_another_is_counted(photos: Path, tmp_path: Path) -> None:
    counts(photos)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "0.jpg").touch()
    shutil.rmtree(photos / "ants")
    (tmp_path / "others").rename(photos / "ants")
    assert counts(photos) == {"ants": 1, "bees": 900}


def test_a_linked_folder_is_always_listed(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (photos / "ants" / "link").symlink_to(tmp_path / "elsewhere")
    assert counts(photos)["ants"] == 900
    (tmp_path / "elsewhere" / "deep" / "0.jpg").touch()
    assert counts(photos)["ants"] == 901


def test_a_folder_that_has_just_changed_is_not_remembered(
    photos: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "_RACY_NANOSECONDS", 60_000_000_000)
    counts(photos)
    counts(photos)
    assert listed == ["ants", "bees"] * 2


def test_a_damaged_or_unwritable_memory_is_no_obstacle(photos: Path, tmp_path: Path) -> None:
    counts(photos)
    (memory,) = (tmp_path / "cache" / "folders").iterdir()
    memory.write_bytes(memory.read_bytes()[:-20])
    assert counts(photos) == {"ants": 900, "bees": 900}
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").touch()  # not a folder
    assert counts(photos) == {"ants": 900, "bees": 900}


def test_few_images_are_not_worth_a_memory(tmp_path: Path) -> None:
    for name in ("ants", "bees"):
        (tmp_path / "few" / name).mkdir(parents=True)
        (tmp_path / "few" / name / "0.jpg").touch()
    assert counts(tmp_path / "few") == {"ants": 1, "bees": 1}
    assert not (tmp_path / "cache").exists()
