"""Jobs on Kubernetes: manifests by its schemas, and the client's calls against a server that plays the cluster."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in, wait_until
from tests.unit.jobs.test_reconcile import SAVES, outcomes
from tests.unit.jobs.test_trainings import epochs_in, packed, project, slow_down, trained_without_interruption, weights

from leaven.jobs import requests
from leaven.jobs.environments.environment import Task
from leaven.jobs.environments.kubernetes_manifests import manifest
from leaven.jobs.resources import Resources
from leaven.jobs.states import ENDED, Entry, Outcome, State

__all__ = ["project"]  # a fixture
pytest.importorskip("kubernetes")
kubernetes_validate = pytest.importorskip("kubernetes_validate")
from tests.unit.jobs import kubernetes_server  # noqa: E402

VERSIONS = ("1.29", "1.31", "1.33")
WORDS = ["python", "-m", "leaven.jobs.agent", "/shared/jobs/attempts/ab12cd-7-1-ffee"]
FULL = {
    "image": "registry/leaven:0.1",
    "namespace": "ml",
    "claim": "work",
    "mount": "/shared",
    "queue": "team",
    "secret": "s3",
    "service_account": "trainer",
    "selector": {"gpu": "a100"},
}
# what a JobSet may have besides the template of its jobs, by its published API (jobset.x-k8s.io/v1alpha2)
_TEXT, _NUMBER, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


JOBSET = _object(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata=_object(["name"], name=_TEXT, namespace=_TEXT, labels={"type": "object"}),
    spec=_object(
        ["replicatedJobs"],
        replicatedJobs={
            "type": "array",
            "items": _object(
                ["name", "template"], name=_TEXT, groupName=_TEXT, replicas=_NUMBER, template={"type": "object"}
            ),
        },
        network=_object([], enableDNSHostnames=_FLAG, subdomain=_TEXT, publishNotReadyAddresses=_FLAG),
        successPolicy={"type": "object"},
        failurePolicy=_object([], maxRestarts=_NUMBER, restartStrategy=_TEXT, rules={"type": "array"}),
        suspend=_FLAG,
        managedBy=_TEXT,
        ttlSecondsAfterFinished=_NUMBER,
    ),
)


def task(**resources: Any) -> Task:
    place = Path("/shared/jobs/attempts/ab12cd-7-1-ffee")
    given = Resources(**resources)
    return Task(place.name, place, Path("/r"), Path("/p"), Entry.PROGRAM, (), given, variables={"LEAVEN_JOB": "7"})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("settings", [{"image": "x"}, FULL, {"image": "x", "store": "s3://b/l", "gpu": "amd.com/gpu"}])
@pytest.mark.parametrize(
    "resources", [{}, {"cpus": 8, "memory": 32 * 10**9, "gpus": 2}, {"gpus": 1, "nodes": 4, "minutes": 90.0}]
)
def test_manifests_are_strictly_valid(version: str, settings: dict[str, Any], resources: dict[str, Any]) -> None:
    import jsonschema

    found = manifest(task(**resources), WORDS, settings)
    if found["kind"] == "JobSet":
        jsonschema.validate(found, JOBSET)
        (part,) = found["spec"]["replicatedJobs"]
        found = {"apiVersion": "batch/v1", "kind": "Job", **part["template"]}
    kubernetes_validate.validate(found, version, strict=True)


def test_a_manifest_that_is_wrong_is_found() -> None:
    found = manifest(task(), WORDS, FULL)
    found["spec"]["template"]["spec"]["containers"][0]["comand"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="comand"):
        kubernetes_validate.validate(found, VERSIONS[0], strict=True)


def test_a_job_asks_for_what_it_needs() -> None:
    found = manifest(task(cpus=8, memory=32 * 10**9, gpus=2), WORDS, FULL)
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == WORDS
    assert container["resources"]["requests"] == {"cpu": "8", "memory": "32000000000", "nvidia.com/gpu": "2"}
    assert container["envFrom"] == [{"secretRef": {"name": "s3"}}]
    assert pod["terminationGracePeriodSeconds"] == 90
    assert pod["nodeSelector"] == {"gpu": "a100"}


def test_the_pods_of_several_nodes_know_the_first_one() -> None:
    found = manifest(task(nodes=2), WORDS, FULL)
    job = found["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (2, 2, "Indexed")
    variables = {one["name"]: one for one in job["template"]["spec"]["containers"][0]["env"]}
    name = "leaven-ab12cd-7-1-ffee"
    assert variables["LEAVEN_FIRST_NODE"]["value"] == f"{name}-nodes-0-0.{name}"
    assert "job-completion-index" in variables["LEAVEN_NODE"]["valueFrom"]["fieldRef"]["fieldPath"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[kubernetes_server.Cluster]:
    with kubernetes_server.cluster(tmp_path) as found:
        yield found


@pytest.fixture(params=["volume", pytest.param("store", marks=pytest.mark.slow)])
def queue(cluster: kubernetes_server.Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Queue]:
    given: dict[str, Any] = {"kind": "kubernetes", "config": str(cluster.config), "image": "x", "poll": 0.05}
    given |= {"python": sys.executable, "grace": 20.0, "timeout": 5.0, "scratch": str(tmp_path / "scratch")}
    if request.param == "volume":
        given |= {"claim": "work", "mount": str(tmp_path)}
    else:
        given |= {"store": f"file://{tmp_path}/bucket"}
    found = Queue(replace(settings_in(tmp_path / "jobs"), environments={"k8s": given}))
    yield found
    found.close()


def on_cluster(text: str, *arguments: str, **more: object) -> requests.Order:
    return order(text, *arguments, **{"environment": "k8s", **more})


def printed(queue: Queue, id: int) -> str:
    environment = requests.environment_of(queue.settings, "k8s")
    return "".join(environment.logs(one.id, one.native, 0).decode() for one in queue.store.attempts(id))


def runs(queue: Queue, id: int, times: int = 1) -> None:
    """Turn the loop until the program has begun, and its log has come here."""
    queue.turn(lambda: printed(queue, id).count("begun") >= times, "it to begin")
    queue.turn_until(id, State.RUNNING)


def test_a_job_runs_and_its_log_is_read(queue: Queue) -> None:
    text = "import os, sys; open(sys.argv[1], 'w').write('made'); print('job', os.environ['LEAVEN_JOB'])"
    (id,) = queue.submit(on_cluster(text, "result.txt"))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts, job.reason) == (State.SUCCEEDED, 1, "")
    assert printed(queue, id) == f"job {id}\n"
    assert (Path(job.run) / "result.txt").read_text() == "made"


def test_a_failure_is_tried_again_with_what_was_saved(queue: Queue) -> None:
    text = "import pathlib; file = pathlib.Path('state'); n = file.exists(); file.touch(); exit(0 if n else 7)"
    (id,) = queue.submit(on_cluster(text, retries=1))
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert outcomes(queue, id) == [Outcome.FAILED, Outcome.SUCCEEDED]
    assert queue.store.attempts(id)[0].exit_code == 7


def test_cancelling_lets_the_program_save(queue: Queue) -> None:
    (id,) = queue.submit(on_cluster(SAVES))
    runs(queue, id)
    requests.cancel(queue.store, [queue.job(id)])
    assert queue.finish(id)[0].state is State.CANCELLED
    assert "saved" in printed(queue, id)


def test_a_job_that_waits_is_cancelled_and_never_begins(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    cluster.is_full = True
    (id,) = queue.submit(on_cluster(SAVES))
    queue.turn_until(id, State.STARTING)
    wait_until(lambda: cluster.objects)
    requests.cancel(queue.store, [queue.job(id)])
    assert queue.finish(id)[0].state is State.CANCELLED
    assert (cluster.objects, printed(queue, id)) == ({}, "")


def test_a_pod_that_is_taken_saves_and_its_job_goes_on(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    (id,) = queue.submit(on_cluster(SAVES))
    runs(queue, id)
    for pod in cluster.pods.values():
        pod.send_signal(signal.SIGTERM)
    runs(queue, id, 2)
    assert "saved" in printed(queue, id)
    assert (queue.job(id).failures, outcomes(queue, id)) == (0, [Outcome.STOPPED, None])
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_a_pod_that_is_gone_without_a_word_counts_by_what_the_cluster_says(
    queue: Queue, cluster: kubernetes_server.Cluster
) -> None:
    (id,) = queue.submit(on_cluster(SAVES, retries=1))
    runs(queue, id)
    ((name, pod),) = cluster.pods.items()
    cluster.disrupted.add(name)
    pod.kill()
    runs(queue, id, 2)
    assert (queue.job(id).failures, outcomes(queue, id)) == (0, [Outcome.STOPPED, None])
    for found in cluster.pods.values():
        found.kill()
    queue.turn(lambda: len(outcomes(queue, id)) == 3, "a third attempt")
    assert outcomes(queue, id)[1] is Outcome.FAILED
    assert queue.store.attempts(id)[1].reason == "Kubernetes says: Error, exit code 9"
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_a_cluster_that_does_not_answer_is_marked_and_nothing_is_lost(
    queue: Queue, cluster: kubernetes_server.Cluster
) -> None:
    cluster.is_down = True
    (id,) = queue.submit(on_cluster("print('ran')"))
    queue.turn(lambda: queue.store.environments()[0].unreachable_since is not None, "it to be marked")
    assert "unable to handle the request" in queue.store.environments()[0].problem
    cluster.is_down = False
    queue.loop._ask_at = dict.fromkeys(queue.loop._ask_at, 0.0)
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert (queue.job(id).attempts, len(cluster.created)) == (1, 1)


def test_what_the_cluster_refuses_has_failed_with_its_reason(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    cluster.is_allowed = False
    (id,) = queue.submit(on_cluster("", retries=3))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.FAILED, 1)
    assert job.reason.startswith("Kubernetes refuses it: jobs.batch is forbidden")


def test_a_crash_right_after_a_submit_does_not_submit_twice(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    (id,) = queue.submit(on_cluster("print('ran')"))
    queue.turn_until(id, State.STARTING)
    (attempt,) = queue.store.attempts(id)
    environment = requests.environment_of(queue.settings, "k8s")
    assert environment.find(attempt.id) == f"leaven-{attempt.id}"
    environment.submit(queue.loop._task(queue.job(id), attempt))  # as one that does not know does
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert (len(cluster.created), printed(queue, id)) == (1, "ran\n")


def test_what_is_missing_is_said(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    environment = requests.environment_of(queue.settings, "k8s")
    found = {check.what: check for check in environment.check()}
    assert all(check.is_right for check in found.values()), found
    assert found["GPUs"].found == "4"
    assert found["the cluster"].found == "Kubernetes v1.31.0"
    cluster.is_allowed = False
    bad = [check for check in environment.check() if not check.is_right]
    assert [check.what for check in bad] == [
        "permission to create jobs",
        "permission to create jobsets",
        "permission to list pods",
    ]
    given = {**queue.settings.environments["k8s"], "mount": "/elsewhere", "claim": "work", "store": "", "image": ""}
    changed = replace(queue.settings, environments={"k8s": given})
    bad = [check for check in requests.environment_of(changed, "k8s").check() if not check.is_right]
    assert [check.what for check in bad[-2:]] == ["image", "shared folder"]
    assert "is not in /elsewhere" in bad[-1].found


def test_without_a_kubeconfig_the_cluster_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    queue = Queue(replace(settings_in(tmp_path / "jobs"), environments={"k8s": {"kind": "kubernetes", "image": "x"}}))
    (id,) = queue.submit(on_cluster(""))
    queue.turn(lambda: queue.store.environments()[0].unreachable_since is not None, "it to be marked")
    assert "kube-config" in queue.store.environments()[0].problem
    assert queue.job(id).state is State.STARTING
    queue.close()


def test_a_lost_machine_is_resumed_from_what_was_sent(cluster: kubernetes_server.Cluster, tmp_path: Path) -> None:
    """The run is in the store of the attempt, and is fetched before the next one."""
    store = tmp_path / "bucket"
    given = {
        "kind": "kubernetes",
        "config": str(cluster.config),
        "image": "x",
        "poll": 0.05,
        "store": f"file://{store}",
    }
    given |= {"python": sys.executable, "scratch": str(tmp_path / "scratch")}
    queue = Queue(replace(settings_in(tmp_path / "jobs"), environments={"k8s": given}))
    text = "import os, time; print('begun', os.path.exists('checkpoint'), flush=True); time.sleep(600)"
    (id,) = queue.submit(on_cluster(text, retries=1))
    runs(queue, id)
    (attempt,) = queue.store.attempts(id)
    (store / attempt.id / "run" / "checkpoint").touch()  # as the agent sends it from time to time
    os.kill(next(iter(cluster.pods.values())).pid, signal.SIGKILL)
    runs(queue, id, 2)
    assert printed(queue, id).split() == ["begun", "False", "begun", "True"]
    assert json.loads((Path(queue.job(id).run) / "lock.json").read_text())["package"] == queue.job(id).package
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)
    queue.close()


@pytest.mark.slow
@pytest.mark.jobs
def test_a_training_that_goes_through_a_store_and_is_evicted_ends_with_the_same_weights(
    cluster: kubernetes_server.Cluster, project: Path
) -> None:
    slow_down(project)
    given = {"kind": "kubernetes", "config": str(cluster.config), "image": "x", "poll": 0.2, "grace": 60.0}
    given |= {"python": sys.executable, "scratch": str(project / "scratch"), "store": f"file://{project}/bucket"}
    queue = Queue(replace(settings_in(project / "jobs"), environments={"k8s": given}))
    (id,) = queue.submit(requests.Order(packed(project), "k8s", Resources(cpus=1)))
    queue.turn_until(id, State.RUNNING)
    there = project / "scratch" / queue.store.attempts(id)[0].id / "run"
    queue.turn(lambda: epochs_in(there) >= 2, "two epochs", 300)
    for pod in cluster.pods.values():
        pod.send_signal(signal.SIGTERM)
    queue.turn(lambda: queue.job(id).state in ENDED, "the end", 300)
    assert outcomes(queue, id) == [Outcome.STOPPED, Outcome.SUCCEEDED]
    assert "resuming" in printed(queue, id)
    assert queue.job(id).progress
    assert weights(Path(queue.job(id).run)) == trained_without_interruption(project)
    queue.close()
