"""Folders in object stores: what is fetched, and where it is written."""

from pathlib import Path

import fsspec

from leaven.jobs.object_store import folder_at


def test_a_folder_goes_there_and_back(tmp_path: Path) -> None:
    (tmp_path / "run" / "deep er").mkdir(parents=True)
    (tmp_path / "run" / "deep er" / "a#b%.txt").write_text("small")
    (tmp_path / "run" / "large").write_bytes(b"x" * 1_500_000)
    store = folder_at(f"file://{tmp_path}/bucket")
    store.put_folder(tmp_path / "run", "x-1/run")
    store.get_folder("x-1/run", tmp_path / "back")
    assert (tmp_path / "back" / "deep er" / "a#b%.txt").read_text() == "small"
    assert (tmp_path / "back" / "large").stat().st_size == 1_500_000


def test_names_that_lead_out_of_the_folder_are_not_fetched(tmp_path: Path) -> None:
    """In an object store, `..` is part of a name."""
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/leaven-test/run/good", b"good")
    memory.store["/leaven-test/run/../../evil"] = memory.store["/leaven-test/run/good"]
    folder_at("memory://leaven-test").get_folder("run", tmp_path / "a" / "b")
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["good"]


def test_a_file_that_is_removed_while_others_are_fetched_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "bucket" / "run").mkdir(parents=True)
    (tmp_path / "bucket" / "run" / "kept").write_text("kept")
    (tmp_path / "bucket" / "run" / "gone").symlink_to(tmp_path / "nothing")
    folder_at(f"file://{tmp_path}/bucket").get_folder("run", tmp_path / "back")
    assert [file.name for file in (tmp_path / "back").iterdir()] == ["kept"]
