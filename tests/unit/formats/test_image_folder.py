"""What counts in a folder of images; the check and the runtime say the same of every odd tree."""

import os
import warnings
from pathlib import Path

import pytest

from leaven.formats.image_folder import files_below, image_files, read_image_folder
from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.runtime.data.datasets import image_folder
from leaven.runtime.failures import Failure

# Each a tree, the classes that are trained on, and the reports it gets.
ODD: dict[str, tuple[str, list[str], list[str]]] = {
    "plain": ("ants/1.jpg bees/2.PNG", ["ants", "bees"], []),
    "what programs leave behind": ("ants/1.jpg bees/1.jpg __MACOSX/ants/._1.jpg .cache/1.jpg", ["ants", "bees"], []),
    "hidden files only": ("ants/1.jpg bees/1.jpg cats/.1.jpg", ["ants", "bees"], ["empty-class"]),
    "an empty class": ("ants/1.jpg bees/1.jpg cats/", ["ants", "bees"], ["empty-class"]),
    "only what can't be read": ("ants/1.jpg bees/1.jpg cats/1.HEIC", ["ants", "bees"], ["empty-class"]),
    "texts beside the classes": ("ants/1.jpg bees/1.jpg notes/1.txt README.md", ["ants", "bees"], ["empty-class"]),
    "deep": ("ants/2021/may/1.jpg bees/1.jpg", ["ants", "bees"], []),
    "one class with images": ("ants/1.jpg bees/1.heic", [], ["no-classes"]),
    "no folders": ("1.jpg 2.jpg", [], ["no-classes"]),
    "railways": ("train/1.jpg bus/1.jpg", ["bus", "train"], []),
    "parts": ("train/a/1.jpg train/b/1.jpg val/a/1.jpg val/b/1.jpg", ["a", "b"], []),
    "parts in capitals": ("Train/a/1.jpg Train/b/1.jpg Validation/a/1.jpg Validation/b/1.jpg", ["a", "b"], []),
    "parts without classes": ("train/1.jpg val/2.jpg", [], ["no-classes"]),
    "a test without labels": ("train/a/1.jpg train/b/1.jpg test/1.jpg", ["a", "b"], ["no-classes"]),
    "parts and something else": ("train/a/1.jpg train/b/1.jpg raw/c/1.jpg", ["a", "b"], ["unused-split"]),
    "images beside the classes": ("ants/1.jpg bees/1.jpg 1.jpg", ["ants", "bees"], ["no-classes"]),
    "parts in the classes": (
        "ants/train/1.jpg ants/val/1.jpg bees/train/1.jpg bees/val/1.jpg",
        ["ants", "bees"],
        ["unused-split"],
    ),
    "no train": ("val/a/1.jpg val/b/1.jpg", [], ["missing-file"]),
    "two names for val": ("train/a/1.jpg train/b/1.jpg val/a/1.jpg valid/a/1.jpg", [], ["repeated-split"]),
    "val lacks a class": ("train/a/1.jpg train/b/1.jpg val/a/1.jpg", ["a", "b"], ["unequal-classes"]),
    "val has an empty class": ("train/a/1.jpg train/b/1.jpg val/a/1.jpg val/b/", ["a", "b"], ["empty-class"]),
    "val has one more": ("train/a/1.jpg train/b/1.jpg val/a/1.jpg val/b/1.jpg val/c/1.jpg", [], ["unequal-classes"]),
    "train has none of a class": (
        "train/a/1.jpg train/b/1.jpg train/c/ val/a/1.jpg val/b/1.jpg val/c/1.jpg",
        [],
        ["unequal-classes"],
    ),
}


def lay_out(folder: Path, tree: str) -> Path:
    folder.mkdir()
    for path in tree.split():
        place = folder / path
        if path.endswith("/"):
            place.mkdir(parents=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    return folder


@pytest.mark.parametrize(("tree", "classes", "ids"), ODD.values(), ids=ODD)
def test_the_check_and_the_runtime_agree(tmp_path: Path, tree: str, classes: list[str], ids: list[str]) -> None:
    lay_out(tmp_path / "photos", tree)
    checked = check(Source("r.leaven", 'model resnet18()\ndata folder("photos")\n', tmp_path))
    assert [diagnostic.id for diagnostic in checked.diagnostics] == ids
    assert (checked.recipe is not None) == bool(classes)
    with warnings.catch_warnings(record=True) as cautions:
        warnings.simplefilter("always")
        if checked.recipe is None:
            with pytest.raises(Failure) as caught:
                image_folder(tmp_path / "photos")
            headline = caught.value.headline.split("\n")[0]
            assert headline.replace(f"{tmp_path.as_posix()}/", "") == checked.diagnostics[0].headline
            return
        items = image_folder(tmp_path / "photos")
    assert items.target.names == tuple(classes)
    assert checked.recipe.data.outputs == len(classes)
    told = [str(caution.message).replace(f"{tmp_path.as_posix()}/", "") for caution in cautions]
    assert told == [diagnostic.headline for diagnostic in checked.diagnostics]


def test_images_of_other_classes_are_not_of_a_class_by_a_link_that_leads_back(tmp_path: Path) -> None:
    lay_out(tmp_path / "photos", "ants/1.jpg bees/1.jpg")
    os.symlink(tmp_path / "photos", tmp_path / "photos" / "ants" / "back")
    os.symlink(tmp_path / "photos" / "ants", tmp_path / "photos" / "ants" / "again")
    assert list(files_below(tmp_path / "photos" / "ants")) == [str(tmp_path / "photos" / "ants" / "1.jpg")]
    assert read_image_folder(tmp_path / "photos", "photos").counts == {"": 2}


def test_linked_folders_and_files_count(tmp_path: Path) -> None:
    lay_out(tmp_path / "kept", "ants/1.jpg bees/1.jpg")
    (tmp_path / "photos" / "bees").mkdir(parents=True)
    os.symlink(tmp_path / "kept" / "ants", tmp_path / "photos" / "ants")
    os.symlink(tmp_path / "kept" / "bees" / "1.jpg", tmp_path / "photos" / "bees" / "2.jpg")
    assert read_image_folder(tmp_path / "photos", "photos").classes == ("ants", "bees")
    assert len(list(image_files(tmp_path / "photos" / "bees"))) == 1


@pytest.mark.parametrize(("name", "called"), [("photos", "photos/cats"), (".", "cats"), ("a/", "a/cats")])
def test_findings_name_folders_as_they_were_given(tmp_path: Path, name: str, called: str) -> None:
    lay_out(tmp_path / "photos", "ants/1.jpg bees/1.jpg cats/2021/1.HEIC cats/2021/b.txt")
    (finding,) = read_image_folder(tmp_path / "photos", name).findings
    assert finding.fact == f"`{called}` contains no images and is ignored"
    assert finding.notes == (f"`{called}` contains 1 .heic and 1 .txt files",)
    assert f"magick mogrify -format jpg {called}/2021/*.HEIC" in finding.help


def test_a_class_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    lay_out(tmp_path / "photos", "ants/1.jpg")
    os.makedirs(os.fsencode(tmp_path) + b"/photos/b\xe4ren")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/photos/b\xe4ren/1.jpg")).touch()
    (finding,) = read_image_folder(tmp_path / "photos", "photos").findings
    assert finding.is_error
    assert finding.fact == "the name of the class `photos/b\\udce4ren` is not UTF-8"
