"""The store: an entry is right or absent, whatever happens to its file, its writer or its disk."""

import errno
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leaven.cache.store import Store, StoreError, StoreFull, default_store, key_of

KEY = key_of(model="resnet18", data="digits")
ABOUT = {"model": "resnet18", "shape": [3, 4]}
on_posix = pytest.mark.skipif(os.name == "nt", reason="files are another matter there")


def a_store(folder: Path, limit: int = 10**9) -> Store:
    """A store as another process sees it: it has opened nothing."""
    return Store(folder, limit)


def content(key: str, size: int = 1000) -> bytes:
    return random.Random(key).randbytes(size)


def write(store: Store, name: str, size: int = 1000, used: float | None = None) -> str:
    """Write an entry, in a process that then ends; returns its key."""
    key = key_of(name=name)
    a_store(store.folder, store.limit).write(key, {"name": name}, [content(key, size)])
    if used is not None:
        os.utime(store.folder / f"{key}.entry", (used, used))
    return key


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def size_of(store: Store) -> int:
    return sum(file.stat().st_size for file in store.folder.iterdir())


class TestAnEntry:
    def test_what_was_written_is_read(self, tmp_path: Path) -> None:
        written = a_store(tmp_path / "new" / "store").write(KEY, ABOUT, [b"one", memoryview(b"two"), b""])
        read = a_store(tmp_path / "new" / "store").open(KEY)
        assert read is not None
        for entry in (written, read):
            assert (entry.key, entry.about, bytes(entry.data)) == (KEY, ABOUT, b"onetwo")

    def test_one_without_data_is_one_too(self, tmp_path: Path) -> None:
        a_store(tmp_path).write(KEY, {}, [])
        read = a_store(tmp_path).open(KEY)
        assert read is not None
        assert len(read.data) == 0

    def test_its_data_is_aligned_and_cant_be_changed(self, tmp_path: Path) -> None:
        import numpy as np

        for length in range(60, 70):
            entry = a_store(tmp_path).write(KEY, {"text": "ä" * length}, [bytes(256)])
            assert np.frombuffer(entry.data, np.float32).ctypes.data % 64 == 0
            with pytest.raises(TypeError):
                entry.data[0] = 1

    def test_numbers_are_written_as_they_are_in_memory(self, tmp_path: Path) -> None:
        import numpy as np

        features = np.arange(12, dtype=np.float32).reshape(3, 4)
        entry = a_store(tmp_path).write(KEY, ABOUT, [features.data])
        assert np.array_equal(np.frombuffer(entry.data, np.float32).reshape(3, 4), features)

    def test_forgotten_pages_are_read_again(self, tmp_path: Path) -> None:
        entry = a_store(tmp_path).write(KEY, ABOUT, [content(KEY, 100_000)])
        entry.forget_pages()
        assert bytes(entry.data) == content(KEY, 100_000)

    @pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
    def test_forgotten_pages_take_no_memory(self, tmp_path: Path) -> None:
        entry = a_store(tmp_path).write(KEY, ABOUT, [content(KEY, 1 << 22)])
        bytes(entry.data)
        before = resident(f"{KEY}.entry")
        entry.forget_pages()
        assert (before >= 1 << 22, resident(f"{KEY}.entry")) == (True, 0)

    def test_is_verified_only_the_first_time(self, tmp_path: Path) -> None:
        store = a_store(tmp_path)
        assert store.open(KEY) is None
        entry = store.write(KEY, ABOUT, [b"x"])
        assert store.open(KEY) is entry

    @on_posix
    def test_stays_readable_when_another_process_removes_it(self, tmp_path: Path) -> None:
        store = a_store(tmp_path)
        entry = store.write(KEY, ABOUT, [b"kept"])
        a_store(tmp_path).clear()
        assert bytes(entry.data) == b"kept"
        assert store.open(KEY) is entry

    @on_posix
    def test_more_can_be_open_than_a_process_may_have_open_files_at_first(self, tmp_path: Path) -> None:
        program = """
import resource, sys; from pathlib import Path; from leaven.cache.store import Store, key_of
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
store = Store(Path(sys.argv[1]), 10**9)
entries = [store.write(key_of(number=number), {}, [b"%d" % number]) for number in range(100)]
print(sum(int(bytes(entry.data)) for entry in entries))
"""
        assert output(program, tmp_path) == "4950"

    @pytest.mark.parametrize("key", ["", "../../x", "ABCDEF0123456789", "0123", "0123456789abcdef/"])
    def test_a_key_is_a_digest(self, tmp_path: Path, key: str) -> None:
        with pytest.raises(ValueError, match="is not a key"):
            a_store(tmp_path).open(key)


