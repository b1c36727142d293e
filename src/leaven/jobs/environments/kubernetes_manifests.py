"""The manifests of attempts, as plain data: a Job for one node, a JobSet for several."""

from collections.abc import Mapping, Sequence
from typing import Any

from leaven.jobs.agent import ADDRESS, FIRST, NODE
from leaven.jobs.environments.environment import GRACE, Task
from leaven.jobs.environments.following import PREFIX

ATTEMPT = "leaven/attempt"
LABELS = {"app.kubernetes.io/managed-by": "leaven"}
_QUEUE = "kueue.x-k8s.io/queue-name"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_NODES = "nodes"  # the part of a JobSet that has the pods
_KEPT = 86_400  # seconds for which what has ended is kept
_SENDING = 30  # seconds in which a pod may send what it has saved, after the program has ended


def manifest(task: Task, command: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The object of an attempt, whose pods run a command."""
    name = PREFIX + task.attempt
    labels = {**LABELS, ATTEMPT: task.attempt}
    queued = {**labels, **({_QUEUE: str(settings["queue"])} if settings.get("queue") else {})}
    metadata = {"name": name, "namespace": str(settings.get("namespace") or "default"), "labels": queued}
    pod = {"metadata": {"labels": labels}, "spec": _pod(task, command, settings)}
    nodes = task.resources.nodes
    job: dict[str, Any] = {"backoffLimit": 0, "completions": nodes, "parallelism": nodes, "template": pod}
    job["podReplacementPolicy"] = "Failed"  # a pod that may still be running is not replaced
    if nodes == 1:
        spec = {**job, "ttlSecondsAfterFinished": _KEPT}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": {**job, "completionMode": "Indexed"}}
    spec = {
        "replicatedJobs": [{"name": _NODES, "replicas": 1, "template": template}],
        "failurePolicy": {"maxRestarts": 0},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "ttlSecondsAfterFinished": _KEPT,
    }
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _pod(task: Task, command: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "memory", "mountPath": "/dev/shm"}]  # 64 MB are too little for workers that load data
    if settings.get("claim"):
        volumes.append({"name": "shared", "persistentVolumeClaim": {"claimName": str(settings["claim"])}})
        mounts.append({"name": "shared", "mountPath": str(settings.get("mount") or "/shared")})
    container: dict[str, Any] = {
        "name": "program",
        "image": str(settings["image"]),
        "command": list(command),
        "env": _variables(task),
        "resources": _resources(task, settings),
        "volumeMounts": mounts,
    }
    if settings.get("secret"):  # what gives access to the object store and the data
        container["envFrom"] = [{"secretRef": {"name": str(settings["secret"])}}]
    found: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": int(float(settings.get("grace", GRACE))) + _SENDING,
        "containers": [container],
        "volumes": volumes,
    }
    if settings.get("service_account"):
        found["serviceAccountName"] = str(settings["service_account"])
    if settings.get("selector"):
        found["nodeSelector"] = {key: str(value) for key, value in settings["selector"].items()}
    return found


def _variables(task: Task) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in task.variables.items()]
    if task.resources.nodes > 1:
        name = PREFIX + task.attempt
        found.append({"name": FIRST, "value": f"{name}-{_NODES}-0-0.{name}"})
        found.append({"name": NODE, "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}})
        found.append({"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    return found


def _resources(task: Task, settings: Mapping[str, Any]) -> dict[str, Any]:
    needs = task.resources
    requests = {"cpu": str(needs.cpus)}
    limits: dict[str, str] = {}
    if needs.memory:
        requests["memory"] = limits["memory"] = str(needs.memory)
    if needs.gpus:
        kind = str(settings.get("gpu") or "nvidia.com/gpu")
        requests[kind] = limits[kind] = str(needs.gpus)
    return {"requests": requests, **({"limits": limits} if limits else {})}
