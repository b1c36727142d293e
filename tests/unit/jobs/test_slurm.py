"""Jobs on a real Slurm, which the tests start: submit, cancel, requeue, and a controller that goes away."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.jobs import cluster
from tests.unit.jobs.plain_jobs import Queue, agents, marked_processes, order, settings_in
from tests.unit.jobs.test_reconcile import SAVES, begun, outcomes
from tests.unit.jobs.test_trainings import (
    EPOCHS,
    SWEEP,
    epochs_in,
    is_swept,
    packed,
    project,
    slow_down,
    trained_without_interruption,
    weights,
)

from leaven.formats.run_folder import read_json
from leaven.jobs import requests
from leaven.jobs.environments.environment import Task
from leaven.jobs.environments.slurm import Slurm
from leaven.jobs.resources import Resources
from leaven.jobs.states import ENDED, Entry, Outcome, State

__all__ = ["project"]  # a fixture
pytestmark = [pytest.mark.slow, pytest.mark.jobs]


@pytest.fixture(scope="module")
def slurm() -> Iterator[cluster.Cluster]:
    if reason := cluster.why_not():
        pytest.skip(reason)
    with cluster.cluster() as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", found.settings["SLURM_CONF"])
        yield found


@pytest.fixture
def queue(slurm: cluster.Cluster, tmp_path: Path) -> Iterator[Queue]:
    given = {"kind": "slurm", "poll": 0.2, "timeout": 20.0, "grace": 100.0}
    settings = replace(settings_in(tmp_path / "jobs"), environments={"slurm": given})
    found = Queue(settings, cluster.PATIENCE, slurm.told)
    yield found
    found.close()


def on_slurm(text: str, *arguments: str, **more: object) -> requests.Order:
    return order(text, *arguments, **{"environment": "slurm", **more})


def test_a_job_runs_and_its_log_is_read(queue: Queue) -> None:
    (id,) = queue.submit(on_slurm("import os, sys; print('on', os.environ['SLURMD_NODENAME'], *sys.argv[1:])", "a b"))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.SUCCEEDED, 1)
    assert queue.log(id) == "on n0 a b\n"


def test_a_failure_is_tried_again(queue: Queue) -> None:
    (id,) = queue.submit(on_slurm("print('so'); exit(7)", retries=1))
    (job,) = queue.finish(id)
    assert job.state is State.FAILED
    assert outcomes(queue, id) == [Outcome.FAILED] * 2
    assert [one.exit_code for one in queue.store.attempts(id)] == [7, 7]


def test_gpus_are_those_that_slurm_gives(queue: Queue) -> None:
    text = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
    (id,) = queue.submit(on_slurm(text, resources=Resources(cpus=1, gpus=2)))
    queue.finish(id)
    assert queue.log(id) == "0,1\n"


def test_a_job_gets_all_of_its_cores(queue: Queue) -> None:
    text = "import os; print(len(os.sched_getaffinity(0)))"
    ids = queue.submit(*[on_slurm(text, resources=Resources(cpus=cpus)) for cpus in (1, 2)])
    queue.finish(*ids)
    assert [queue.log(id) for id in ids] == ["1\n", "2\n"]


@pytest.mark.parametrize("name", ["a b", "100%j'\"#1", "@this-node @first-node", "back\\slash ä"])
def test_folders_may_have_any_name(slurm: cluster.Cluster, tmp_path: Path, name: str) -> None:
    settings = settings_in(tmp_path / name / "jobs")
    settings = replace(settings, environments={"slurm": {"kind": "slurm", "poll": 0.2}})
    queue = Queue(settings, cluster.PATIENCE, slurm.told)
    text = "import pathlib; print(pathlib.Path(__file__).parent == pathlib.Path.cwd())"
    (id,) = queue.submit(on_slurm(text, resources=Resources(cpus=1, nodes=2)))
    (job,) = queue.finish(id)
    assert job.state is State.SUCCEEDED, job.reason
    assert f"/{name}/" in job.run
    assert queue.log(id) == "True\n"
    queue.close()


@pytest.mark.parametrize("is_running", [True, False])
def test_what_an_administrator_cancels_stays_cancelled(
    queue: Queue, slurm: cluster.Cluster, *, is_running: bool
) -> None:
    text = SAVES if is_running else "print('never')"
    needs = Resources(cpus=1, nodes=1 if is_running else 2)
    (block,) = queue.submit(on_slurm(SAVES, resources=Resources(cpus=2)))
    begun(queue, block)
    (id,) = queue.submit(on_slurm(text, retries=3, resources=needs))
    begun(queue, id) if is_running else queue.turn(lambda: queue.store.attempts(id)[0].native, "it to be submitted")
    slurm.run("scancel", queue.store.attempts(id)[0].native)
    (job,) = queue.finish(id)
    assert (job.state, job.attempts, job.reason) == (State.CANCELLED, 1, "it was cancelled in Slurm")
    assert queue.log(id) == ("begun\nsaved\n" if is_running else "")
    requests.cancel(queue.store, [queue.job(block)])
    queue.finish(block)


def test_why_a_job_waits_is_known_and_it_is_given_up(queue: Queue, slurm: cluster.Cluster) -> None:
    (block,) = queue.submit(on_slurm(SAVES, resources=Resources(cpus=2, nodes=2)))
    begun(queue, block)
    given = queue.settings.environments["slurm"]
    run, attempts = queue.settings.folder / "run", queue.settings.attempts
    task = Task("wait-1", attempts / "wait-1", run, run, Entry.PLAIN, (), Resources(cpus=2))
    environment = Slurm(given, attempts, queue.settings.wake)
    native = environment.submit(task)
    reasons = set()

    def is_explained() -> bool:
        reasons.add(environment.poll({"wait-1": native})["wait-1"].reason)
        return "waits for nodes to be free (Slurm: Resources)" in reasons

    slurm.wait(is_explained, "the reason")
    impatient = Slurm({**given, "start_within": 0.001}, attempts, queue.settings.wake)
    seen = [impatient.poll({"wait-1": native})["wait-1"]]

    def has_ended() -> bool:
        seen.append(impatient.poll({"wait-1": native})["wait-1"])
        return seen[-1].phase == "ended"

    slurm.wait(has_ended, "it to be given up")
    assert seen[-1].outcome is Outcome.TIMED_OUT
    assert seen[-1].reason.startswith("it could not start within 0.001 minutes: waits for nodes to be free")
    slurm.wait(lambda: f"{native} CANCELLED" in slurm.run("squeue", "-h", "-t", "all", "-o", "%i %T"), "scancel")
    requests.cancel(queue.store, [queue.job(block)])
    queue.finish(block)


def test_cancelling_lets_the_program_save(queue: Queue) -> None:
    (id,) = queue.submit(on_slurm(SAVES))
    begun(queue, id)
    requests.cancel(queue.store, [queue.job(id)])
    (job,) = queue.finish(id)
    assert job.state is State.CANCELLED
    assert "saved" in queue.log(id)
    assert outcomes(queue, id) == [Outcome.STOPPED]


def test_a_job_that_waits_in_slurms_queue_is_cancelled(queue: Queue) -> None:
    ids = queue.submit(*[on_slurm(SAVES, resources=Resources(cpus=2)) for _ in range(3)])
    for id in ids[:2]:
        begun(queue, id)
    queue.turn_until(ids[2], State.STARTING)
    requests.cancel(queue.store, [queue.job(ids[2])])
    assert queue.finish(ids[2])[0].state is State.CANCELLED
    assert queue.log(ids[2]) == ""
    requests.cancel(queue.store, [queue.job(id) for id in ids[:2]])
    queue.finish(*ids)


def test_a_preempted_job_saves_and_begins_again_without_using_a_retry(queue: Queue, slurm: cluster.Cluster) -> None:
    ids = queue.submit(*[on_slurm(SAVES, resources=Resources(cpus=2)) for _ in range(2)])
    for id in ids:
        begun(queue, id)
    slurm.run("sbatch", "-p", "urgent", "-N2", "--ntasks-per-node=1", "-c2", "-o", "/dev/null", "--wrap", "sleep 1")
    queue.turn(lambda: all(queue.log(id).count("begun") == 2 for id in ids), "both to begin again")
    assert all("saved" in queue.log(id) for id in ids)
    assert [queue.job(id).failures for id in ids] == [0, 0]
    assert all(set(outcomes(queue, id)) <= {Outcome.STOPPED, None} for id in ids)
    requests.cancel(queue.store, [queue.job(id) for id in ids])
    assert {job.state for job in queue.finish(*ids)} == {State.CANCELLED}


def test_a_job_that_slurm_requeues_begins_again_as_the_same_attempt(queue: Queue, slurm: cluster.Cluster) -> None:
    text = SAVES.replace("signal.signal(", "print(", 1)  # it does not handle the signal
    (id,) = queue.submit(on_slurm(text))
    begun(queue, id)
    (attempt,) = queue.store.attempts(id)
    slurm.run("scontrol", "requeue", attempt.native)
    slurm.run("scontrol", "update", f"jobid={attempt.native}", "StartTime=now")  # else Slurm waits for minutes
    queue.turn(lambda: queue.log(id).count("begun") == 2, "it to begin again")
    assert queue.job(id).attempts == 1
    requests.cancel(queue.store, [queue.job(id)])
    assert queue.finish(id)[0].state is State.CANCELLED


def test_a_controller_that_is_killed_is_marked_and_nothing_is_lost(queue: Queue, slurm: cluster.Cluster) -> None:
    (id,) = queue.submit(on_slurm(SAVES))
    begun(queue, id)
    slurm.save(queue.store.attempts(id)[0].native)
    slurm.kill_controller()
    queue.turn(lambda: queue.store.environments()[0].unreachable_since is not None, "Slurm to be marked")
    assert queue.job(id).state is State.RUNNING
    (later,) = queue.submit(on_slurm("print('later')"))
    slurm.start_controller()
    queue.turn(lambda: queue.job(later).state in ENDED, "the job after that")  # its nodes come back one by one
    assert queue.job(later).state is State.SUCCEEDED
    assert (queue.job(id).state, queue.job(id).attempts) == (State.RUNNING, 1)
    assert queue.store.environments()[0].unreachable_since is None
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_a_crash_in_the_middle_of_a_submit_does_not_submit_twice(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    (id,) = queue.submit(on_slurm("print('ran')"))
    whole = Slurm._run

    def run_and_crash(self: Slurm, words: list[str], **more: bool) -> str:
        said = whole(self, words, **more)
        if words[0] == "sbatch":
            raise KeyboardInterrupt
        return said

    with monkeypatch.context() as patch:
        patch.setattr(Slurm, "_run", run_and_crash)
        with pytest.raises(KeyboardInterrupt):
            queue.loop.tick()
    queue.restart()
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert (queue.log(id), queue.job(id).attempts) == ("ran\n", 1)


def test_a_preempted_training_ends_with_the_same_weights(queue: Queue, slurm: cluster.Cluster, project: Path) -> None:
    slow_down(project)
    (id,) = queue.submit(requests.Order(packed(project), "slurm", Resources(cpus=2)))
    run = Path(queue.job(id).run)
    queue.turn(lambda: epochs_in(run) >= 2, "two epochs")
    urgent = ["sbatch", "-p", "urgent", "-N2", "--ntasks-per-node=1", "-c2", "-o", "/dev/null", "--wrap", "sleep 1"]
    slurm.run(*urgent)
    queue.turn(lambda: queue.job(id).state is State.SUCCEEDED, "the end")
    assert "resuming" in queue.log(id)
    assert queue.job(id).failures == 0
    assert weights(run) == trained_without_interruption(project, threads=2)


def test_a_training_on_two_nodes(queue: Queue, project: Path) -> None:
    (id,) = queue.submit(requests.Order(packed(project), "slurm", Resources(cpus=1, processes=1, nodes=2)))
    queue.turn(lambda: queue.job(id).state in ENDED, "the end")
    assert queue.job(id).state is State.SUCCEEDED, queue.log(id)
    run = Path(queue.job(id).run)
    assert epochs_in(run) == EPOCHS
    assert read_json(run / "lock.json")["processes"] == 2


def trials(text: str, count: int) -> list[requests.Order]:
    return [on_slurm(text, str(number)) for number in range(1, count + 1)]


@pytest.fixture
def batch(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue whose jobs are submitted as those of one sweep."""
    whole = requests._submissions

    def of_a_batch(*given: object) -> list[requests.Submission]:
        return [replace(one, batch="sweep") for one in whole(*given)]  # type: ignore[arg-type]

    monkeypatch.setattr(requests, "_submissions", of_a_batch)
    return queue


