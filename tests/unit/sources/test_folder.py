"""A look at folders of images, before training."""

from pathlib import Path

from leaven.sources.folder import Folder, TorchvisionFolder


def _fill(folder: Path, **classes: int) -> None:
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for index in range(count):
            (folder / name / f"{index}.jpg").touch()


def test_torchvisions_folder_has_as_many_images_as_ours(tmp_path: Path) -> None:
    """So that the defaults, which depend on how many there are, are the same."""
    _fill(tmp_path, ants=30, bees=28)
    ours, theirs = Folder(tmp_path, "photos").look(), TorchvisionFolder(tmp_path, "photos").look()
    assert ours.counts == theirs.counts == {"": 58}
    assert ours.class_counts == theirs.class_counts == (30, 28)


def test_the_images_of_a_folder_with_an_empty_class_are_left_to_torchvision(tmp_path: Path) -> None:
    _fill(tmp_path, ants=30, bees=0)
    looked = TorchvisionFolder(tmp_path, "photos").look()
    assert looked.names == ("ants", "bees")
    assert not looked.counts
