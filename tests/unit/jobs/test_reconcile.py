"""What becomes of jobs, with real processes, against both kinds of stores."""

import json
import os
import re
import resource
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import update
from tests.unit.jobs.plain_jobs import Queue, marked_processes, order, settings_in, supervisors, wait_until

from leaven import __version__
from leaven.formats import machine
from leaven.formats.run_folder import PROGRAM
from leaven.jobs import requests, supervisor
from leaven.jobs.environments.environment import Refused, Unreachable
from leaven.jobs.environments.kinds import KINDS
from leaven.jobs.environments.local import Local
from leaven.jobs.job_variables import VariableError
from leaven.jobs.manifest import Manifest, PackageError
from leaven.jobs.package import make_package, package_file
from leaven.jobs.printed import read_logs
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry, Outcome, State, Wanted
from leaven.jobs.store.records import Job
from leaven.jobs.store.schema import jobs

# waits for ever, and says when it has begun
WAITS = """
import sys, time
print("begun", flush=True)
time.sleep(600)
"""
# the same, and ends cleanly when asked, as a training does
SAVES = """
import json, os, signal, sys, time
def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # an engine asks every process of a job, and the agent asks its own
    with open(os.environ["LEAVEN_OUTCOME"], "w") as file:
        json.dump({"outcome": "stopped", "reason": ""}, file)
    print("saved", flush=True)
    os._exit(1)  # as torchrun does
signal.signal(signal.SIGTERM, stop)
print("begun", flush=True)
time.sleep(600)
"""


def outcomes(queue: Queue, job: int) -> list[Outcome | None]:
    return [one.outcome for one in queue.store.attempts(job)]


def begun(queue: Queue, job: int, times: int = 1) -> None:
    """Turn the loop until the program of a job has begun."""
    queue.turn(lambda: queue.log(job).count("begun") >= times, f"job {job} to begin")
    queue.turn_until(job, State.RUNNING)


def token(queue: Queue) -> str:
    return str(queue.store.fact("store"))


def test_a_job_runs_and_succeeds(queue: Queue) -> None:
    (id,) = queue.submit(order("import sys; print('hello', *sys.argv[1:])", "world"))
    (job,) = queue.finish(id)
    assert job.state is State.SUCCEEDED
    assert (job.reason, job.attempts) == ("", 1)
    assert queue.log(id) == "hello world\n"


def test_a_job_that_fails_is_tried_again_and_then_has_failed(queue: Queue) -> None:
    (id,) = queue.submit(order("print('so'); exit(7)", retries=2))
    (job,) = queue.finish(id)
    assert job.state is State.FAILED
    assert job.reason == "the program ended with exit code 7"
    assert outcomes(queue, id) == [Outcome.FAILED] * 3
    assert queue.log(id) == "so\n" * 3
    assert [one.exit_code for one in queue.store.attempts(id)] == [7] * 3


def test_the_wait_before_a_retry_doubles(queue: Queue) -> None:
    queue.settings = replace(queue.settings, backoff=8.0)
    now = 0.0

    def clock() -> float:
        return now

    queue.restart()
    queue.loop._clock = clock
    (id,) = queue.submit(order("exit(1)", retries=3))
    for wait in (8.0, 16.0, 32.0):
        queue.turn(lambda: queue.job(id).state is State.QUEUED and queue.job(id).failures, "a failure")
        assert queue.job(id).delay == wait
        queue.loop.tick()
        assert queue.job(id).state is State.QUEUED  # not yet
        now += wait + 0.1
        queue.loop.tick()
        assert queue.job(id).state is State.STARTING
    queue.finish(id)


def test_a_programs_report_counts_more_than_its_exit_code(queue: Queue) -> None:
    text = """
import json, os, sys
with open(os.environ["LEAVEN_OUTCOME"], "w") as file:
    json.dump({"outcome": sys.argv[1], "reason": "the loss is not a number"}, file)
sys.exit(int(sys.argv[2]))
"""
    good, bad = queue.submit(order(text, "succeeded", "1"), order(text, "failed", "0"))
    assert [job.state for job in queue.finish(good, bad)] == [State.SUCCEEDED, State.FAILED]
    assert queue.job(bad).reason == "the loss is not a number"