def resident(name: str) -> int:
    """How many bytes of a mapped file are in this process's memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    return sum(
        int(next(line for line in lines if line.startswith("Rss")).split()[1]) << 10 for at in lines if name in at
    )


def output(program: str, *arguments: object) -> str:
    """What a process of its own prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_key_depends_on_every_fact_and_not_on_their_order() -> None:
    assert key_of(a=1, b=[2, "x"]) == key_of(b=[2, "x"], a=1)
    different = [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"b": 1}, {"a": [1]}, {"a": None}, {"a": 1, "b": None}]
    assert len({key_of(**facts) for facts in different}) == len(different)
    with pytest.raises(TypeError):
        key_of(a=object())  # whose text would depend on the process


class TestDamage:
    def test_a_changed_byte_anywhere_is_found(self, tmp_path: Path) -> None:
        store = a_store(tmp_path)
        write(store, "x", 150)
        (file,) = tmp_path.iterdir()
        whole = file.read_bytes()
        for at in range(len(whole)):
            self.is_found(file, whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])

    def test_missing_and_added_bytes_are_found(self, tmp_path: Path) -> None:
        write(a_store(tmp_path), "x", 150)
        (file,) = tmp_path.iterdir()
        whole = file.read_bytes()
        for damaged in [*(whole[:length] for length in range(len(whole))), whole + b"\0", whole + whole, b"\0" * 500]:
            self.is_found(file, damaged)

    def test_an_entry_under_another_key_is_found(self, tmp_path: Path) -> None:
        write(a_store(tmp_path), "x")
        (file,) = tmp_path.iterdir()
        self.is_found(file.rename(tmp_path / f"{key_of(name='y')}.entry"), file.read_bytes() if file.exists() else None)

    def is_found(self, file: Path, damaged: bytes | None) -> None:
        """A damaged entry is absent, and removed: by one who opens it, and by `verify`."""
        key = file.name.removesuffix(".entry")
        damaged = file.read_bytes() if damaged is None else damaged
        file.write_bytes(damaged)
        assert len(a_store(file.parent).entries()) == 1
        assert a_store(file.parent).open(key) is None
        assert not file.exists()
        file.write_bytes(damaged)
        assert a_store(file.parent).verify() == (0, [key])
        assert not file.exists()

    def test_a_removed_one_is_made_again(self, tmp_path: Path) -> None:
        key = write(a_store(tmp_path), "x")
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:-1])
        assert a_store(tmp_path).open(key) is None
        write(a_store(tmp_path), "x")
        assert a_store(tmp_path).verify() == (1, [])


