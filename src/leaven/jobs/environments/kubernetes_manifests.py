"""The manifests of attempts, as plain data: a Job for one node, a JobSet for several.

What settings don't have a key for is merged into them: `pod` into the template of pods, `job` into the Job or JobSet.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from leaven.jobs.agent import ADDRESS, FIRST, NODE
from leaven.jobs.environments.environment import GRACE, Task
from leaven.jobs.environments.following import PREFIX

ATTEMPT = "leaven/attempt"
LABELS = {"app.kubernetes.io/managed-by": "leaven"}
_QUEUE = "kueue.x-k8s.io/queue-name"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
NODES = "nodes"  # the part of a JobSet that has the pods
_OF_CONTAINERS = (  # what a security context may only have in a container; the rest is its pod's
    "allowPrivilegeEscalation",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
)
_NAMED_BY = ("mountPath", "name")  # the fields by which Kubernetes tells apart what is in a list
_KEPT = 86_400  # seconds for which what has ended is kept
_SENDING = 30  # seconds in which a pod may send what it has saved, after the program has ended


def manifest(task: Task, command: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The object of an attempt, whose pods run a command."""
    name = PREFIX + task.attempt
    labels = {**LABELS, ATTEMPT: task.attempt}
    queued = {**labels, **({_QUEUE: str(settings["queue"])} if settings.get("queue") else {})}
    metadata = {"name": name, "namespace": str(settings.get("namespace") or "default"), "labels": queued}
    pod = {"metadata": {"labels": labels}, "spec": _pod(task, command, settings)}
    pod = merged(merged(pod, settings.get("pod") or {}), {"metadata": {"labels": labels}})
    nodes = task.resources.nodes
    job: dict[str, Any] = {"backoffLimit": 0, "completions": nodes, "parallelism": nodes, "template": pod}
    job["podReplacementPolicy"] = "Failed"  # a pod that may still be running is not replaced
    if nodes == 1:
        spec = {**job, "ttlSecondsAfterFinished": _KEPT}
        return _object("batch/v1", "Job", metadata, spec, settings)
    template = {"metadata": {"labels": labels}, "spec": {**job, "completionMode": "Indexed"}}
    spec = {
        "replicatedJobs": [{"name": NODES, "replicas": 1, "template": template}],
        "failurePolicy": {"maxRestarts": 0},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "ttlSecondsAfterFinished": _KEPT,
    }
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", metadata, spec, settings)


def _object(
    version: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """An object with what is merged into it; it keeps the names by which it is found."""
    named = {"apiVersion": version, "kind": kind, "metadata": metadata}
    found: dict[str, Any] = merged(merged({**named, "spec": spec}, settings.get("job") or {}), named)
    return found


def merged(below: Any, above: Any) -> Any:
    """Two values in one: tables by key, lists of tables by the name that each has, else `above`."""
    if isinstance(below, dict) and isinstance(above, dict):
        both = {key: merged(below[key], above[key]) for key in below.keys() & above.keys()}
        return {**below, **above, **both}
    are_lists = isinstance(below, list) and isinstance(above, list)
    if not are_lists or not above or not all(isinstance(item, dict) for item in below + above):
        return above
    combined = list(below)
    for item in above:
        name = _name(item)
        same = next((place for place, other in enumerate(combined) if name is not None and name == _name(other)), None)
        if same is None:
            combined.append(item)
        else:
            combined[same] = merged(combined[same], item)
    return combined


def _name(one: Mapping[str, Any]) -> tuple[str, Any] | None:
    return next(((field, one[field]) for field in _NAMED_BY if field in one), None)


def _pod(task: Task, command: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    memory: dict[str, Any] = {"medium": "Memory"}
    if settings.get("shm"):
        memory["sizeLimit"] = str(int(settings["shm"]))
    volumes: list[dict[str, Any]] = [{"name": "memory", "emptyDir": memory}]
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
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": int(float(settings.get("grace", GRACE))) + _SENDING,
        "containers": [container],
        "volumes": volumes,
    }
    security = settings.get("security_context") or {}
    if own := {key: value for key, value in security.items() if key in _OF_CONTAINERS}:
        container["securityContext"] = own
    more = {
        "securityContext": {key: value for key, value in security.items() if key not in _OF_CONTAINERS},
        "imagePullSecrets": [{"name": str(name)} for name in settings.get("pull_secrets") or ()],
        "tolerations": settings.get("tolerations"),
        "serviceAccountName": settings.get("service_account"),
        "nodeSelector": {key: str(value) for key, value in (settings.get("selector") or {}).items()},
    }
    return spec | {key: value for key, value in more.items() if value}


def _variables(task: Task) -> list[dict[str, Any]]:
    """The variables of the agent; those of the program, some of which are secret, are in the attempt's files."""
    if task.resources.nodes == 1:
        return []
    name = PREFIX + task.attempt
    return [
        {"name": FIRST, "value": f"{name}-{NODES}-0-0.{name}"},
        {"name": NODE, "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        {"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


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