def test_a_program_that_can_not_be_started_fails_with_the_reason(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs", python="/no/such/python"))
    (id,) = queue.submit(order("pass"))
    (job,) = queue.finish(id)
    assert (job.state, job.reason) == (State.FAILED, "can't start /no/such/python: No such file or directory")
    queue.close()


def test_cancelling_lets_a_program_save_and_ends_it(queue: Queue) -> None:
    (id,) = queue.submit(order(SAVES, retries=5))
    begun(queue, id)
    requests.cancel(queue.store, [queue.job(id)])
    (job,) = queue.finish(id)
    assert job.state is State.CANCELLED
    assert queue.log(id) == "begun\nsaved\n"
    assert outcomes(queue, id) == [Outcome.STOPPED]
    assert not marked_processes(token(queue))


def test_a_program_that_does_not_stop_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs", grace=0.2))
    text = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("begun", flush=True)
time.sleep(600)
"""
    (id,) = queue.submit(order(text))
    begun(queue, id)
    wait_until(lambda: len(marked_processes(token(queue))) == 2)
    requests.cancel(queue.store, [queue.job(id)])
    (job,) = queue.finish(id)
    assert job.state is State.CANCELLED
    assert not marked_processes(token(queue))
    queue.close()


def test_a_queued_job_is_cancelled_without_being_started(queue: Queue) -> None:
    (id,) = queue.submit(order(WAITS))
    requests.cancel(queue.store, [queue.job(id)])
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.CANCELLED, 0)


def test_a_paused_job_continues_when_it_is_resumed_and_uses_no_retry(queue: Queue) -> None:
    (id,) = queue.submit(order(SAVES))
    begun(queue, id)
    requests.pause(queue.store, [queue.job(id)])
    queue.turn(lambda: queue.job(id).is_paused)
    wait_until(lambda: not supervisors(queue.settings.attempts))
    queue.loop.tick()
    assert queue.job(id).is_paused
    requests.resume(queue.store, [queue.job(id)])
    begun(queue, id, 2)
    assert queue.job(id).failures == 0
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_a_job_that_was_preempted_uses_no_retry(queue: Queue) -> None:
    (id,) = queue.submit(order(SAVES, retries=0))
    begun(queue, id)
    (pid,) = marked_processes(token(queue))
    os.kill(pid, signal.SIGTERM)  # by somebody else
    begun(queue, id, 2)
    assert (queue.job(id).failures, outcomes(queue, id)) == (0, [Outcome.STOPPED, None])
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_an_ended_job_can_be_tried_again(queue: Queue, tmp_path: Path) -> None:
    (id,) = queue.submit(order(f"import os; exit(0 if os.path.exists({str(tmp_path / 'there')!r}) else 1)"))
    assert queue.finish(id)[0].state is State.FAILED
    (tmp_path / "there").touch()
    requests.retry(queue.store, [queue.job(id)])
    queue.turn_until(id, State.SUCCEEDED)
    assert outcomes(queue, id) == [Outcome.FAILED, Outcome.SUCCEEDED]
    with pytest.raises(requests.RequestError, match="has succeeded"):
        requests.retry(queue.store, [queue.job(id)])


def test_a_time_limit_lets_the_program_save(queue: Queue) -> None:
    (id,) = queue.submit(order(SAVES, resources=Resources(cpus=1, minutes=0.5 / 60), retries=3))
    (job,) = queue.finish(id)
    assert (job.state, job.reason) == (State.FAILED, "its time limit was reached")
    assert "saved" in queue.log(id)
    assert outcomes(queue, id) == [Outcome.TIMED_OUT]


def test_no_more_jobs_run_at_once_than_there_are_cores(queue: Queue) -> None:
    ids = queue.submit(*[order(SAVES, resources=Resources(cpus=2)) for _ in range(3)])
    for id in ids[:2]:
        begun(queue, id)
    assert queue.job(ids[2]).state is State.QUEUED
    requests.cancel(queue.store, [queue.job(ids[0])])
    queue.finish(ids[0])
    begun(queue, ids[2])
    requests.cancel(queue.store, [queue.job(id) for id in ids[1:]])
    queue.finish(*ids)


def test_a_job_that_has_become_too_large_reports_why_and_lets_others_pass(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {name: value for name, value in queue.settings.environments["local"].items() if name != "cores"}
    queue.settings = replace(queue.settings, environments={"local": given})
    monkeypatch.setattr(machine, "cores", lambda: 4)
    (large,) = queue.submit(order("", resources=Resources(cpus=4)))
    monkeypatch.setattr(machine, "cores", lambda: 2)
    (small,) = queue.submit(order(""))
    assert queue.finish(small)[0].state is State.SUCCEEDED
    found = queue.job(large)
    assert found.state is State.QUEUED
    assert found.waits == "4 cores are needed, and it has 2 cores"
    monkeypatch.setattr(machine, "cores", lambda: 4)
    queue.submit(order(""))
    assert queue.finish(large)[0].state is State.SUCCEEDED
    assert queue.job(large).waits == ""


def test_a_submit_with_other_settings_changes_no_job_of_another_project(queue: Queue, tmp_path: Path) -> None:
    (first,) = queue.submit(order("print('ran')"))
    other = {**queue.settings.environments["local"], "python": "/no/such/python"}
    queue.settings = replace(queue.settings, environments={"local": other})
    (second,) = queue.submit(order(""))
    assert [job.state for job in queue.finish(first, second)] == [State.SUCCEEDED, State.FAILED]
    assert queue.log(first) == "ran\n"


def test_each_job_gets_gpus_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    queue = Queue(settings_in(tmp_path / "jobs", gpus=3))
    text = "import os, time; print('begun', os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(600)"
    ids = queue.submit(*[order(text, resources=Resources(cpus=1, gpus=count)) for count in (2, 1, 0)])
    for id in ids:
        begun(queue, id)
    assert [queue.log(id).strip() for id in ids] == ["begun 0,1", "begun 2", "begun"]
    requests.cancel(queue.store, [queue.job(id) for id in ids])
    queue.finish(*ids)
    queue.close()


def test_a_job_waits_for_those_before_it(queue: Queue, tmp_path: Path) -> None:
    note = f"import sys; open({str(tmp_path / 'order')!r}, 'a').write(sys.argv[1])"
    ids = queue.submit(
        order(note, "c", name="c", after=["b"]), order(note, "a", name="a"), order(note, "b", name="b", after=["a"])
    )
    queue.finish(*ids)
    assert (tmp_path / "order").read_text() == "abc"


def test_a_job_after_one_that_failed_is_cancelled_with_the_reason(queue: Queue) -> None:
    ids = queue.submit(order("exit(1)", name="a"), order("", name="b", after=["a"]), order("", name="c", after=["b"]))
    states = [job.state for job in queue.finish(*ids)]
    assert states == [State.FAILED, State.CANCELLED, State.CANCELLED]
    assert queue.job(ids[1]).reason == "a, which it waited for, failed"
    assert queue.job(ids[2]).reason == "b, which it waited for, was cancelled"
    with pytest.raises(requests.RequestError, match="b comes after a, which is failed") as refused:
        requests.retry(queue.store, [queue.job(ids[1])])
    assert refused.value.help == "retry both: `leaven jobs retry a b`"
    requests.retry(queue.store, [queue.job(ids[0]), queue.job(ids[1])])


class TestKilled:
    """What happens when processes are killed."""

    def test_jobs_outlive_the_coordinator_and_are_adopted(self, queue: Queue) -> None:
        (id,) = queue.submit(order(SAVES))
        begun(queue, id)
        queue.restart()
        requests.cancel(queue.store, [queue.job(id)])
        (job,) = queue.finish(id)
        assert (job.state, job.attempts) == (State.CANCELLED, 1)

    def test_what_ended_while_there_was_no_coordinator_is_known(self, queue: Queue, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        text = f"print('begun', flush=True)\nimport os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
        (id,) = queue.submit(order(text))
        begun(queue, id)
        gate.touch()
        wait_until(lambda: not supervisors(queue.settings.attempts))
        queue.restart()
        assert queue.finish(id)[0].state is State.SUCCEEDED
        assert queue.job(id).attempts == 1

    def test_a_killed_supervisor_leaves_no_process_and_the_job_is_tried_again(self, queue: Queue) -> None:
        text = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("begun", flush=True)
time.sleep(600)
"""
        (id,) = queue.submit(order(text, retries=1))
        begun(queue, id)
        before = marked_processes(token(queue))
        (pid,) = supervisors(queue.settings.attempts)
        os.kill(pid, signal.SIGKILL)
        begun(queue, id, 2)
        assert not set(before) & set(marked_processes(token(queue)))
        assert outcomes(queue, id) == [Outcome.LOST, None]
        (pid,) = supervisors(queue.settings.attempts)
        os.kill(pid, signal.SIGKILL)
        (job,) = queue.finish(id)
        assert (job.state, job.reason) == (State.LOST, "its supervisor was killed")
        assert not marked_processes(token(queue))

    def test_a_killed_program_is_tried_again(self, queue: Queue) -> None:
        (id,) = queue.submit(order(WAITS, retries=1))
        begun(queue, id)
        os.kill(marked_processes(token(queue))[0], signal.SIGKILL)
        begun(queue, id, 2)
        assert queue.store.attempts(id)[0].reason == "the program was ended by SIGKILL"
        requests.cancel(queue.store, [queue.job(id)])
        queue.finish(id)

    def test_a_crash_after_an_attempt_was_recorded_starts_it_once(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (id,) = queue.submit(order("print('ran')"))
        with monkeypatch.context() as patch:
            patch.setattr(Local, "submit", _crash)
            with pytest.raises(KeyboardInterrupt):
                queue.loop.tick()
        assert queue.job(id).state is State.STARTING
        queue.restart()
        assert queue.finish(id)[0].state is State.SUCCEEDED
        assert (queue.log(id), queue.job(id).attempts) == ("ran\n", 1)

    def test_a_crash_right_after_a_submit_does_not_submit_twice(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (id,) = queue.submit(order("print('ran')"))
        whole = Local.submit

        def submit_and_crash(*given: object) -> str:
            whole(*given)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Local, "submit", submit_and_crash)
            with pytest.raises(KeyboardInterrupt):
                queue.loop.tick()
        queue.restart()  # whose supervisor may come to the lock before or after the first one
        assert queue.finish(id)[0].state is State.SUCCEEDED
        assert (queue.log(id), queue.job(id).attempts) == ("ran\n", 1)

    def test_two_supervisors_of_one_attempt_run_it_once(self, queue: Queue) -> None:
        (id,) = queue.submit(order("print('ran')"))
        queue.finish(id)
        (attempt,) = queue.store.attempts(id)
        supervisor.main(str(queue.settings.attempts / attempt.id))
        assert queue.log(id) == "ran\n"

    def test_a_coordinator_that_ignores_its_children_books_failures_as_failures(self, tmp_path: Path) -> None:
        """With SIGCHLD ignored, waiting for a process says that it has ended with 0."""
        queue = Queue(settings_in(tmp_path / "jobs"))
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            (id,) = queue.submit(order("exit(5)"))
            (job,) = queue.finish(id)
        finally:
            signal.signal(signal.SIGCHLD, before)
        assert (job.state, queue.store.attempts(id)[0].exit_code) == (State.FAILED, 5)
        queue.close()


def _crash(*_: object) -> str:
    raise KeyboardInterrupt


class Shaky(Local):
    """An environment that is down as long as a file is there."""

    def submit(self, task):  # type: ignore[no-untyped-def]
        self._refuse()
        return super().submit(task)

    def poll(self, attempts):  # type: ignore[no-untyped-def]
        self._refuse()
        return super().poll(attempts)

    def _refuse(self) -> None:
        if (self._attempts.parent / "down").exists():
            raise Unreachable("connection refused")
        if (self._attempts.parent / "refuses").exists():
            raise Refused("no partition named `gpu`")


class Damaged(Local):
    """An environment that fails to say what became of attempts as long as a file is there."""

    def poll(self, attempts):  # type: ignore[no-untyped-def]
        if (self._attempts.parent / "damaged").exists():
            raise KeyError("phase")
        return super().poll(attempts)


def test_a_lone_job_that_can_not_be_asked_about_reports_it_and_continues_later(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be running: if it were ended and tried again, it could run twice."""
    monkeypatch.setitem(KINDS, "damaged", Damaged)
    given = {**queue.settings.environments["local"], "kind": "damaged"}
    queue.settings = replace(queue.settings, environments={"local": given})
    (id,) = queue.submit(order(SAVES))
    begun(queue, id)
    (queue.settings.folder / "damaged").touch()
    queue.turn(lambda: queue.job(id).waits, "a reason")
    assert queue.job(id).state is State.RUNNING
    since = rf"{time.strftime('%Y')}-\d\d-\d\d \d\d:\d\d"
    assert re.fullmatch(f"local does not answer since {since}: KeyError: 'phase'", queue.job(id).waits)
    (queue.settings.folder / "damaged").unlink()
    queue.loop._ask_at = dict.fromkeys(queue.loop._ask_at, 0.0)
    queue.turn(lambda: not queue.job(id).waits, "it to be asked about again")
    requests.cancel(queue.store, [queue.job(id)])
    assert queue.finish(id)[0].state is State.CANCELLED
    assert queue.log(id) == "begun\nsaved\n"


class Queues(Local):
    """An environment with a queue of its own."""

    def capacity(self):  # type: ignore[no-untyped-def]
        return None


def test_many_jobs_for_a_queue_elsewhere_keep_nobody_waiting(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "queues", Queues)
    local = queue.settings.environments["local"]
    queue.settings = replace(queue.settings, environments={"there": {**local, "kind": "queues"}, "local": local})
    ids = queue.submit(*[order("", environment="there") for _ in range(50)])
    assert queue.loop.tick() == 0.0  # it looks at others, and goes on at once
    assert State.QUEUED in {queue.job(id).state for id in ids}
    assert {queue.job(id).waits for id in ids if queue.job(id).state is State.QUEUED} == {"waits for its turn"}
    queue.loop.tick()
    (mine,) = queue.submit(order(""))
    queue.loop.tick()
    assert queue.job(mine).attempts == 1
    assert {job.state for job in queue.finish(mine, *ids)} == {State.SUCCEEDED}


class Slow(Queues):
    """One that takes a second and a half for each, and does not answer as long as a file is there."""

    now: ClassVar[float] = 0.0
    seen: ClassVar[list[str]] = []

    def submit(self, task):  # type: ignore[no-untyped-def]
        if (self._attempts.parent / "down").exists():
            raise Unreachable("it is down")
        type(self).now += 1.5
        self.seen.append(task.attempt)
        return super().submit(task)


def test_attempts_that_take_long_to_submit_wait_for_a_reason_and_keep_nobody_waiting(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "slow", Slow)
    monkeypatch.setattr(Slow, "now", 0.0)
    monkeypatch.setattr(Slow, "seen", [])
    given = {**queue.settings.environments["local"], "kind": "slow"}
    queue.settings = replace(queue.settings, environments={"local": given})
    ids = queue.submit(*[order("") for _ in range(5)])
    assert {queue.job(id).waits for id in ids} == {"no coordinator has looked at it yet"}
    (queue.settings.folder / "down").touch()
    queue.loop.tick()
    assert {queue.job(id).waits for id in ids} == {"is being submitted to local"}
    (queue.settings.folder / "down").unlink()
    queue.restart()
    queue.loop._clock = lambda: Slow.now
    assert queue.loop.tick() == 0.0
    assert len(Slow.seen) == 2
    assert {job.state for job in queue.finish(*ids)} == {State.SUCCEEDED}
    assert len(Slow.seen) == len(set(Slow.seen)) == 5


class TestEnvironmentIsDown:
    @pytest.fixture
    def shaky(self, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Queue:
        monkeypatch.setitem(KINDS, "shaky", Shaky)
        given = {**queue.settings.environments["local"], "kind": "shaky"}
        queue.settings = replace(queue.settings, environments={"local": given})
        return queue

    def test_it_is_marked_and_asked_again_and_nothing_is_lost(self, shaky: Queue) -> None:
        (shaky.settings.folder / "down").touch()
        (id,) = shaky.submit(order("print('ran')"))
        shaky.turn(lambda: shaky.store.environments()[0].unreachable_since is not None)
        assert shaky.store.environments()[0].problem == "connection refused"
        (shaky.settings.folder / "down").unlink()
        shaky.loop._ask_at = dict.fromkeys(shaky.loop._ask_at, 0.0)
        assert shaky.finish(id)[0].state is State.SUCCEEDED
        assert shaky.job(id).attempts == 1
        assert shaky.store.environments()[0].unreachable_since is None

    def test_a_running_job_stays_running_while_its_environment_does_not_answer(self, shaky: Queue) -> None:
        (id,) = shaky.submit(order(SAVES))
        begun(shaky, id)
        (shaky.settings.folder / "down").touch()
        shaky.turn(lambda: shaky.store.environments()[0].unreachable_since is not None)
        assert shaky.job(id).state is State.RUNNING
        (shaky.settings.folder / "down").unlink()
        requests.cancel(shaky.store, [shaky.job(id)])
        shaky.loop._ask_at = dict.fromkeys(shaky.loop._ask_at, 0.0)
        assert shaky.finish(id)[0].state is State.CANCELLED

    def test_a_job_that_it_refuses_has_failed_and_is_not_tried_again(self, shaky: Queue) -> None:
        (shaky.settings.folder / "refuses").touch()
        (id,) = shaky.submit(order("", retries=5))
        (job,) = shaky.finish(id)
        assert (job.state, job.reason, job.attempts) == (State.FAILED, "no partition named `gpu`", 1)


def test_how_a_job_ended_is_written_when_the_disk_has_room_again(queue: Queue, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    text = f"print('begun', flush=True)\nimport os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    (id,) = queue.submit(order(text))
    begun(queue, id)
    (pid,) = supervisors(queue.settings.attempts)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    gate.touch()
    wait_until(lambda: not marked_processes(token(queue)))
    queue.loop.tick()
    assert queue.job(id).state is State.RUNNING  # it is not known how it ended, and its supervisor lives
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert outcomes(queue, id) == [Outcome.SUCCEEDED]


def test_a_package_of_another_version_is_refused_at_submit(queue: Queue) -> None:
    found = order("")
    old = make_package(replace(found.package.manifest, leaven="0.0.9"), found.package.members)
    with pytest.raises(PackageError, match=r"package plain was packed by Leaven 0\.0\.9, and this is Leaven"):
        queue.submit(replace(found, package=old))
    assert queue.store.jobs() == []


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_package_is_refused_when_it_starts_by_a_python_with_another_leaven(tmp_path: Path, processes: int) -> None:
    about = tmp_path / "other" / "leaven-9.9.9.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: leaven\nVersion: 9.9.9\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={about.parents[1]}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    queue = Queue(settings_in(tmp_path / "jobs", python=str(python)))
    package = make_package(Manifest("trained", __version__, Entry.PROGRAM), {PROGRAM: b"print('ran')"})
    (id,) = queue.submit(order("", package=package, retries=3, resources=Resources(cpus=1, processes=processes)))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.FAILED, 1)
    assert job.reason == f"it was packed by Leaven {__version__}, and {sys.executable} has Leaven 9.9.9"
    assert "ran" not in queue.log(id)
    queue.close()


def test_a_package_that_was_changed_after_its_submit_is_refused(queue: Queue) -> None:
    (id,) = queue.submit(order(""))
    file = package_file(queue.settings.packages, queue.job(id).package)
    file.write_bytes(order("print('other')").package.content)
    assert queue.finish(id)[0].reason == "its package is not the one that was submitted any more"


@pytest.mark.parametrize(("noted", "attempts"), [("diverged", 1), ("other", 3)])
def test_a_training_that_diverged_is_not_tried_again(queue: Queue, noted: str, attempts: int) -> None:
    text = f"import json; json.dump({{'{noted}': 'the loss is not a number'}}, open('lock.json', 'w')); exit(1)"
    (id,) = queue.submit(order(text, retries=2))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.FAILED, attempts)
    assert job.failures == (0 if attempts == 1 else 3)


def test_progress_is_read_from_the_run(queue: Queue) -> None:
    text = """
import os, sys, time
with open("metrics.csv", "w") as file:
    file.write("phase,epoch,train.loss,val.accuracy,seconds\\nhead,1,0.5,0.75,2.0\\n")
print("begun", flush=True)
time.sleep(600)
"""
    (id,) = queue.submit(order(text))
    begun(queue, id)
    queue.turn(lambda: queue.job(id).progress)
    assert json.loads(queue.job(id).progress) == {"epoch": 1, "phase": "head", "loss": 0.5}
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_a_clock_that_jumps_changes_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    (id,) = queue.submit(order("exit(1)", retries=2))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 10 * 365 * 86400)
    queue.turn(lambda: queue.job(id).attempts >= 2)
    monkeypatch.setattr(time, "time", lambda: now() + 10 * 365 * 86400)
    assert queue.finish(id)[0].attempts == 3


def test_a_request_that_comes_while_an_attempt_ends_is_not_forgotten(queue: Queue) -> None:
    (id,) = queue.submit(order("exit(1)", retries=10_000))
    queue.turn(lambda: queue.job(id).attempts >= 2)
    queue.store.want([id], Wanted.STOP)
    assert queue.finish(id)[0].state is State.CANCELLED


def test_the_wait_before_a_retry_survives_a_new_coordinator(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.settings = replace(queue.settings, backoff=100.0)
    queue.restart()
    (id,) = queue.submit(order("exit(1)", retries=1))
    queue.turn(lambda: queue.job(id).failures, "a failure")
    now = time.time

    def looks_again_in() -> float:
        queue.restart()
        return float(queue.loop.tick() or 0.0)

    assert queue.job(id).delay == 100.0
    queue.loop.tick()
    assert queue.job(id).waits == "waits 100 s before the next try"
    monkeypatch.setattr(time, "time", lambda: now() + 60)
    assert 35 < looks_again_in() < 41
    monkeypatch.setattr(time, "time", lambda: now() - 10**8)  # a clock that jumped back prolongs nothing
    assert looks_again_in() == pytest.approx(100, abs=1)
    monkeypatch.setattr(time, "time", lambda: now() + 101)
    looks_again_in()
    assert queue.job(id).attempts == 2


class TestOneBadJob:
    """Whatever one job does, the others run, and it ends with the reason."""

    def finish_beside(self, queue: Queue, bad: requests.Order) -> Job:
        ids = queue.submit(bad, order("print('ran')"))
        found = queue.finish(*ids)
        assert found[1].state is State.SUCCEEDED
        return found[0]

    def test_that_fails_on_a_file_whose_name_is_not_text(self, queue: Queue) -> None:
        text = """
import json, os
with open(os.environ["LEAVEN_OUTCOME"], "w") as file:
    json.dump({"outcome": "failed", "reason": os.fsdecode(b"can't read caf\\xe9.jpg") + chr(0) + "!"}, file)
"""
        job = self.finish_beside(queue, order(text))
        assert job.state is State.FAILED
        assert job.reason == r"can't read caf\xe9.jpg\x00!"
        assert queue.store.attempts(job.id)[0].reason == job.reason

    @pytest.mark.parametrize("what", ["head,1,0.5,7,8\n", "head,one,two\n", "\0\n", "head,1,nan\n" * 3])
    def test_whose_metrics_are_not_a_table(self, queue: Queue, what: str) -> None:
        text = f"open('metrics.csv', 'w').write('phase,epoch,train.loss\\n' + {what!r})"
        assert self.finish_beside(queue, order(text)).state is State.SUCCEEDED

    @pytest.mark.parametrize("trials", ["[]", "7", '{"trials": []}', "[" * 100_000])
    def test_whose_trials_are_not_trials(self, queue: Queue, trials: str) -> None:
        text = f"open('trials.json', 'w').write({trials!r})"
        assert self.finish_beside(queue, order(text)).state is State.SUCCEEDED

    def test_whose_lock_is_nested_too_deeply(self, queue: Queue) -> None:
        job = self.finish_beside(queue, order("open('lock.json', 'w').write('[' * 100_000); exit(1)"))
        assert job.state is State.FAILED

    @pytest.mark.parametrize("place", ["run", "attempt"])
    @pytest.mark.parametrize("make", ["os.mkfifo(file)", "os.symlink('/dev/zero', file)"])
    def test_that_puts_what_never_ends_in_place_of_files(self, queue: Queue, place: str, make: str) -> None:
        text = f"""
import os, time
run, attempt = os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.environ["LEAVEN_OUTCOME"])
files = {{"run": ["metrics.csv", "lock.json", "recipe.leaven", "trials.json"], "attempt": ["log", "outcome.json"]}}
for name in files[{place!r}]:
    file = os.path.join({place}, name)
    if os.path.lexists(file):
        os.remove(file)
    {make}
print("begun", flush=True)
time.sleep(1.5)
exit(1)
"""
        job = self.finish_beside(queue, order(text, retries=1))
        assert job.state in (State.FAILED, State.LOST)
        (first, *_) = read_logs(queue.settings, queue.store, job, attempt=1)
        assert first.text == b"begun\n" if place == "run" else "not a file" in first.problem

    def test_that_wants_no_processes(self, queue: Queue) -> None:
        with pytest.raises(requests.RequestError, match="`processes` can't be 0"):
            queue.submit(order("", resources=Resources(cpus=1, processes=0)))
        (bad,) = queue.submit(order("", retries=5))
        with queue._engine.begin() as connection:
            connection.execute(update(jobs).where(jobs.c.id == bad).values(processes=0))
        (good,) = queue.submit(order(""))
        job, other = queue.finish(bad, good)
        assert other.state is State.SUCCEEDED
        assert (job.state, job.attempts) == (State.FAILED, 1)
        assert "ZeroDivisionError" in job.reason
        assert outcomes(queue, job.id) == [Outcome.ERROR]

    def test_that_its_environment_fails_on(self, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = Local._status

        def status(self: Local, attempt: str, native: str) -> object:
            if attempt == str(queue.job(bad).attempt):
                raise KeyError("phase")
            return whole(self, attempt, native)

        monkeypatch.setattr(Local, "_status", status)
        bad, good = queue.submit(order("", name="bad"), order("print('ran')"))
        assert [job.state for job in queue.finish(bad, good)] == [State.FAILED, State.SUCCEEDED]
        assert queue.job(bad).reason == "KeyError: 'phase'"

    def test_that_goes_to_an_environment_that_fails_on_everything(self, queue: Queue) -> None:
        broken = {"kind": "local", "grace": "soon"}
        given = queue.settings.environments
        queue.settings = replace(queue.settings, environments={**given, "broken": {**broken, "grace": 1.0}})
        (bad,) = queue.submit(order("", environment="broken"))
        with queue._engine.begin() as connection:
            connection.execute(update(jobs).where(jobs.c.id == bad).values(settings=json.dumps(broken)))
        (good,) = queue.submit(order(""))
        assert queue.finish(good)[0].state is State.SUCCEEDED
        assert (queue.job(bad).state, queue.job(bad).waits) == (State.QUEUED, "broken does not answer")
        (marked,) = (one for one in queue.store.environments() if one.unreachable_since is not None)
        assert marked.problem == "ValueError: could not convert string to float: 'soon'"

    def test_is_forgotten_by_force_whatever_its_state(self, queue: Queue) -> None:
        (id,) = queue.submit(order(WAITS))
        begun(queue, id)
        with pytest.raises(requests.RequestError, match="has not ended: it is running"):
            requests.clean(queue.store, queue.settings, [queue.job(id)])
        assert requests.clean(queue.store, queue.settings, [queue.job(id)], by_force=True) == 1
        assert not marked_processes(token(queue))
        assert queue.store.jobs() == []
        (other,) = queue.submit(order(""))
        assert queue.finish(other)[0].state is State.SUCCEEDED


def test_the_events_of_a_job_have_their_actors(queue: Queue) -> None:
    (id,) = queue.submit(order("exit(3)"))
    queue.store.set_priority([id], 5)
    queue.finish(id)
    events = queue.store.events(id)
    assert [event.what for event in events][:3] == ["submit", "priority", "starting"]
    assert events[1].detail == "5"
    assert (events[-1].what, events[-1].detail) == ("failed", "attempt failed: the program ended with exit code 3")
    assert {event.actor for event in events} == {queue.job(id).owner}


class TestVariables:
    TEXT = "import os; print(os.environ['PLAIN'], os.environ.get('HIDDEN'))"

    def test_a_job_gets_its_variables_and_secrets(self, queue: Queue) -> None:
        file = queue.settings.folder / "secrets.toml"
        file.write_text("HIDDEN = 'from the file'")
        file.chmod(0o600)
        (id,) = queue.submit(order(self.TEXT, variables={"PLAIN": "a b=c"}, secrets=["HIDDEN"]))
        queue.finish(id)
        assert queue.log(id) == "a b=c from the file\n"
        assert "from the file" not in json.dumps(queue.job(id).to_json())
        files = [file for file in queue.settings.folder.rglob("*") if file.is_file() and file.name != "log"]
        assert [file.name for file in files if b"from the file" in file.read_bytes()] == ["secrets.toml"]
        assert queue.job(id).to_json()["variables"] == {"PLAIN": "a b=c"}

    def test_a_secret_may_be_a_variable_of_the_coordinator(self, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HIDDEN", "from here")
        (id,) = queue.submit(order(self.TEXT, variables={"PLAIN": ""}, secrets=["HIDDEN"]))
        queue.finish(id)
        assert queue.log(id) == " from here\n"

    def test_one_that_is_not_there_or_readable_by_others_is_reported(self, queue: Queue) -> None:
        (id,) = queue.submit(order("", secrets=["NOWHERE"], retries=3))
        assert queue.finish(id)[0].reason == "the secret NOWHERE is not known to the coordinator"
        file = queue.settings.folder / "secrets.toml"
        file.write_text("NOWHERE = 'x'")
        file.chmod(0o644)
        (id,) = queue.submit(order("", secrets=["NOWHERE"], retries=3))
        assert queue.finish(id)[0].reason == f"other users may read or change {file}"
        assert queue.job(id).attempts == 1

    @pytest.mark.parametrize(
        ("variables", "secrets"), [({"A B": ""}, []), ({"": ""}, []), ({"A": "\0"}, []), ({}, ["LEAVEN_ATTEMPT"])]
    )
    def test_what_no_program_can_be_given_is_refused(
        self, queue: Queue, variables: dict[str, str], secrets: list[str]
    ) -> None:
        with pytest.raises(VariableError):
            queue.submit(order("", variables=variables, secrets=secrets))


def test_a_preempted_job_saves_and_is_resumed_when_there_is_room_again(queue: Queue) -> None:
    given = {**queue.settings.environments["local"], "preemptible": True}
    queue.settings = replace(queue.settings, environments={"local": given})
    (low,) = queue.submit(order(SAVES, resources=Resources(cpus=3)))
    begun(queue, low)
    (high,) = queue.submit(order("print('ran')", resources=Resources(cpus=2), priority=1))
    queue.finish(high)
    begun(queue, low, 2)
    assert queue.log(low).startswith("begun\nsaved\nbegun\n")
    assert (queue.job(low).failures, outcomes(queue, low)) == (0, [Outcome.STOPPED, None])
    assert "preempted" in [event.what for event in queue.store.events(low)]
    requests.cancel(queue.store, [queue.job(low)])
    queue.finish(low)


def test_what_users_have_used_survives_a_new_coordinator(queue: Queue) -> None:
    now = 1000.0
    queue.loop._clock = lambda: now
    (id,) = queue.submit(order(WAITS, resources=Resources(cpus=2)))
    begun(queue, id)
    now += 100.0
    queue.loop.tick()
    queue.restart()
    queue.loop.tick()
    leader = queue.loop._leader
    assert leader is not None
    assert leader._used == {queue.job(id).owner: pytest.approx(202, abs=2)}
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_a_quota_holds_and_is_shown(queue: Queue) -> None:
    owner = queue.store.user
    requests.set_quota(queue.store, "*", {"jobs": 1, "cpus": None})
    first, second = queue.submit(order(WAITS), order(""))
    begun(queue, first)
    assert queue.job(second).waits == f"the quota of {owner} is 1 job at a time"
    requests.set_quota(queue.store, owner, {"cpus": 3})
    queue.finish(second)
    requests.cancel(queue.store, [queue.job(first)])
    queue.finish(first)
