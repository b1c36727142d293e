"""The cache directory: found, filled whole, and never in the way."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from leaven.cache import disk_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_written_is_read_and_nothing_else_is_left(folder: Path) -> None:
    disk_cache.write_json("layers/answer.json", {"head": ["fc"]})
    assert disk_cache.read_json("layers/answer.json") == {"head": ["fc"]}
    assert [file.name for file in folder.rglob("*") if file.is_file()] == ["answer.json"]


def test_writing_again_replaces(folder: Path) -> None:
    disk_cache.write_json("value.json", 1)
    disk_cache.write_json("value.json", 2)
    assert disk_cache.read_json("value.json") == 2


@pytest.mark.parametrize("damage", [b"", b"{", b'{"head": ["f', b"\xff\xfe\x00", b"[" * 100_000, b"null", b"{}"])
def test_a_damaged_file_counts_as_absent(folder: Path, damage: bytes) -> None:
    folder.mkdir()
    (folder / "value.json").write_bytes(damage)
    assert disk_cache.read_json("value.json") is None


def test_a_file_that_was_changed_counts_as_absent(folder: Path) -> None:
    disk_cache.write_json("value.json", {"head": ["fc"], "stem": []})
    file = folder / "value.json"
    file.write_text(file.read_text().replace('"head"', '"hand"'))
    assert disk_cache.read_json("value.json") is None


def test_an_absent_file_reads_as_none(folder: Path) -> None:
    assert disk_cache.read_json("nothing.json") is None


@pytest.fixture
def temporary(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What takes the place of a cache that can't be written."""
    folder.write_text("a file where the directory should be")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp" / f"leaven-{os.geteuid()}"


def told(program: str) -> str:
    """What a process of its own prints about the disk_cache."""
    program = f"from leaven.cache import disk_cache; {program}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")
class TestWithoutACache:
    def test_a_temporary_folder_of_the_users_takes_its_place(self, folder: Path, temporary: Path) -> None:
        told("disk_cache.write_json('layers/answer.json', [1])")
        assert told("print(disk_cache.read_json('layers/answer.json'))") == "[1]"
        assert temporary.stat().st_mode & 0o777 == 0o700
        assert folder.is_file()

    def test_nothing_is_made_only_to_look(self, temporary: Path) -> None:
        assert told("print(disk_cache.read_json('layers/answer.json'))") == "None"
        assert not temporary.exists()

    @pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
    def test_a_folder_that_others_may_write_or_read_is_not_trusted(self, temporary: Path, mode: int) -> None:
        temporary.mkdir()
        (temporary / "value.json").write_text('"planted"')
        temporary.chmod(mode)
        assert told("print(disk_cache.read_json('value.json'))") == "None"
        told("disk_cache.write_json('value.json', 1)")
        assert (temporary / "value.json").read_text() == '"planted"'

    def test_a_link_is_not_trusted(self, temporary: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        temporary.symlink_to(tmp_path / "elsewhere")
        told("disk_cache.write_json('value.json', 1)")
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a folder away")
    def test_a_folder_of_somebody_else_is_not_trusted(self, temporary: Path) -> None:
        temporary.mkdir(mode=0o700)
        (temporary / "value.json").write_text('"planted"')
        os.chown(temporary, 12345, -1)
        assert told("print(disk_cache.read_json('value.json'))") == "None"

    def test_where_it_cant_be_trusted_the_folder_ends_with_the_process(self, temporary: Path) -> None:
        temporary.touch()
        made = told(
            "disk_cache.write_json('x', 1); print([*disk_cache.places('x')][-1].parent, disk_cache.read_json('x'))"
        )
        place, value = made.split()
        assert value == "1"
        assert Path(place).parent == temporary.parent
        assert not Path(place).exists()


def test_of_two_that_publish_the_second_takes_the_first_ones(folder: Path) -> None:
    first, second = disk_cache.staging_folder("index/key"), disk_cache.staging_folder("index/key")
    assert first is not None
    assert second is not None
    (first / "who").write_text("first")
    (second / "who").write_text("second")
    published = [disk_cache.publish(first, "index/key"), disk_cache.publish(second, "index/key")]
    assert [(place / "who").read_text() for place in published] == ["first", "first"]
    assert [entry.name for entry in (folder / "index").iterdir()] == ["key"]


def test_only_the_newest_folders_are_kept(folder: Path) -> None:
    for age in range(5):
        (folder / f"{age}").mkdir(parents=True)
        os.utime(folder / f"{age}", (1e9 - age, 1e9 - age))
    disk_cache.keep_newest(folder, 2)
    assert sorted(entry.name for entry in folder.iterdir()) == ["0", "1"]


@pytest.mark.skipif(os.name == "nt", reason="links are another matter there")
@pytest.mark.parametrize("target", ["nowhere", "key"], ids=["dangling", "looping"])
def test_a_link_that_leads_nowhere_can_be_removed(folder: Path, target: str) -> None:
    folder.mkdir()
    (folder / "key").symlink_to(target)
    disk_cache.remove(folder / "key")
    assert list(folder.iterdir()) == []


def test_a_folder_in_the_making_is_none_that_is_kept_and_goes_once_it_is_old(folder: Path) -> None:
    old, young = disk_cache.staging_folder("index/key"), disk_cache.staging_folder("index/key")
    assert old is not None
    assert young is not None
    os.utime(old, (1e9, 1e9))
    (folder / "index" / "kept").mkdir()
    os.utime(folder / "index" / "kept", (2e9, 1e9))
    disk_cache.keep_newest(folder / "index", 1)
    assert sorted(entry.name for entry in (folder / "index").iterdir()) == sorted([young.name, "kept"])


@pytest.mark.parametrize("chosen", ["~nobody-has-this-name/cache", f"{os.devnull}/x"])
def test_a_cache_that_cant_be_is_no_trouble(chosen: str, tmp_path: Path) -> None:
    program = "from leaven.cache import disk_cache; disk_cache.write_json('x', 1); print(disk_cache.read_json('x'))"
    environment = {**os.environ, "LEAVEN_CACHE": chosen, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")
