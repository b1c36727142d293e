"""Jobs on Kubernetes: manifests by its schemas, and the client's calls against a server that plays the cluster."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in, wait_until
from tests.unit.jobs.test_reconcile import SAVES, outcomes
from tests.unit.jobs.test_trainings import epochs_in, packed, project, slow_down, trained_without_interruption, weights

from leaven.jobs import requests
from leaven.jobs.environments import following
from leaven.jobs.environments.environment import Position, Task, Unreachable
from leaven.jobs.environments.kubernetes_manifests import manifest, merged
from leaven.jobs.environments.kubernetes_status import status_of
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
    "pull_secrets": ["registry"],
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "security_context": {"runAsUser": 1000, "fsGroup": 1000, "allowPrivilegeEscalation": False},
    "shm": 8 * 10**9,
    "pod": {
        "metadata": {"annotations": {"team": "vision"}},
        "spec": {
            "priorityClassName": "high",
            "containers": [{"name": "program", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}],
            "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
        },
    },
    "job": {"metadata": {"labels": {"team": "vision"}}},
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
    return Task(place.name, place, Path("/r"), Path("/p"), Entry.PROGRAM, (), given, variables={"HF_TOKEN": "secret-7"})


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
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["tolerations"] == FULL["tolerations"]
    assert pod["securityContext"] == {"runAsUser": 1000, "fsGroup": 1000}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}
    assert pod["volumes"][0] == {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8000000000"}}


def test_what_has_no_key_of_its_own_is_merged_into_the_manifest() -> None:
    found = manifest(task(), WORDS, FULL)
    pod = found["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["annotations"] == {"team": "vision"}
    assert pod["spec"]["priorityClassName"] == "high"
    assert [one["name"] for one in pod["spec"]["volumes"]] == ["memory", "shared", "data"]
    assert (container["command"], container["image"]) == (WORDS, FULL["image"])
    assert [one["name"] for one in container["env"]] == ["NCCL_DEBUG"]
    assert found["metadata"]["labels"]["team"] == "vision"
    assert found["metadata"]["labels"]["leaven/attempt"] == "ab12cd-7-1-ffee"


@pytest.mark.parametrize("nodes", [1, 2])
def test_variables_of_the_program_are_not_in_the_manifest(nodes: int) -> None:
    """Whoever may look at Jobs would see secrets there."""
    assert "secret-7" not in json.dumps(manifest(task(nodes=nodes), WORDS, FULL))


def test_an_object_keeps_the_names_by_which_it_is_found() -> None:
    mine = {"metadata": {"name": "mine", "namespace": "other", "labels": {"leaven/attempt": "x"}}}
    settings = {"image": "x", "job": {**mine, "kind": "Pod"}, "pod": mine}
    assert manifest(task(), WORDS, settings)["metadata"] == manifest(task(), WORDS, {"image": "x"})["metadata"]
    assert manifest(task(), WORDS, settings)["kind"] == "Job"
    labels = manifest(task(), WORDS, settings)["spec"]["template"]["metadata"]["labels"]
    assert labels["leaven/attempt"] == "ab12cd-7-1-ffee"


@pytest.mark.parametrize(
    ("below", "above", "both"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ([{"name": "a", "x": 1}], [{"name": "b"}, {"name": "a", "x": 2}], [{"name": "a", "x": 2}, {"name": "b"}]),
        (
            [{"name": "v", "mountPath": "/a"}],
            [{"name": "v", "mountPath": "/b"}],
            [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
        ),
        ([{"key": "a"}], [{"key": "b"}], [{"key": "a"}, {"key": "b"}]),
        (["python"], ["sh"], ["sh"]),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": "text"}),
        ([{"name": "a"}], [], []),
    ],
)
def test_two_values_in_one(below: Any, above: Any, both: Any) -> None:
    assert merged(below, above) == both


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
    return "".join(
        environment.logs(one.id, one.native, Position(), 10**6)[0].decode() for one in queue.store.attempts(id)
    )


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


def test_a_pod_that_is_taken_saves_and_its_job_is_resumed(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    (id,) = queue.submit(on_cluster(SAVES))
    runs(queue, id)
    for pod in cluster.pods.values():
        pod.send_signal(signal.SIGTERM)
    runs(queue, id, 2)
    assert "saved" in printed(queue, id)
    assert (queue.job(id).failures, outcomes(queue, id)) == (0, [Outcome.STOPPED, None])
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


def test_a_pod_that_is_gone_without_a_report_counts_by_the_status_of_the_cluster(
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


QUOTA = "exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=5, limited: count/jobs.batch=5"


def test_a_job_over_the_quota_of_jobs_waits_and_starts_later(
    queue: Queue, cluster: kubernetes_server.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.quota = QUOTA
    (id,) = queue.submit(on_cluster("print('ran')"))
    reason = "a quota of the namespace is used up (Kubernetes: jobs.batch is forb"
    queue.turn(lambda: queue.job(id).waits.startswith(reason), "the reason")
    for _ in range(5):
        queue.loop.tick()
    assert cluster.asked == 1
    cluster.quota = ""
    monkeypatch.setattr(following.time, "monotonic", lambda now=time.monotonic: now() + 61.0)
    (job,) = queue.finish(id)
    assert (job.state, job.attempts, cluster.asked) == (State.SUCCEEDED, 1, 2)


def test_a_job_that_waits_for_a_quota_can_be_cancelled_and_is_given_up_in_time(
    queue: Queue, cluster: kubernetes_server.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.quota = QUOTA
    given = {**queue.settings.environments["k8s"], "start_within": 0.5}
    queue.settings = replace(queue.settings, environments={"k8s": given})
    cancelled, late = queue.submit(on_cluster(""), on_cluster(""))
    queue.turn(lambda: queue.job(cancelled).waits and queue.job(late).waits, "a reason")
    requests.cancel(queue.store, [queue.job(cancelled)])
    assert queue.finish(cancelled)[0].state is State.CANCELLED
    monkeypatch.setattr(following.time, "monotonic", lambda now=time.monotonic: now() + 31.0)
    (job,) = queue.finish(late)
    assert (job.state, len(cluster.objects)) == (State.FAILED, 0)
    assert job.reason.startswith("it could not start within 0.5 minutes: a quota of the namespace is used up")


def test_a_field_that_kubernetes_does_not_know_is_refused(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    given = {**queue.settings.environments["k8s"], "pod": {"spec": {"toleration": []}}}
    queue.settings = replace(queue.settings, environments={"k8s": given})
    (id,) = queue.submit(on_cluster("", retries=3))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.FAILED, 1)
    assert "tolerations" in job.reason or "toleration" in job.reason


PENDING = {"phase": "Pending"}
SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
PULL = {"name": "program", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
MAKING = {"name": "program", "state": {"waiting": {"reason": "ContainerCreating"}}}


def event(name: str, reason: str, message: str, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": at, "involvedObject": {"name": name}}


@pytest.mark.parametrize(
    ("pod", "events", "told"),
    [
        (None, [], "no pod was made for it yet"),
        (
            None,
            [("", "FailedCreate", "exceeded quota: team, requested: cpu=1")],
            "no pod can be made for it (Kubernetes: FailedCreate: exceeded quota: team, requested: cpu=1)",
        ),
        (
            {**PENDING, "conditions": [SCHEDULED]},
            [],
            "no node has room for it (Kubernetes: Unschedulable: 0/3 nodes are available)",
        ),
        (
            {**PENDING, "containerStatuses": [PULL]},
            [],
            "its image can't be pulled (Kubernetes: ImagePullBackOff: no such image)",
        ),
        (
            {**PENDING, "containerStatuses": [MAKING]},
            [("-x", "FailedMount", 'secret "s3" not found')],
            'its pod can\'t be started (Kubernetes: FailedMount: secret "s3" not found)',
        ),
        ({**PENDING, "containerStatuses": [MAKING]}, [], "its pod is being prepared"),
    ],
)
def test_why_a_job_does_not_start(
    queue: Queue,
    cluster: kubernetes_server.Cluster,
    pod: dict[str, Any] | None,
    events: list[tuple[str, str, str]],
    told: str,
) -> None:
    cluster.is_full, cluster.waiting = True, pod
    (id,) = queue.submit(on_cluster(SAVES))
    queue.turn(lambda: cluster.objects, "it to be submitted")
    (name,) = cluster.objects
    cluster.events = [event(name + end, reason, message) for end, reason, message in events]
    (attempt,) = queue.store.attempts(id)
    status = requests.environment_of(queue.settings, "k8s").poll({attempt.id: name})[attempt.id]
    assert (status.phase, status.reason) == ("starting", told)


def test_what_does_not_start_in_time_is_given_up(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    cluster.is_full = True
    given = {**queue.settings.environments["k8s"], "start_within": 0.01}
    queue.settings = replace(queue.settings, environments={"k8s": given})
    (id,) = queue.submit(on_cluster(SAVES, retries=3))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts, cluster.objects) == (State.FAILED, 1, {})
    assert job.reason == "it could not start within 0.01 minutes: no pod was made for it yet"


def job_of(nodes: int) -> dict[str, Any]:
    return {"metadata": {"name": "leaven-x"}, **manifest(task(nodes=nodes), WORDS, {"image": "x"})}


def test_on_several_nodes_an_attempt_is_running_when_all_of_its_pods_are() -> None:
    waits = {"status": {**PENDING, "conditions": [SCHEDULED]}}
    status = status_of(job_of(3), [{"status": {"phase": "Running"}}, waits])
    told = "1 of 3 pods are running; no node has room for it (Kubernetes: Unschedulable: 0/3 nodes are available)"
    assert (status.phase, status.reason) == ("waiting", told)
    assert status_of(job_of(3), [{"status": {"phase": "Running"}}] * 3).phase == "running"
    assert status_of(job_of(1), [{"status": {"phase": "Running"}}]).phase == "running"


def test_what_kueue_holds_back_waits_for_its_turn() -> None:
    job = {**job_of(1), "spec": {"suspend": True}}
    assert status_of(job, []).reason == "waits for its turn in the queue (Kubernetes: Suspended)"


def test_a_pod_that_used_too_much_memory_reports_it() -> None:
    failed = {**job_of(1), "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    ended = {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    status = status_of(failed, [{"status": {"phase": "Failed", "containerStatuses": [ended]}}])
    assert (status.outcome, status.exit_code, status.knows_why) == (Outcome.FAILED, 137, True)


LABEL = {"app.kubernetes.io/managed-by": "leaven"}


def test_jobs_of_others_with_our_labels_change_nothing(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    cluster.foreign = [
        {"metadata": {"name": "other", "labels": LABEL}},
        {"metadata": {"name": "bare"}},
        {"metadata": None, "status": []},
        {"metadata": {"name": "odd", "labels": {**LABEL, "leaven/attempt": 7}}, "status": {"conditions": "no"}},
    ]
    (id,) = queue.submit(on_cluster(SAVES))
    runs(queue, id)
    (attempt,) = queue.store.attempts(id)
    ended = {"conditions": [{"type": "Failed", "status": "True"}]}
    copied = {"name": "copy", "labels": {**LABEL, "leaven/attempt": attempt.id}}
    cluster.foreign.append({"metadata": copied, "status": ended})
    for _ in range(3):
        queue.loop.tick()
    assert queue.job(id).state is State.RUNNING
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)


@pytest.mark.parametrize("garbage", ["<html>Sign in</html>", '{"kind": "JobList"', "[]", "{}", '{"items": [7]}', ""])
def test_an_answer_that_is_garbage_is_none(queue: Queue, cluster: kubernetes_server.Cluster, garbage: str) -> None:
    cluster.garbage = garbage
    with pytest.raises(Unreachable, match="the answer of Kubernetes can't be understood"):
        requests.environment_of(queue.settings, "k8s").poll({"x-1": "leaven-x-1"})


def test_a_crash_right_after_a_submit_does_not_submit_twice(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
    (id,) = queue.submit(on_cluster("print('ran')"))
    queue.turn_until(id, State.STARTING)
    (attempt,) = queue.store.attempts(id)
    environment = requests.environment_of(queue.settings, "k8s")
    assert environment.poll({attempt.id: ""})[attempt.id].native == f"leaven-{attempt.id}"
    environment.submit(queue.loop._task(queue.job(id), attempt))  # as one that does not know does
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert (len(cluster.created), printed(queue, id)) == (1, "ran\n")


def test_missing_parts_are_reported(queue: Queue, cluster: kubernetes_server.Cluster) -> None:
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
