"""Which run is meant, and what writing a file leaves alone."""

import os
import threading
from pathlib import Path

import pytest

from leaven.formats.atomic_files import write_text
from leaven.formats.run_folder import BUNDLE, newest


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


def test_quick_runs_come_after_all_others(tmp_path: Path) -> None:
    real = made(tmp_path / "2026-11-15_20-00-00", BUNDLE)
    quick = made(tmp_path / "2026-11-16_08-00-00_quick", BUNDLE)
    assert newest(tmp_path, BUNDLE) == real / BUNDLE
    assert newest(quick, BUNDLE) == quick / BUNDLE


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