class TestTheLimit:
    def test_the_least_recently_used_go_first(self, tmp_path: Path) -> None:
        store = a_store(tmp_path, 3500)
        keys = [write(store, name, used=1e9 + at) for at, name in enumerate("abc")]
        assert a_store(tmp_path).open(keys[0]) is not None  # which makes it the most recent
        write(store, "d")
        assert [a_store(tmp_path).open(key) is not None for key in keys] == [True, False, True]
        assert size_of(store) <= store.limit

    def test_no_more_go_than_must(self, tmp_path: Path) -> None:
        store = a_store(tmp_path, 10_000)
        for at, name in enumerate("abcdef"):
            write(store, name, used=1e9 + at)
        write(store, "big", 5000)
        assert [entry.about for entry in store.entries()] == [{"name": name} for name in ("big", "f", "e", "d", "c")]

    def test_what_this_process_uses_stays(self, tmp_path: Path) -> None:
        opened, other = (write(a_store(tmp_path), name) for name in ("opened", "other"))
        written = key_of(name="written")
        store = a_store(tmp_path, 3500)
        store.open(opened)
        store.write(written, {}, [content(written)])
        for key in (opened, written):
            os.utime(tmp_path / f"{key}.entry", (1e9, 1e9))
        with pytest.raises(StoreFull) as full:
            store.write(KEY, {}, [content(KEY, 3000)])
        assert full.value.needed > full.value.limit == store.limit
        assert {entry.key for entry in store.entries()} == {opened, written, other}
        store.write(KEY, {}, [content(KEY, 800)])
        assert {entry.key for entry in store.entries()} == {opened, written, KEY}
        assert size_of(store) <= store.limit

    def test_what_does_not_fit_is_not_computed_to_its_end(self, tmp_path: Path) -> None:
        computed = []
        parts = (computed.append(at) or bytes(1000) for at in range(1000))
        with pytest.raises(StoreFull, match=r"may have 10 kB.*LEAVEN_STORE_LIMIT"):
            a_store(tmp_path, 10_000).write(KEY, {}, parts)
        assert len(computed) == 11
        assert names(tmp_path) == []

    def test_writing_the_same_again_needs_no_more_room(self, tmp_path: Path) -> None:
        store = a_store(tmp_path, 3500)
        keys = [write(store, name) for name in "abb"]
        assert store.verify() == (2, [])
        assert [store.open(key) is not None for key in keys] == [True, True, True]

    def test_room_is_what_can_be_written(self, tmp_path: Path) -> None:
        store = a_store(tmp_path / "store", 5000)
        assert store.room() == 5000
        write(store, "other")
        assert store.room() == 5000
        used = store.write(KEY, {}, [content(KEY)])
        assert store.room() == 5000 - 1000 - len(used.data.obj) + 1000
        store.write(key_of(name="all"), {}, [bytes(store.room() - 128)])
        assert size_of(store) <= store.limit

    def test_the_default_is_part_of_the_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("LEAVEN_STORE_LIMIT", raising=False)
        store = default_store()
        assert store.folder == tmp_path / "cache" / "store"
        assert 0 < store.limit <= 50 * 10**9
        assert default_store() is store
        monkeypatch.setenv("LEAVEN_STORE_LIMIT", "2 GB")
        assert default_store().limit == 2 * 10**9

    def test_a_limit_that_is_not_a_size_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEAVEN_STORE_LIMIT", "lots")
        with pytest.raises(StoreError, match=r"LEAVEN_STORE_LIMIT is `lots`.*LEAVEN_STORE_LIMIT=20GB"):
            default_store()


WRITER = """
import sys; from pathlib import Path; from leaven.cache.store import Store, key_of
folder, key, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def parts():
    for number in range(200):
        yield (b"%04d" % number) * 1000
store = Store(folder, 10**9)
print("ready", flush=True)
for round in range(count):
    store.write(key, {"writer": sys.argv[4]}, parts())
"""
KILLED = """
import os, signal, sys; from pathlib import Path; from leaven.cache.store import Store
folder, key = Path(sys.argv[1]), sys.argv[2]
data = [b"one" * 10_000, b"two" * 10_000]

def write_until(line):
    def trace(frame, event, argument):
        nonlocal line
        if event == "call" and "/leaven/" not in frame.f_code.co_filename:
            return None
        line -= event == "line"
        if not line:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    Store(folder, 10**9).write(key, {}, data)

for line in range(1, 1000):
    child = os.fork()
    if not child:
        write_until(line)
        os._exit(0)
    was_killed = os.waitpid(child, 0)[1] != 0
    entry = Store(folder, 10**9).open(key)
    print("absent" if entry is None else "right" if bytes(entry.data) == b"".join(data) else "wrong")
    for file in folder.iterdir():
        file.unlink()
    if not was_killed:
        break
"""
WRITTEN = b"".join((b"%04d" % number) * 1000 for number in range(200))


