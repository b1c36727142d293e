"""Jobs on a real Ray cluster, which the tests start: submit, logs, cancel, a node that is lost, several nodes."""

import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.unit.jobs import ray_cluster
from tests.unit.jobs.plain_jobs import Queue, order, settings_in
from tests.unit.jobs.test_reconcile import SAVES, begun, outcomes
from tests.unit.jobs.test_trainings import (
    EPOCHS,
    RECIPE,
    epochs_in,
    packed,
    project,
    slow_down,
    trained_without_interruption,
    weights,
)

from leaven.formats.run_folder import read_json
from leaven.jobs import requests
from leaven.jobs.environments.environment import Unreachable
from leaven.jobs.environments.ray import Ray, status_of
from leaven.jobs.resources import Resources
from leaven.jobs.states import ENDED, Outcome, State

__all__ = ["project"]  # a fixture
on_a_cluster = [pytest.mark.slow, pytest.mark.jobs]


@pytest.mark.parametrize(
    ("row", "phase", "outcome"),
    [
        ({"status": "PENDING"}, "waiting", Outcome.LOST),
        ({"status": "FAILED", "driver_exit_code": 1, "message": "the command failed"}, "over", Outcome.FAILED),
        (
            {"status": "FAILED", "message": "Unexpected error occurred: The actor died because its node has died."},
            "over",
            Outcome.LOST,
        ),
        (
            {"status": "FAILED", "message": "Job supervisor actor failed to start within 900.0 seconds."},
            "over",
            Outcome.STOPPED,
        ),
        ({"status": "STOPPED"}, "over", Outcome.CANCELLED),
        ({"status": "REBALANCING"}, "running", Outcome.LOST),
    ],
)
def test_answers_of_ray_are_parsed(row: dict[str, Any], phase: str, outcome: Outcome) -> None:
    assert (status_of(row).phase, status_of(row).outcome) == (phase, outcome)


def test_a_cluster_that_is_not_there_is_marked(tmp_path: Path) -> None:
    given = {"kind": "ray", "address": "http://127.0.0.1:9", "timeout": 1.0}
    queue = Queue(replace(settings_in(tmp_path / "jobs"), environments={"ray": given}))
    (id,) = queue.submit(on_ray("pass"))
    queue.turn(lambda: queue.store.environments()[0].unreachable_since is not None, "it to be marked")
    assert "Connection refused" in queue.store.environments()[0].problem
    assert queue.job(id).state in (State.QUEUED, State.STARTING)
    (check,) = requests.environment_of(queue.settings, "ray").check()
    assert not check.is_right
    assert check.help.startswith("set `address`")
    queue.close()


