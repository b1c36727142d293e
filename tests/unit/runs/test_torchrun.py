"""Programs in several processes: how it is said that a rank has failed, was killed, or was asked to stop."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

# waits for ever, but for what a rank is told to do
RANK = """
import json, os, signal, sys, time
rank, place = int(os.environ["RANK"]), sys.argv[1]
def tell(outcome, reason):
    name = os.environ["LEAVEN_OUTCOME"] + (f".{rank}" if rank else "")
    open(name, "w").write(json.dumps({"outcome": outcome, "reason": reason}))
if sys.argv[2] == "saves":
    signal.signal(signal.SIGTERM, lambda *_: (tell("stopped", ""), os._exit(130)))
open(f"{place}/begun{rank}", "w").close()
while not all(os.path.exists(f"{place}/begun{each}") for each in (0, 1)):
    time.sleep(0.01)
if rank == 1 and sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 1 and sys.argv[2] == "fails":
    tell("failed", "no such file: cat.jpg")
    sys.exit(1)
if sys.argv[2] == "fails":
    time.sleep(0.2)
    tell("failed", "RuntimeError: Connection closed by peer")
    sys.exit(1)
time.sleep(60)
"""


def start(folder: Path, what: str) -> "subprocess.Popen[str]":
    (folder / "program.py").write_text(RANK)
    words = [sys.executable, "-m", "leaven.runs.torchrun", "--standalone", "--nproc-per-node=2"]
    return subprocess.Popen(
        [*words, str(folder / "program.py"), str(folder), what],
        env={**os.environ, "LEAVEN_OUTCOME": str(folder / "told.json")},
        stderr=subprocess.PIPE,
        text=True,
    )


def told(folder: Path) -> dict[str, object] | None:
    file = folder / "told.json"
    return json.loads(file.read_text()) if file.exists() else None


@pytest.mark.slow
def test_a_rank_that_is_killed_is_named(tmp_path: Path) -> None:
    running = start(tmp_path, "killed")
    _, printed = running.communicate(timeout=120)
    reason = f"rank 1 was ended by SIGKILL on {socket.gethostname()}"
    assert (running.returncode, told(tmp_path)) == (1, {"outcome": "failed", "reason": reason, "is_killed": True})
    assert printed.endswith(f"error: {reason}\n")
    assert "Traceback" not in printed


@pytest.mark.slow
def test_of_ranks_that_fail_the_first_one_counts(tmp_path: Path) -> None:
    running = start(tmp_path, "fails")
    _, printed = running.communicate(timeout=120)
    assert told(tmp_path) == {"outcome": "failed", "reason": "rank 1: no such file: cat.jpg", "is_killed": False}
    assert "Traceback" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("what", ["saves", "starts"])
def test_a_signal_is_a_stop_also_while_ranks_start(tmp_path: Path, what: str) -> None:
    running = start(tmp_path, what)
    if what == "saves":
        until = time.monotonic() + 60
        while not all((tmp_path / f"begun{rank}").exists() for rank in (0, 1)):
            assert time.monotonic() < until
            time.sleep(0.02)
    else:
        time.sleep(1.5)  # wherever that is: importing torch, meeting, starting
    running.send_signal(signal.SIGTERM)
    _, printed = running.communicate(timeout=60)
    assert running.returncode in (130, -signal.SIGTERM, 128 + signal.SIGTERM)
    assert told(tmp_path) in (None, {"outcome": "stopped", "reason": ""})
    assert "Traceback" not in printed