def writer(folder: Path, count: int, name: str = "") -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", WRITER, str(folder), KEY, str(count), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


class TestOtherProcesses:
    def test_two_that_write_the_same_key_are_both_fine(self, tmp_path: Path) -> None:
        writers = [writer(tmp_path, 20, name) for name in "ab"]
        seen = 0
        while any(process.poll() is None for process in writers):
            entry = a_store(tmp_path).open(KEY)
            if entry is not None:
                assert bytes(entry.data) == WRITTEN
                seen += 1
        assert [process.wait() for process in writers] == [0, 0]
        assert seen
        assert names(tmp_path) == [f"{KEY}.entry"]

    @on_posix
    def test_one_that_is_killed_at_any_line_leaves_nothing_wrong(self, tmp_path: Path) -> None:
        found = output(KILLED, tmp_path, KEY).split()
        assert len(found) > 50
        assert set(found) == {"absent", "right"}

    def test_what_a_killed_writer_left_goes_after_an_hour(self, tmp_path: Path) -> None:
        old, new = (tmp_path / f".{KEY}.entry.{pid}-00c0ffee" for pid in (1, 2))
        for file in (old, new):
            file.write_bytes(bytes(100))
        os.utime(old, (time.time() - 3700, time.time() - 3700))
        write(a_store(tmp_path), "x")
        assert (old.exists(), new.exists()) == (False, True)
        assert len(a_store(tmp_path).entries()) == 1


@on_posix
class TestAFolderThatCantBeWritten:
    def test_a_full_disk_is_an_error_and_leaves_nothing(self, tmp_path: Path) -> None:
        program = """
import resource, sys; from pathlib import Path; from leaven.cache.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store = Store(Path(sys.argv[1]), 10**9)
for sizes in ([50_000, 60_000], [200_000], [1000] * 200):
    try:
        store.write(sys.argv[2], {}, (bytes(size) for size in sizes))
    except OSError as problem:
        print(problem.errno)
"""
        key = write(a_store(tmp_path), "before")
        assert output(program, tmp_path, KEY).split() == [str(errno.EFBIG)] * 3
        assert names(tmp_path) == [f"{key}.entry"]

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
    def test_an_entry_is_never_a_device(self, tmp_path: Path) -> None:
        (tmp_path / f"{KEY}.entry").symlink_to("/dev/full")
        assert a_store(tmp_path).open(KEY) is None

    def test_a_file_where_the_folder_should_be_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "store").write_text("a file")
        store = a_store(tmp_path / "store")
        assert (store.open(KEY), store.entries(), store.verify(), store.clear()) == (None, [], (0, []), 0)
        with pytest.raises(OSError, match="exists"):
            store.write(KEY, {}, [b"x"])

    def test_a_cache_that_cant_be_is_an_error_only_when_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEAVEN_CACHE", f"{os.devnull}/x")
        store = default_store()
        assert (store.open(KEY), store.entries()) == (None, [])
        with pytest.raises(OSError, match="directory"):
            store.write(KEY, {}, [b"x"])

    def test_a_read_only_folder_can_be_read(self, tmp_path: Path) -> None:
        key = write(a_store(tmp_path), "x")
        tmp_path.chmod(0o555)
        program = """
import os, resource, sys; from pathlib import Path; from leaven.cache.store import Store
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)  # root may write anywhere
store = Store(Path("."), 10**9)
print(len(store.open(sys.argv[2]).data), store.verify())
try:
    store.write(sys.argv[3], {}, [b"x"])
except PermissionError:
    print("read-only", store.clear())
"""
        try:
            assert output(program, tmp_path, key, KEY).split("\n") == ["1000 (1, [])", "read-only 0"]
        finally:
            tmp_path.chmod(0o755)
        assert names(tmp_path) == [f"{key}.entry"]

    def test_an_error_while_computing_leaves_nothing(self, tmp_path: Path) -> None:
        def parts():  # type: ignore[no-untyped-def]
            yield bytes(1000)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            a_store(tmp_path).write(KEY, {}, parts())
        assert names(tmp_path) == []