@pytest.fixture
def dashboard() -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers everything with the same bytes: its address, and these."""
    said = [b""]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said[0])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", said
        server.shutdown()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>Sign in</html>",
        b'[{"submission_id": "leaven-x-1", "sta',
        b'{"jobs": []}',
        b'["leaven-x-1"]',
        b'[{"submission_id": "leaven-x-1", "status": {"a": 1}}]',
        b"null",
    ],
)
def test_an_answer_that_is_garbage_is_none(dashboard: tuple[str, list[bytes]], tmp_path: Path, said: bytes) -> None:
    address, answer = dashboard
    answer[0] = said
    with pytest.raises(Unreachable, match="the answer of Ray can't be understood"):
        Ray({"address": address}, tmp_path, tmp_path / "wake").poll({"x-1": "leaven-x-1"})


def test_jobs_of_others_change_nothing(dashboard: tuple[str, list[bytes]], tmp_path: Path) -> None:
    address, answer = dashboard
    mine = {"submission_id": "leaven-x-1", "status": "PENDING", "metadata": {"needs": "2 cores, no GPUs"}}
    answer[0] = json.dumps([{"submission_id": None, "status": 7}, {"type": "DRIVER"}, mine]).encode()
    status = Ray({"address": address}, tmp_path, tmp_path / "wake").poll({"x-1": "leaven-x-1"})["x-1"]
    assert status.phase == "starting"
    assert status.reason.startswith("waits for 2 cores, no GPUs to be free, or its runtime environment")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ray_cluster.Cluster]:
    if reason := ray_cluster.why_not():
        pytest.skip(reason)
    with ray_cluster.cluster() as found:
        yield found


@pytest.fixture
def queue(cluster: ray_cluster.Cluster, tmp_path: Path) -> Iterator[Queue]:
    given = {"kind": "ray", "address": ray_cluster.ADDRESS, "python": sys.executable, "poll": 0.2, "grace": 20.0}
    found = Queue(replace(settings_in(tmp_path / "jobs"), environments={"ray": given}))
    yield found
    found.close()


def on_ray(text: str, *arguments: str, **more: object) -> requests.Order:
    return order(text, *arguments, **{"environment": "ray", **more})


class TestOnACluster:
    pytestmark = on_a_cluster

    def test_what_the_cluster_has_is_checked(self, queue: Queue) -> None:
        found = list(requests.environment_of(queue.settings, "ray").check())
        assert all(check.is_right for check in found)
        assert found[0].found.startswith("Ray 2.")

    def test_a_job_runs_and_its_log_is_read(self, queue: Queue) -> None:
        (id,) = queue.submit(on_ray("import os, sys; print('job', os.environ['LEAVEN_JOB'], *sys.argv[1:])", "a b"))
        (job,) = queue.finish(id)
        assert (job.state, job.attempts) == (State.SUCCEEDED, 1)
        assert queue.log(id) == f"job {id} a b\n"

    def test_a_failure_is_tried_again(self, queue: Queue) -> None:
        (id,) = queue.submit(on_ray("exit(7)", retries=1))
        assert queue.finish(id)[0].state is State.FAILED
        assert [one.exit_code for one in queue.store.attempts(id)] == [7, 7]

    def test_cancelling_lets_the_program_save(self, queue: Queue) -> None:
        (id,) = queue.submit(on_ray(SAVES))
        begun(queue, id)
        requests.cancel(queue.store, [queue.job(id)])
        assert queue.finish(id)[0].state is State.CANCELLED
        assert (queue.log(id), outcomes(queue, id)) == ("begun\nsaved\n", [Outcome.STOPPED])

    @pytest.mark.parametrize("nodes", [1, 2])
    def test_a_job_that_waits_for_resources_reports_it_and_is_given_up(self, queue: Queue, nodes: int) -> None:
        (block,) = queue.submit(on_ray(SAVES, resources=Resources(cpus=2)))
        begun(queue, block)
        given = {**queue.settings.environments["ray"], "start_within": 0.2}
        queue.settings = replace(queue.settings, environments={"ray": given})
        (id,) = queue.submit(on_ray(SAVES, resources=Resources(cpus=2, nodes=nodes), retries=3))
        needs = "2 cores, no GPUs" if nodes == 1 else "2 nodes with 2 cores, no GPUs each"
        queue.turn(lambda: f"waits for {needs} to be free" in queue.job(id).waits, "the reason")
        (job,) = queue.finish(id)
        assert (job.state, job.attempts) == (State.FAILED, 1)
        assert job.reason.startswith(f"it could not start within 0.2 minutes: waits for {needs}")
        requests.cancel(queue.store, [queue.job(block)])
        queue.finish(block)

    def test_what_is_stopped_in_ray_stays_stopped(self, queue: Queue) -> None:
        (id,) = queue.submit(on_ray(SAVES, retries=3))
        begun(queue, id)
        environment = requests.environment_of(queue.settings, "ray")
        environment._end(queue.store.attempts(id)[0].id)  # type: ignore[attr-defined]  # as its dashboard does
        (job,) = queue.finish(id)
        assert (job.state, job.attempts, job.reason) == (State.CANCELLED, 1, "it was stopped in Ray")
        assert queue.log(id) == "begun\nsaved\n"

    def test_a_job_that_waits_for_resources_is_cancelled_and_never_begins(self, queue: Queue) -> None:
        first, second = queue.submit(*[on_ray(SAVES, resources=Resources(cpus=2)) for _ in range(2)])
        begun(queue, first)
        queue.turn_until(second, State.STARTING)
        requests.cancel(queue.store, [queue.job(second)])
        assert queue.finish(second)[0].state is State.CANCELLED
        requests.cancel(queue.store, [queue.job(first)])
        queue.finish(first)
        (third,) = queue.submit(on_ray("print('third')", resources=Resources(cpus=2)))  # after the one that waited
        assert queue.finish(third)[0].state is State.SUCCEEDED
        assert queue.log(second) == ""

    def test_a_crash_right_after_a_submit_does_not_submit_twice(self, queue: Queue) -> None:
        (id,) = queue.submit(on_ray("print('ran')"))
        queue.turn_until(id, State.STARTING, State.RUNNING)
        (attempt,) = queue.store.attempts(id)
        environment = requests.environment_of(queue.settings, "ray")
        assert environment.poll({attempt.id: ""})[attempt.id].native == f"leaven-{attempt.id}"
        environment.submit(queue.loop._task(queue.job(id), attempt))  # as one that does not know does
        assert queue.finish(id)[0].state is State.SUCCEEDED
        assert (queue.log(id), queue.job(id).attempts) == ("ran\n", 1)

    def test_a_training_whose_node_is_lost_ends_with_the_same_weights(
        self, queue: Queue, cluster: ray_cluster.Cluster, project: Path
    ) -> None:
        slow_down(project)
        (block,) = queue.submit(on_ray(SAVES, resources=Resources(cpus=1)))  # so that the head has no room for it
        begun(queue, block)
        node = cluster.add()
        (id,) = queue.submit(requests.Order(packed(project), "ray", Resources(cpus=2), retries=1))
        run = Path(queue.job(id).run)
        queue.turn(lambda: epochs_in(run) >= 2, "two epochs", 300)
        cluster.kill(node, with_jobs=True)
        requests.cancel(queue.store, [queue.job(block)])
        queue.turn(lambda: queue.job(id).state in ENDED, "the end", 300)
        assert queue.job(id).state is State.SUCCEEDED, queue.log(id)
        assert "resuming" in queue.log(id)
        assert outcomes(queue, id) == [Outcome.LOST, Outcome.SUCCEEDED]
        assert weights(run) == trained_without_interruption(project, threads=2)

    def test_a_job_that_ray_has_lost_saves_and_is_resumed(self, queue: Queue, cluster: ray_cluster.Cluster) -> None:
        """Ray leaves the processes of a job behind when it loses the node that they are on."""
        (block,) = queue.submit(on_ray(SAVES, resources=Resources(cpus=1)))
        begun(queue, block)
        node = cluster.add()
        (id,) = queue.submit(on_ray(SAVES, resources=Resources(cpus=2)))
        begun(queue, id)
        cluster.kill(node, with_jobs=False)
        requests.cancel(queue.store, [queue.job(block)])
        queue.turn(lambda: queue.log(id).count("begun") == 2, "it to begin again")
        assert queue.log(id) == "begun\nsaved\nbegun\n"
        assert (queue.job(id).failures, outcomes(queue, id)) == (0, [Outcome.STOPPED, None])
        requests.cancel(queue.store, [queue.job(id)])
        queue.finish(block, id)

    def test_a_training_on_two_nodes(self, queue: Queue, cluster: ray_cluster.Cluster, project: Path) -> None:
        node = cluster.add()
        package = packed(project, RECIPE.replace(f"epochs={EPOCHS}", "epochs=2"))
        (id,) = queue.submit(requests.Order(package, "ray", Resources(cpus=1, processes=1, nodes=2)))
        queue.turn(lambda: queue.job(id).state in ENDED, "the end", 600)
        assert queue.job(id).state is State.SUCCEEDED, queue.log(id)
        run = Path(queue.job(id).run)
        assert epochs_in(run) == 2
        assert read_json(run / "lock.json")["processes"] == 2
        cluster.kill(node, with_jobs=True)
