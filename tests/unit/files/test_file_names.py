"""The paths of many files in one block of memory."""

import pickle
import tracemalloc

import pytest

from leaven.files.file_names import FileNames

PATHS = ["photos/ants/0.jpg", "photos/bees/ü.jpg", "photos/bees/\udcff.jpg"]  # the last name is not UTF-8


def names(folder: str, paths: list[str]) -> FileNames:
    found = FileNames(folder)
    found.extend(paths)
    return found


def test_paths_are_what_they_were() -> None:
    found = names("photos", PATHS)
    assert list(found) == PATHS
    assert (len(found), found[1], found[-1], found[:2]) == (3, PATHS[1], PATHS[2], PATHS[:2])
    assert list(pickle.loads(pickle.dumps(found))) == PATHS
    assert list(reversed(found)) == PATHS[::-1]
    with pytest.raises(IndexError):
        found[3]


def test_paths_in_the_current_folder_have_no_folder() -> None:
    assert list(names(".", ["ants/0.jpg"])) == ["ants/0.jpg"]


def test_a_path_outside_of_the_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="is not in photos"):
        names("photos", ["other/0.jpg"])


def test_paths_take_little_more_memory_than_their_letters() -> None:
    tracemalloc.start()
    found = FileNames("photos")
    found.extend(f"photos/ants/{index:05}.jpg" for index in range(10_000))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 10_000
    assert used < 10_000 * 40
