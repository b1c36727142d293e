"""Images that are there twice are found by their content."""

from pathlib import Path

import pytest

from leaven.runtime.data.datasets import image_folder
from leaven.runtime.failures import Caution
from leaven.sources.copies import copies
from leaven.sources.folder import Folder


def write(place: Path, content: str) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    return str(place)


def test_a_copy_in_another_class_is_reported_before_one_in_the_same(tmp_path: Path) -> None:
    files = [
        write(tmp_path / name, text) for name, text in (("1", "a"), ("2", "a"), ("3", "b"), ("4", "b"), ("5", "c"))
    ]
    (torn,) = copies(files, [0, 0, 0, 1, 1])
    assert torn.id == "repeated-image"
    assert f"with different labels: `{files[2]}` and `{files[3]}` are the same" in torn.fact
    (same,) = copies(files, [0, 0, 1, 1, 1])
    assert same.fact.startswith("2 images are there twice")
    assert "validation" in same.fact


def test_images_of_the_same_size_and_missing_ones_are_not_copies(tmp_path: Path) -> None:
    files = [write(tmp_path / "1", "a"), write(tmp_path / "2", "b"), str(tmp_path / "missing")]
    assert copies(files, [0, 1, 1]) == ()
    assert copies([files[0], files[0]], [0, 1]) == ()  # the same row twice is found by a look


def test_a_run_warns_and_a_look_reads_no_image(tmp_path: Path) -> None:
    for name in ("cat/1.jpg", "dog/1.jpg"):
        write(tmp_path / name, "the same")
    assert Folder(tmp_path, "pets").look().findings == ()
    with pytest.warns(Caution, match="an image is there twice, with different labels"):
        image_folder(tmp_path)
