"""Which run is meant."""

from pathlib import Path

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
