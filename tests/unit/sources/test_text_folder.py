"""Folders of text files, as a check sees them."""

from pathlib import Path

import pytest

from leaven.sources.text_folder import TextFolder


def lay_out(folder: Path, *files: str) -> TextFolder:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("a text")
    return TextFolder(folder, "texts")


def test_sub_folders_are_classes(tmp_path: Path) -> None:
    looked = lay_out(tmp_path, "good/1.txt", "good/deep/2.md", "bad/3.txt", "bad/photo.jpg").look()
    assert (looked.names, looked.counts, looked.class_counts) == (("bad", "good"), {"": 3}, (1, 2))


def test_splits_are_found(tmp_path: Path) -> None:
    texts = lay_out(tmp_path, "train/a/1.txt", "train/b/2.txt", "validation/a/3.txt", "validation/b/4.txt")
    assert texts.look().splits == ("train", "val")
    assert {name: list(there) for name, there in texts.open().predefined.items()} == {"train": [0, 1], "val": [2, 3]}


@pytest.mark.parametrize(
    ("files", "id", "fact"),
    [
        (("only/1.txt",), "no-classes", "`texts` has 1 sub-folder"),
        (("a/1.txt", "b/1.jpg"), "empty-class", "`texts/b` has no text files"),
        (("train/a/1.txt", "train/b/1.txt", "val/c/1.txt", "val/a/1.txt"), "unequal-classes", "has the class `c`"),
    ],
)
def test_faults_are_reported(files: tuple[str, ...], id: str, fact: str, tmp_path: Path) -> None:
    (finding,) = lay_out(tmp_path, *files).look().findings
    assert finding.id == id
    assert fact in finding.fact


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (finding,) = TextFolder(tmp_path / "none", "none").look().findings
    assert finding.fact == "`none` does not exist"
