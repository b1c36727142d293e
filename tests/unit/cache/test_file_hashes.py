"""Hashes of files: always those of their content now, and read only if they have changed."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leaven.cache import location
from leaven.cache.file_hashes import FileHashes, hashes_in

on_posix = pytest.mark.skipif(os.name == "nt", reason="there is no time of change there")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once, as after two seconds."""
    monkeypatch.setattr(location, "_RACY_NANOSECONDS", 0)


def images(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.jpg").write_bytes(b"image %d" % number)
    return [folder / f"{number}.jpg" for number in range(count)]


def expected(files: list[Path]) -> list[bytes]:
    return [hashlib.sha256(file.read_bytes()).digest()[:16] for file in files]


def test_a_hash_is_that_of_the_content(tmp_path: Path) -> None:
    files = images(tmp_path / "data", 3)
    files[1].write_bytes(b"")
    files[2].write_bytes(os.urandom(1_000_000))
    assert FileHashes(tmp_path / "table").of(files) == expected(files)


@pytest.mark.usefixtures("settled")
class TestTheTable:
    def test_unchanged_files_are_not_read_again(self, tmp_path: Path) -> None:
        files = images(tmp_path / "data", 5000)  # which makes the table grow
        hashes = FileHashes(tmp_path / "table")
        assert hashes.of(files) == expected(files)
        assert hashes.of(reversed(files)) == expected(files)[::-1]
        assert hashes.files_read == 5000
        again = FileHashes(tmp_path / "table")
        assert (again.of(map(str, files)), again.files_read) == (expected(files), 0)

    def test_it_is_small_and_loads_at_once(self, tmp_path: Path) -> None:
        FileHashes(tmp_path / "table").of(images(tmp_path / "data", 5000))
        assert (tmp_path / "table").stat().st_size < 100 * 5000

    @on_posix
    def test_a_changed_byte_is_noticed_though_the_times_were_set_back(self, tmp_path: Path) -> None:
        files = images(tmp_path / "data", 20)
        FileHashes(tmp_path / "table").of(files)
        before = files[7].stat()
        after = before
        while after.st_ctime_ns == before.st_ctime_ns:  # the clock of files ticks every few milliseconds
            files[7].write_bytes(b"imagE 7")
            os.utime(files[7], ns=(before.st_atime_ns, before.st_mtime_ns))
            after = files[7].stat()
        assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
        again = FileHashes(tmp_path / "table")
        assert (again.of(files), again.files_read) == (expected(files), 1)

    def test_a_file_that_another_replaces_is_noticed(self, tmp_path: Path) -> None:
        files = images(tmp_path / "data", 20)
        FileHashes(tmp_path / "table").of(files)
        os.replace(files[3], files[4])
        del files[3]
        again = FileHashes(tmp_path / "table")
        assert (again.of(files), again.files_read) == (expected(files), 1)

    def test_a_touched_file_has_the_same_hash(self, tmp_path: Path) -> None:
        files = images(tmp_path / "data", 20)
        first = FileHashes(tmp_path / "table").of(files)
        os.utime(files[0], (1e9, 1e9))
        again = FileHashes(tmp_path / "table")
        assert again.of(files) == first
        again.save()
        third = FileHashes(tmp_path / "table")
        assert (third.of(files), again.files_read, third.files_read) == (first, 1, 0)

    def test_it_is_saved_now_and_then_and_at_the_end(self, tmp_path: Path) -> None:
        files = images(tmp_path / "data", 1000)
        hashes = FileHashes(tmp_path / "table")
        for at in range(0, 1000, 10):
            hashes.of(files[at : at + 10])
        interrupted = FileHashes(tmp_path / "table")
        interrupted.of(files)
        assert 0 < interrupted.files_read < 400
        hashes.save()
        ended = FileHashes(tmp_path / "table")
        ended.of(files)
        assert ended.files_read == 0

    def test_a_damaged_table_is_made_again(self, tmp_path: Path) -> None:
        files = images(tmp_path / "data", 20)
        table = tmp_path / "table"
        FileHashes(table).of(files)
        whole = table.read_bytes()
        flipped = (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 97))
        for damaged in (b"", b"x", whole[:24], whole[:-1], whole[:-48], whole + bytes(48), *flipped):
            table.write_bytes(damaged)
            hashes = FileHashes(table)
            assert (hashes.of(files), hashes.files_read) == (expected(files), 20)

    @on_posix
    def test_strange_paths_are_files_too(self, tmp_path: Path) -> None:
        names = ["a b", "größer", "\udcff.jpg", "new\nline", "x" * 200]
        files = [tmp_path / name for name in names]
        for number, file in enumerate(files):
            file.write_bytes(b"%d" % number)
        (tmp_path / "link").symlink_to(files[0])
        os.link(files[1], tmp_path / "hard")
        files += [tmp_path / "link", tmp_path / "hard"]
        for read in (7, 0):
            hashes = FileHashes(tmp_path / "table")
            assert (hashes.of(files), hashes.files_read) == (expected(files), read)

    def test_the_cache_keeps_the_tables_of_some_folders(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
        for number in range(25):
            hashes_in(tmp_path / str(number)).of(images(tmp_path / str(number), 1))
        assert len(list((tmp_path / "cache" / "hashes").iterdir())) == 20
        last = hashes_in(tmp_path / "24")
        last.of([tmp_path / "24" / "0.jpg"])
        assert last.files_read == 0


def test_a_file_that_was_just_changed_is_read_again(tmp_path: Path) -> None:
    """Another change could leave it with the same times."""
    files = images(tmp_path / "data", 10)
    for _ in range(2):
        hashes = FileHashes(tmp_path / "table")
        assert (hashes.of(files), hashes.files_read) == (expected(files), 10)


@pytest.mark.usefixtures("settled")
def test_without_a_cache_files_are_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where the directory should be")
    files = images(tmp_path / "data", 3)
    for _ in range(2):
        hashes = FileHashes(tmp_path / "file" / "table")
        assert (hashes.of(files), hashes.files_read) == (expected(files), 3)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.jpg"):
        FileHashes(tmp_path / "table").of([tmp_path / "gone.jpg"])


@pytest.mark.usefixtures("settled")
def test_two_processes_may_save_at_once(tmp_path: Path) -> None:
    files = images(tmp_path / "data", 200)
    program = """
import sys; from pathlib import Path; from leaven.cache import file_hashes, location
location._RACY_NANOSECONDS = 0
for number in range(50):
    hashes = file_hashes.FileHashes(Path(sys.argv[1]))
    hashes.of(sys.argv[2:][number:])
    hashes.save()
"""
    command = [sys.executable, "-c", program, str(tmp_path / "table"), *map(str, files)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    hashes = FileHashes(tmp_path / "table")
    assert (hashes.of(files), hashes.files_read) == (expected(files), 0)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data", "table"]
