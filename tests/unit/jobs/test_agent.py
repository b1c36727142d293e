"""The agent: what it does on several nodes, with an object store, and when it is left alone."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import wait_until
from tests.unit.jobs.test_reconcile import SAVES

from leaven.jobs.agent import Carrier
from leaven.jobs.environments.environment import Position, Task
from leaven.jobs.environments.launching import agent_command, command_of, with_addresses
from leaven.jobs.environments.places import place_of
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry, Outcome


def task(folder: Path, text: str, **resources: int) -> Task:
    run = folder / "run"
    run.mkdir(parents=True)
    (run / "program.py").write_text(text)
    attempt = f"x-{os.urandom(4).hex()}"  # the machine knows attempts by it
    return Task(attempt, folder / "attempts" / attempt, run, run, Entry.PLAIN, (), Resources(**resources))


def start(words: list[str], **variables: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, env={**os.environ, **variables})


def outcome(folder: Path) -> str:
    return str(json.loads((folder / "outcome.json").read_text())["outcome"])


def test_each_node_has_a_folder_and_all_are_asked_to_stop(tmp_path: Path) -> None:
    found = task(tmp_path, SAVES, nodes=2)
    place = place_of({"grace": 10}, tmp_path / "attempts", sys.executable)
    words = agent_command(sys.executable, place.send(found))
    agents = [start(words, LEAVEN_NODE=str(node)) for node in (0, 1)]
    logs = [found.folder / "log", found.folder / "node-1" / "log"]
    wait_until(lambda: all(log.exists() and "begun" in log.read_text() for log in logs), "both to begin")
    place.stop(found.attempt, 10.0)
    assert [agent.wait(30) for agent in agents] == [1, 1]
    assert [log.read_text() for log in logs] == ["begun\nsaved\n"] * 2
    assert [outcome(log.parent) for log in logs] == ["stopped", "stopped"]


def test_one_that_was_asked_to_stop_before_it_began_does_not_begin(tmp_path: Path) -> None:
    found = task(tmp_path, SAVES)
    place = place_of({"store": f"file://{tmp_path}/bucket", "scratch": str(tmp_path / "s")}, tmp_path / "attempts", "")
    words = agent_command(sys.executable, place.send(found))
    place.stop(found.attempt, 10.0)
    assert start(words).wait(30) == 1
    status = place.outcome(found.attempt)
    assert status is not None
    assert (status.outcome, status.reason) == ("stopped", "stopped before it began")
    assert place.log(found.attempt, Position(), 1000)[0] == b""


def test_an_agent_whose_parent_is_gone_lets_its_program_save(tmp_path: Path) -> None:
    """Ray leaves agents behind when it loses a node."""
    found = task(tmp_path, SAVES)
    place = place_of({"grace": 10}, tmp_path / "attempts", sys.executable)
    words = agent_command(sys.executable, place.send(found))
    parent = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({words!r})"])
    wait_until(lambda: (found.folder / "log").exists() and "begun" in (found.folder / "log").read_text(), "it to begin")
    parent.send_signal(signal.SIGKILL)
    parent.wait(30)
    wait_until(lambda: (found.folder / "outcome.json").exists(), "it to end")
    assert outcome(found.folder) == "stopped"
    assert (found.folder / "log").read_text() == "begun\nsaved\n"


def test_nodes_are_named_by_addresses_that_are_known_where_they_run(tmp_path: Path) -> None:
    found = Task("x-1", tmp_path, tmp_path, tmp_path, Entry.PROGRAM, (), Resources(nodes=2, processes=4))
    words = command_of(found, "python")
    assert words[:4] == ["python", "-m", "leaven.runs.torchrun", "--nnodes=2"]
    assert "--nproc-per-node=4" in words
    (endpoint,) = [word for word in words if word.startswith("--rdzv-endpoint=@first-node:")]
    assert 20_000 <= int(endpoint.rpartition(":")[2]) < 40_000
    assert "--local-addr=@this-node" in words
    assert "--rdzv-conf=join_timeout=3600,read_timeout=3600" in words


def test_only_options_of_torchrun_are_given_addresses() -> None:
    run = Path("/runs/@first-node @this-node")
    found = Task("x-1", run, run, run, Entry.PROGRAM, ("--note=@this-node",), Resources(nodes=2))
    words = with_addresses(command_of(found, "python"), "10.0.0.1", "10.0.0.2")
    assert [word for word in words if "10.0.0" in word] == [
        next(word for word in words if word.startswith("--rdzv-endpoint=10.0.0.1:")),
        "--local-addr=10.0.0.2",
    ]
    assert words[-3:] == ["--resume", str(run), "--note=@this-node"]


def test_an_agent_that_can_not_send_gives_up(tmp_path: Path) -> None:
    """Access to an object store may expire, and a rented machine costs something as long as it waits."""
    found = task(tmp_path, SAVES)
    bucket = tmp_path / "bucket"
    given = {"store": f"file://{bucket}", "scratch": str(tmp_path / "s")}
    place = place_of(given, tmp_path / "attempts", sys.executable)
    hasty = "from leaven.jobs import agent, supervisor; supervisor.PATIENCE = 0.5; agent.main()"
    agent = subprocess.Popen([sys.executable, "-c", hasty, *place.send(found)], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: b"begun" in place.log(found.attempt, Position(), 1000)[0], "it to begin")
    bucket.rename(tmp_path / "gone")
    bucket.touch()
    agent.terminate()
    _, said = agent.communicate(timeout=30)
    assert agent.returncode == 1
    assert said.startswith("gave up sending what the attempt has made: ")


def test_a_log_is_sent_when_it_has_grown_and_not_every_second(tmp_path: Path) -> None:
    found = task(tmp_path, SAVES)
    given = {"store": f"file://{tmp_path}/bucket", "scratch": str(tmp_path / "s")}
    folder, _, store, _, run = place_of(given, tmp_path / "attempts", "python").send(found)
    agent = Carrier(Path(folder), 0, store, Path(run))
    agent.fetch()
    (Path(folder) / "begun.json").write_text("{}")
    log, sent = Path(folder) / "log", tmp_path / "bucket" / found.attempt / "log"
    log.write_text("one\n")
    agent.follow()
    assert sent.read_text() == "one\n"
    sent.write_text("as it was")
    for _ in range(10):
        agent.follow()
    assert sent.read_text() == "as it was"
    log.write_text("one\ntwo\n")
    agent.follow()
    assert sent.read_text() == "one\ntwo\n"
    log.write_text("one\ntwo\nthree\n")
    agent.follow()
    assert sent.read_text() == "one\ntwo\n"  # soon
    agent.send()
    assert sent.read_text() == "one\ntwo\nthree\n"
    assert not (tmp_path / "bucket" / found.attempt / "begun.json").exists()  # which nobody reads


def test_an_attempt_that_was_begun_and_left_has_not_succeeded(tmp_path: Path) -> None:
    """An engine may start an agent again whose machine was lost."""
    found = task(tmp_path, "print('ran')")
    words = agent_command(sys.executable, place_of({}, tmp_path / "attempts", sys.executable).send(found))
    (found.folder / "begun.json").write_text("{}")
    assert start(words).wait(30) == 1
    assert not (found.folder / "log").exists()


def test_a_log_is_limited_also_on_other_machines(tmp_path: Path) -> None:
    found = task(tmp_path, "for n in range(200_000): print('line', n)")
    place = place_of({"log_limit": 100_000}, tmp_path / "attempts", sys.executable)
    assert start(agent_command(sys.executable, place.send(found))).wait(60) == 0
    assert (found.folder / "log").stat().st_size < 150_000


# on the second node, a rank is killed; the other one is left alone, and fails
KILLED = """
import os, pathlib, signal, sys, time
both = os.environ["BOTH"]
node = int(os.environ["LEAVEN_ATTEMPT"].endswith("-node-1"))
pathlib.Path(both, str(node)).touch()
while len(os.listdir(both)) < 2:
    time.sleep(0.02)
if node:
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit("Connection closed by peer")
"""


@pytest.mark.slow
@pytest.mark.parametrize("goes_by", ["drive", "store"])
def test_a_rank_that_is_killed_on_another_node_is_named(tmp_path: Path, goes_by: str) -> None:
    both = tmp_path / "both"
    both.mkdir()
    found = replace(task(tmp_path, KILLED, nodes=2), entry=Entry.PROGRAM, variables={"BOTH": str(both)})
    given = {"store": f"file://{tmp_path}/bucket", "scratch": str(tmp_path / "scratch")} if goes_by == "store" else {}
    place = place_of(given, tmp_path / "attempts", sys.executable)
    arguments = place.send(found)
    words = agent_command(sys.executable, arguments)
    first = start(words, LEAVEN_NODE="0")
    wait_until(lambda: Path(arguments[0], "begun.json").exists(), "the first node to begin")
    second = start(words, LEAVEN_NODE="1")
    assert [agent.wait(120) for agent in (first, second)] == [1, 1]
    status = place.outcome(found.attempt)
    assert status is not None
    assert status.outcome is Outcome.FAILED
    assert re.fullmatch(rf"rank [01] was ended by SIGKILL on {socket.gethostname()}", status.reason)
