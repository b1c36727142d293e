"""The statuses of attempts on Kubernetes, from the objects of a cluster as plain data, whoever has made them.

Nothing is believed to be there: a namespace has objects of others, and versions of Kubernetes differ. On several nodes
an attempt is running once all of its pods are: until then those that are there wait for the others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from leaven.jobs.environments.answers import rows, table
from leaven.jobs.environments.following import PREFIX, EngineStatus
from leaven.jobs.environments.kubernetes_manifests import ATTEMPT, NODES
from leaven.jobs.states import Outcome

Object = Mapping[str, Any]
_STARTED = ("Running", "Succeeded", "Failed")
_LOST = ("NodeLost", "NodeShutdown", "Terminated", "UnexpectedAdmissionError")
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ImageInspectError", "ErrImageNeverPull")
_IN_PREPARATION = ("ContainerCreating", "PodInitializing", "")


def attempt_of(job: Object) -> str | None:
    """The attempt of a Job or JobSet that was made for it; None for any other, also one with copied labels."""
    metadata = table(job.get("metadata"))
    attempt = table(metadata.get("labels")).get(ATTEMPT)
    return attempt if isinstance(attempt, str) and metadata.get("name") == PREFIX + attempt else None


def pods_of(attempt: str, pods: Sequence[Object]) -> list[Object]:
    """The pods that Kubernetes has made for an attempt."""
    name = PREFIX + attempt
    owned = [(pod, rows(table(pod.get("metadata")).get("ownerReferences"))) for pod in pods]
    return [pod for pod, owners in owned if any(f"{owner.get('name')}-".startswith(f"{name}-") for owner in owners)]


def status_of(job: Object, pods: Sequence[Object]) -> EngineStatus:
    """The status of an attempt, by its Job or JobSet and its pods."""
    conditions = _conditions(job)
    if "Complete" in conditions or "Completed" in conditions:
        return EngineStatus("over", Outcome.SUCCEEDED)
    if "Failed" in conditions:
        return _failed(conditions["Failed"], pods)
    phases = [table(pod.get("status")).get("phase") for pod in pods]
    spec = table(job.get("spec"))
    specs = [table(table(job.get("template")).get("spec")) for job in rows(spec.get("replicatedJobs"))] or [spec]
    wanted = sum(count if isinstance(count := spec.get("parallelism"), int) else 1 for spec in specs)
    started = sum(phase in _STARTED for phase in phases)
    if started >= wanted:
        return EngineStatus("running")
    some = f"{started} of {wanted} pods are running" if started else ""
    return EngineStatus("waiting", reason="; ".join(filter(None, (some, _why_it_waits(job, pods)))))


def _conditions(thing: Object) -> dict[str, Object]:
    """The conditions that hold, by type."""
    conditions = rows(table(thing.get("status")).get("conditions"))
    return {str(condition.get("type")): condition for condition in conditions if condition.get("status") == "True"}


def _failed(condition: Object, pods: Sequence[Object]) -> EngineStatus:
    """Why a job has failed: its pods know better than itself."""
    for pod in pods:
        status = table(pod.get("status"))
        if taken := _conditions(pod).get("DisruptionTarget"):
            reason = f"Kubernetes has taken its pod: {taken.get('message', '')}"
            return EngineStatus("over", Outcome.STOPPED, reason=reason)
        if status.get("reason") in _LOST:
            return EngineStatus("over", Outcome.LOST, reason=f"its node was lost ({status['reason']})")
        for container in rows(status.get("containerStatuses")):
            ended = table(table(container.get("state")).get("terminated"))
            code = ended.get("exitCode")
            if isinstance(code, int) and code:
                if ended.get("reason") == "OOMKilled":
                    why = "it used more memory than it asked for (Kubernetes: OOMKilled)"
                    return EngineStatus("over", Outcome.FAILED, code, why, knows_why=True)
                why = f"Kubernetes says: {ended.get('reason', 'Error')}, exit code {code}"
                return EngineStatus("over", Outcome.FAILED, code, why)
    return EngineStatus("over", reason=f"Kubernetes says: {condition.get('message', 'it has failed')}")


def _why_it_waits(job: Object, pods: Sequence[Object]) -> str:
    """Why a job has not started, as far as it and its pods say."""
    if table(job.get("spec")).get("suspend") is True:
        return "waits for its turn in the queue (Kubernetes: Suspended)"
    for pod in pods:
        status = table(pod.get("status"))
        for field in ("initContainerStatuses", "containerStatuses"):
            for container in rows(status.get(field)):
                waiting = table(table(container.get("state")).get("waiting"))
                if waiting and waiting.get("reason", "") not in _IN_PREPARATION:
                    is_image = waiting["reason"] in _IMAGE
                    plain = "its image can't be pulled" if is_image else "its container can't be started"
                    return f"{plain} (Kubernetes: {_words(waiting)})"
        for condition in rows(status.get("conditions")):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return f"no node has room for it (Kubernetes: {_words(condition)})"
    return ""


def may_say_why(attempt: str, pods: Sequence[Object]) -> list[str]:
    """The names of the objects whose events may say why an attempt has not started, where they themselves don't."""
    own = [str(name) for pod in pods if (name := table(pod.get("metadata")).get("name"))]
    return own[:1] if own else [PREFIX + attempt, f"{PREFIX}{attempt}-{NODES}-0"]


def why_by_events(events: Sequence[Object], *, has_pods: bool) -> str:
    """Why an attempt has not started, by the last warning about it."""
    if not events:
        return "its pod is being prepared" if has_pods else "no pod was made for it yet"
    last = max(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    plain = "its pod can't be started" if has_pods else "no pod can be made for it"
    return f"{plain} (Kubernetes: {_words(last)})"


def _words(about: Object) -> str:
    """Kubernetes' own words for something: the reason and the message."""
    return ": ".join(str(about[key]) for key in ("reason", "message") if about.get(key))
