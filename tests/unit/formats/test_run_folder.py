"""Which run is meant, and what writing a file leaves alone."""

import os
import threading
from pathlib import Path

import pytest

from leaven.files.atomic_files import write_text
from leaven.formats.run_folder import (
    BUNDLE,
    LOCK,
    is_smoke_test,
    new_folder,
    newest,
    only_in_smoke_test,
    wrong_name,
)


def made(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_the_newest_run_that_has_the_file_is_meant(tmp_path: Path) -> None:
    made(tmp_path / "2026-11-15_20-00-00", BUNDLE)
    second = made(tmp_path / "2026-11-15_20-00-00_2", BUNDLE)
    interrupted = made(tmp_path / "2026-11-16_08-00-00", "program.py")
    assert newest(tmp_path, BUNDLE) == second / BUNDLE
    assert newest(second, BUNDLE) == second / BUNDLE
    assert newest(interrupted, BUNDLE) is None


def test_a_file_is_no_run(tmp_path: Path) -> None:
    made(tmp_path / "run", BUNDLE)
    assert newest(tmp_path / "run" / BUNDLE, BUNDLE) is None
    assert newest(tmp_path / "nowhere", BUNDLE) is None


def test_a_folder_of_runs_never_means_a_smoke_test(tmp_path: Path) -> None:
    quick = made(tmp_path / "2026-11-16_08-00-00_quick", BUNDLE)
    assert newest(tmp_path, BUNDLE) is None
    assert newest(quick, BUNDLE) == quick / BUNDLE, "passed by itself, it is meant"
    headline, help = only_in_smoke_test(tmp_path, BUNDLE) or ("", "")
    assert headline == f"only smoke tests have a model.bundle in {tmp_path}"
    assert help.endswith(str(quick))
    real = made(tmp_path / "2026-11-15_20-00-00", BUNDLE)
    assert newest(tmp_path, BUNDLE) == real / BUNDLE
    assert only_in_smoke_test(tmp_path, BUNDLE) is None


def test_runs_with_a_name_are_as_old_as_they_are(tmp_path: Path) -> None:
    made(tmp_path / "2026-11-15_20-00-00", BUNDLE)
    named = made(tmp_path / "baseline", BUNDLE)
    (named / LOCK).write_text('{"started": "2026-11-15_21-00-00"}')
    assert newest(tmp_path, BUNDLE) == named / BUNDLE
    tenth = made(tmp_path / "2026-11-15_22-00-00_10", BUNDLE)
    made(tmp_path / "2026-11-15_22-00-00_9", BUNDLE)
    assert newest(tmp_path, BUNDLE) == tenth / BUNDLE


def test_a_name_is_given_once_but_to_smoke_tests(tmp_path: Path) -> None:
    assert new_folder(tmp_path, "baseline").name == "baseline"
    with pytest.raises(FileExistsError):
        new_folder(tmp_path, "baseline")
    names = [new_folder(tmp_path, "baseline", is_quick=True) for _ in range(2)]
    assert [folder.name for folder in names] == ["baseline_quick", "baseline_quick_2"]
    assert all(map(is_smoke_test, names))


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", ".hidden", "-x", "a b", "2026-11-15_20-00-00", "my_quick", "a\n", "x" * 101]
)
def test_what_cant_be_a_name_is_told(name: str) -> None:
    assert wrong_name(name)


@pytest.mark.parametrize("name", ["baseline", "lr-1e-3", "v1.2", "größer", "quick", "2", "a_quick_try"])
def test_other_names_are_taken_as_they_are(name: str, tmp_path: Path) -> None:
    assert wrong_name(name) is None
    assert new_folder(tmp_path, name).name == name
    assert not is_smoke_test(tmp_path / name)


def test_a_link_leads_to_the_same_file_afterwards(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_text(tmp_path / "link.csv", "new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="there are no such pipes there")
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert pipe.is_fifo()