class TestTheFolder:
    def test_entries_are_listed_by_their_last_use(self, tmp_path: Path) -> None:
        store = a_store(tmp_path)
        keys = [write(store, name, used=1e9 + at) for at, name in enumerate("abc")]
        assert [(entry.key, entry.about, entry.last_use) for entry in store.entries()] == [
            (keys[2], {"name": "c"}, 1e9 + 2),
            (keys[1], {"name": "b"}, 1e9 + 1),
            (keys[0], {"name": "a"}, 1e9),
        ]
        assert sum(entry.bytes for entry in store.entries()) == size_of(store)

    def test_clear_removes_all_or_some_and_tells_how_much(self, tmp_path: Path) -> None:
        store = a_store(tmp_path)
        keys = [write(store, name, used=time.time() - at * 1000) for at, name in enumerate("abcd")]
        size = size_of(store) // 4
        assert store.clear(unused_for=2500) == size
        assert store.clear([keys[1], keys[3], "nothing"]) == size
        assert {entry.key for entry in store.entries()} == {keys[0], keys[2]}
        assert store.clear() == 2 * size
        assert names(tmp_path) == []

    def test_what_is_cleared_is_absent_for_this_process_too(self, tmp_path: Path) -> None:
        store = a_store(tmp_path)
        store.write(KEY, {}, [b"x"])
        store.clear()
        assert store.open(KEY) is None

    @on_posix
    def test_what_is_not_an_entry_is_left_alone(self, tmp_path: Path) -> None:
        store = a_store(tmp_path / "store")
        key = write(store, "x")
        foreign = [key_of(name=name) for name in ("folder", "link", "dangling", "pipe")]
        (store.folder / f"{foreign[0]}.entry").mkdir()
        (tmp_path / "precious.txt").write_text("precious")
        (store.folder / f"{foreign[1]}.entry").symlink_to(tmp_path / "precious.txt")
        (store.folder / f"{foreign[2]}.entry").symlink_to("nowhere")
        os.mkfifo(store.folder / f"{foreign[3]}.entry")
        (store.folder / "README.txt").write_text("hello")
        (store.folder / ".hidden.entry.1-00000000").write_text("hello")
        assert [entry.key for entry in store.entries()] == [key]
        assert store.verify() == (1, [])
        assert [store.open(other) for other in foreign] == [None] * 4
        store.clear()
        assert len(names(store.folder)) == 6
        with pytest.raises(OSError, match="directory"):
            store.write(foreign[0], {}, [b"x"])
        store.write(foreign[1], {}, [b"x"])
        assert (tmp_path / "precious.txt").read_text() == "precious"
        assert len(names(store.folder)) == 6

    @pytest.mark.parametrize("header", [b"[" * 100_000, b"null", b"{}", b'{"key": 1, "about": []}', b"\xff\xfe"])
    def test_strange_headers_are_listed_without_a_description(self, tmp_path: Path, header: bytes) -> None:
        size = -(-(24 + len(header)) // 64) * 64
        start = b"leaven 1" + bytes(4) + size.to_bytes(4, "little") + bytes(8)
        (tmp_path / f"{KEY}.entry").write_bytes((start + header).ljust(size))
        assert [entry.about for entry in a_store(tmp_path).entries()] == [None]
        assert a_store(tmp_path).verify() == (0, [KEY])

    def test_descriptions_are_any_json(self, tmp_path: Path) -> None:
        about = {"model": "größer ✓", "shape": [1, 2], "versions": {"torch": "2.15"}, "exact": True, "note": None}
        a_store(tmp_path).write(KEY, about, [b"x"])
        (entry,) = a_store(tmp_path).entries()
        assert json.dumps(entry.about) == json.dumps(about)