def test_the_jobs_of_a_batch_are_one_array(batch: Queue, slurm: cluster.Cluster) -> None:
    ids = batch.submit(*trials("import os, sys; print(sys.argv[1], os.environ['SLURM_ARRAY_TASK_ID'])", 5))
    assert {job.state for job in batch.finish(*ids)} == {State.SUCCEEDED}
    assert [batch.log(id) for id in ids] == [f"{number} {number}\n" for number in range(1, 6)]
    natives = [batch.store.attempts(id)[0].native.split("_") for id in ids]
    assert [native[1] for native in natives] == ["1", "2", "3", "4", "5"]
    assert len({native[0] for native in natives}) == 1


def test_one_job_of_an_array_is_cancelled_and_others_continue(batch: Queue) -> None:
    ids = batch.submit(*trials(SAVES, 3))
    for id in ids[:2]:
        begun(batch, id)
    requests.cancel(batch.store, [batch.job(ids[0])])
    assert batch.finish(ids[0])[0].state is State.CANCELLED
    assert "saved" in batch.log(ids[0])
    begun(batch, ids[2])
    batch.restart()  # the tasks of the array are known again
    batch.loop.tick()
    assert [batch.job(id).state for id in ids[1:]] == [State.RUNNING, State.RUNNING]
    requests.cancel(batch.store, [batch.job(id) for id in ids[1:]])
    assert {job.state for job in batch.finish(*ids)} == {State.CANCELLED}


