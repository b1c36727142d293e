"""The logs of attempts: what is written of what programs print, how soon, and how much at most."""

import os
import time
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in, wait_until

from leaven.jobs import program_log, requests
from leaven.jobs.program_log import ProgramLog

FLOOD = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"the last line\\n"), os._exit(0)))
print("the first line", flush=True)
line = b"%0999d\\n" % 7
while True:
    os.write(1, 64 * line)
"""


def test_a_program_that_prints_without_end_never_exceeds_the_limit_and_first_and_last_lines_are_kept(
    tmp_path: Path,
) -> None:
    queue = Queue(settings_in(tmp_path / "jobs", log_limit=1_000_000))
    (id,) = queue.submit(order(FLOOD))
    queue.turn(lambda: "left out" in queue.log(id), "the limit")
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)
    text = queue.log(id)
    assert 500_000 < len(text) < 1_010_000
    assert text.startswith("the first line\n")
    assert text.endswith("the last line\n")
    assert "bytes were left out ...\n" in text
    queue.close()


def test_a_line_is_in_the_log_at_once(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    text = "import time\nfor _ in range(20): print(time.time(), flush=True); time.sleep(0.05)"
    (id,) = queue.submit(order(text))
    queue.turn(lambda: queue.store.attempts(id))
    log = queue.settings.attempts / queue.store.attempts(id)[0].id / "log"
    late, seen = [], 0
    deadline = time.time() + 60
    while seen < 20 and time.time() < deadline:
        lines = log.read_text().splitlines() if log.exists() else []
        late += [time.time() - float(line) for line in lines[seen:]]
        seen = len(lines)
        time.sleep(0.005)
    queue.finish(id)
    assert seen == 20
    assert sorted(late)[10] < 0.2
    queue.close()


def test_no_line_is_written_that_takes_the_room_of_the_store_and_it_comes_when_there_is_room(tmp_path: Path) -> None:
    drive = os.statvfs(tmp_path)
    log = ProgramLog(str(tmp_path / "attempts" / "x" / "log"), room=drive.f_bavail * drive.f_frsize * 2)
    file = tmp_path / "attempts" / "x" / "log"
    for number in range(100_000):
        log.add(b"line %d\n" % number)
    assert file.read_bytes() == b""
    log._room = 0
    log.keep()
    written = file.read_text()
    assert len(written) < 1_000_000
    assert "bytes were left out" in written
    assert written.endswith("line 99999\n")
    log.close()


def test_a_program_that_prints_little_is_followed_after_the_first_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(program_log.time, "monotonic", lambda: now)  # type: ignore[attr-defined]
    file = tmp_path / "attempts" / "x" / "log"
    log = ProgramLog(str(file), limit=20_000_000)
    log.add(b"x" * 9_999_999 + b"\n")
    for number in range(100):
        now += 60.0
        log.add(b"epoch %d\n" % number)
        assert file.read_bytes().endswith(b"epoch %d\n" % number)
    assert b"left out" not in file.read_bytes()
    log.close()


def test_it_never_becomes_larger_than_the_limit_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(program_log.time, "monotonic", lambda: now)  # type: ignore[attr-defined]
    file = tmp_path / "attempts" / "x" / "log"
    log = ProgramLog(str(file), limit=400_000)
    sizes = [0]
    for _ in range(2000):
        now += 600.0
        log.add(b"a line of forty bytes, or nearly as many\n" * 1000)
        before = file.read_bytes()[: sizes[-1]]
        sizes.append(file.stat().st_size)
        assert file.read_bytes()[:100] == before[:100] or not before
    log.close()
    assert sizes == sorted(sizes)
    assert 200_000 < file.stat().st_size <= 400_500


def test_a_log_that_was_removed_is_made_again(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    gate = tmp_path / "gate"
    text = f"print('one', flush=True)\nimport os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    (id,) = queue.submit(order(f"{text}\nprint('two')"))
    queue.turn(lambda: queue.log(id) == "one\n")
    for file in (queue.settings.attempts / queue.store.attempts(id)[0].id).iterdir():
        file.unlink()
    gate.touch()
    queue.finish(id)
    wait_until(lambda: queue.log(id) == "two\n")
    queue.close()