def test_a_crash_right_after_an_array_was_submitted_does_not_submit_it_twice(
    batch: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = batch.submit(*trials("print('ran')", 3))
    whole = Slurm.submit_array

    def submit_and_crash(*given: object) -> list[str]:
        whole(*given)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Slurm, "submit_array", submit_and_crash)
        with pytest.raises(KeyboardInterrupt):
            batch.loop.tick()
    batch.restart()
    assert {(job.state, job.attempts) for job in batch.finish(*ids)} == {(State.SUCCEEDED, 1)}
    assert [batch.log(id) for id in ids] == ["ran\n"] * 3


def test_a_sweep_as_an_array_comes_to_its_end(queue: Queue, project: Path) -> None:
    ids = queue.submit(requests.Order(packed(project, SWEEP), "slurm", Resources(cpus=1), is_sweep=True))
    queue.turn(lambda: all(queue.job(id).state in ENDED for id in ids), "the sweep to end")
    is_swept(queue.store, ids)
    assert len({queue.store.attempts(id)[0].native.partition("_")[0] for id in ids[:-1]}) == 1


OUTLIVES = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(1, 0)  # as in a container, or by a Python with privileges: it does not end with its agent
print("begun", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
"""


def test_a_program_that_outlives_its_agent_is_not_run_beside_itself(queue: Queue, tmp_path: Path) -> None:
    (id,) = queue.submit(on_slurm(OUTLIVES, str(tmp_path / "gate"), retries=1))
    begun(queue, id)
    (attempt,) = queue.store.attempts(id)
    (agent,) = agents(queue.settings.attempts)
    os.kill(agent, signal.SIGKILL)
    over = queue.loop._environments  # Slurm has ended its job, and this is seen
    queue.turn(lambda: [one._statuses()[attempt.id].phase for one in over.values()] == ["over"], "Slurm's job to end")
    queue.loop.tick()
    assert marked_processes(attempt.id)
    assert (queue.job(id).state, queue.job(id).attempts) == (State.RUNNING, 1)
    (tmp_path / "gate").touch()
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert (queue.job(id).attempts, queue.log(id).count("begun")) == (2, 2)


def test_what_slurm_refuses_has_failed_with_its_reason(queue: Queue) -> None:
    given = {**queue.settings.environments["slurm"], "partition": "none"}
    queue.settings = replace(queue.settings, environments={"slurm": given})
    (id,) = queue.submit(on_slurm("", retries=3))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.FAILED, 1)
    assert job.reason == "Slurm refuses it: Batch job submission failed: Invalid partition name specified"


def test_what_the_cluster_has_is_checked(queue: Queue) -> None:
    environment = requests.environment_of(queue.settings, "slurm")
    found = {check.what: check for check in environment.check()}
    assert found["partition main"].found == "up, 2 nodes with 2 cores, 4000 MB, gpu:2"
    assert all(check.is_right for check in found.values())
    assert os.access(found["sbatch"].found, os.X_OK)
