"""A Kubernetes cluster: an attempt is a Job of one pod, or a JobSet with a pod on each of several nodes.

Objects are named after the attempt, so that one is never created twice. A pod runs the agent of the attempt once:
retries are the coordinator's, which also knows what a preemption is. With `queue`, Kueue decides when it starts.

Manifests are plain data, which `kubernetes_manifests.py` writes; here they are applied by the official client.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leaven.jobs.environments import places
from leaven.jobs.environments.environment import Check, Refused, Task, Unreachable
from leaven.jobs.environments.following import PREFIX, Followed, Said
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.kubernetes_manifests import ATTEMPT, LABELS, manifest
from leaven.jobs.environments.launching import agent_command
from leaven.jobs.states import Outcome

KEYS = {
    **places.KEYS,
    **dict.fromkeys(("image", "namespace", "context", "config", "claim", "mount"), Form.STRING),
    **dict.fromkeys(("queue", "secret", "service_account", "gpu"), Form.STRING),
    "selector": Form.TABLE,
    "poll": Form.NUMBER,
    "timeout": Form.NUMBER,
}
_GROUP = ("jobset.x-k8s.io", "v1alpha2")
_JOBSETS = "jobsets"
_POLL = 5.0
_TIMEOUT = 20.0
_AFTER_GRACE = 30.0  # seconds in which a pod may send what it has saved
_ASK_AGAIN = (401, 408, 429)  # a token that is renewed, a server that is busy
_LOST = ("NodeLost", "NodeShutdown", "Terminated", "UnexpectedAdmissionError")


class Kubernetes(Followed):
    """A cluster, by the official client and the user's kubeconfig."""

    engine, hold, after_grace = "Kubernetes", _POLL, _AFTER_GRACE

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        super().__init__(settings, attempts, wake)
        self._namespace = str(settings.get("namespace") or "default")
        self._timeout = float(settings.get("timeout", _TIMEOUT))
        self._api: Any = None

    def submit(self, task: Task) -> str:
        if not self._settings.get("image"):
            raise Refused("`image` of the environment is not set: the image of pods, with Leaven in it")
        command = agent_command(self._python, self._place.send(task))
        body = manifest(task, command, self._settings)
        self._said.forget()
        try:
            if body["kind"] == "JobSet":
                self._call("CustomObjectsApi", "create_namespaced_custom_object", *self._jobsets, body)
            else:
                self._call("BatchV1Api", "create_namespaced_job", self._namespace, body)
        except _Rejected as rejected:
            if rejected.status != 409:  # it exists: a crash came after it was created
                raise Refused(f"Kubernetes refuses it: {rejected.text}") from None
        return PREFIX + task.attempt

    @property
    def _jobsets(self) -> tuple[str, str, str, str]:
        return (*_GROUP, self._namespace, _JOBSETS)

    def _end(self, attempt: str) -> None:
        name, how = PREFIX + attempt, {"propagation_policy": "Background"}
        for api, call, place in (
            ("BatchV1Api", "delete_namespaced_job", (name, self._namespace)),
            ("CustomObjectsApi", "delete_namespaced_custom_object", (*self._jobsets, name)),
        ):
            try:
                self._call(api, call, *place, **how)
            except _Rejected as rejected:
                if rejected.status != 404:
                    raise Unreachable(rejected.text) from None

    # -- what the cluster says

    def _ask_engine(self) -> dict[str, Said]:
        """What the cluster says of attempts."""
        jobs = self._listed("BatchV1Api", "list_namespaced_job", self._namespace)
        jobs += self._listed("CustomObjectsApi", "list_namespaced_custom_object", *self._jobsets)
        pods = self._listed("CoreV1Api", "list_namespaced_pod", self._namespace)
        found = {}
        for job in jobs:
            if "jobset.sigs.k8s.io/jobset-name" not in job["metadata"]["labels"]:  # a part of a JobSet
                attempt = job["metadata"]["labels"][ATTEMPT]
                mine = [pod for pod in pods if pod["metadata"]["labels"].get(ATTEMPT) == attempt]
                found[attempt] = what_is_said(job, mine)
        return found

    def _listed(self, api: str, call: str, *place: str) -> list[dict[str, Any]]:
        selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
        try:
            found = self._call(api, call, *place, label_selector=selector)
        except _Rejected as rejected:
            if rejected.status == 404 and api == "CustomObjectsApi":  # JobSet is not installed
                return []
            raise Unreachable(rejected.text) from None
        return list(found.get("items") or [])

    def _call(self, api: str, call: str, *given: Any, **more: Any) -> dict[str, Any]:
        """A call of the client; what the server rejects is `_Rejected`, all else that it does not answer."""
        try:
            from kubernetes import client
            from kubernetes.client.exceptions import ApiException
            from kubernetes.config.config_exception import ConfigException
        except ModuleNotFoundError:
            raise Unreachable("the Kubernetes client is not installed: pip install 'leaven[kubernetes]'") from None
        try:
            self._api = self._api or self._connected()
            method = getattr(getattr(client, api)(self._api), call)
            answer = method(*given, _request_timeout=self._timeout, **more)
        except ApiException as problem:
            rejected = _Rejected(int(problem.status or 0), _message(problem))
            if rejected.status >= 500 or not rejected.status or rejected.status in _ASK_AGAIN:
                raise Unreachable(rejected.text) from None
            raise rejected from None
        except (ConfigException, OSError) as problem:
            raise Unreachable(str(problem)) from None
        except Exception as problem:  # of the library below, which has no class of its own for all
            raise Unreachable(f"{type(problem).__name__}: {problem}") from None
        found = self._api.sanitize_for_serialization(answer)
        return dict(found) if isinstance(found, dict) else {}

    def _connected(self) -> Any:
        """The client, by the kubeconfig; in a pod by the pod's own account."""
        from kubernetes import client, config

        given = self._settings
        configuration = client.Configuration()
        configuration.retries = False
        try:
            config.load_kube_config(given.get("config"), given.get("context"), configuration, persist_config=False)
        except config.ConfigException:
            if given.get("config") or given.get("context") or "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise
            config.load_incluster_config(configuration)
        return client.ApiClient(configuration)

    # -- whether it can be used

    def check(self) -> Iterator[Check]:
        try:
            import kubernetes
        except ModuleNotFoundError:
            yield Check("the Kubernetes client", False, "not installed", "pip install 'leaven[kubernetes]'")
            return
        yield Check("the Kubernetes client", True, str(kubernetes.__version__))
        version = self._call("VersionApi", "get_code")
        yield Check("the cluster", True, f"Kubernetes {version.get('gitVersion', '?')}")
        for group, what in (("batch", "jobs"), (_GROUP[0], _JOBSETS), ("", "pods")):
            yield self._permission(group, what, "list" if what == "pods" else "create")
        image = self._settings.get("image")
        help = "" if image else "set `image` of the environment: an image with Leaven in it"
        yield Check("image", bool(image), str(image or "not set"), help)
        if self._settings.get("store"):
            yield from self._place.check()
        else:
            yield self._volume()
        yield self._gpus()

    def _permission(self, group: str, what: str, verb: str) -> Check:
        attributes = {"namespace": self._namespace, "verb": verb, "group": group, "resource": what}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        try:
            answer = self._call("AuthorizationV1Api", "create_self_subject_access_review", body)
        except _Rejected as rejected:
            return Check(f"permission to {verb} {what}", False, rejected.text)
        is_allowed = bool(answer.get("status", {}).get("allowed"))
        help = "" if is_allowed else f"ask for a role that may {verb} {what} in namespace {self._namespace}"
        return Check(f"permission to {verb} {what}", is_allowed, "yes" if is_allowed else "no permission", help)

    def _volume(self) -> Check:
        claim, mount = self._settings.get("claim"), self._settings.get("mount")
        if not claim or not mount:
            help = 'set `claim` and `mount`, or `store = "s3://bucket/leaven"`'
            return Check("shared folder", False, "neither a volume nor an object store is set", help)
        if not self._attempts.is_relative_to(str(mount)):
            help = f"set `folder` in [jobs] of leaven.toml to a folder in {mount}"
            return Check("shared folder", False, f"{self._attempts.parent} is not in {mount}", help)
        try:
            self._call("CoreV1Api", "read_namespaced_persistent_volume_claim", claim, self._namespace)
        except _Rejected as rejected:
            return Check(f"claim {claim}", False, rejected.text, f"create it in namespace {self._namespace}")
        return Check(f"claim {claim}", True, f"mounted as {mount}")

    def _gpus(self) -> Check:
        kind = str(self._settings.get("gpu") or "nvidia.com/gpu")
        try:
            nodes = self._call("CoreV1Api", "list_node").get("items") or []
        except _Rejected:
            return Check("GPUs", True, "not known: no permission to list nodes")
        count = sum(int(node.get("status", {}).get("allocatable", {}).get(kind, 0)) for node in nodes)
        return Check("GPUs", True, str(count) if count else "none: programs use the CPU")


class _Rejected(Exception):
    """The server refuses something."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def _message(problem: Any) -> str:
    import json

    try:
        return str(json.loads(problem.body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{problem.status} {problem.reason}"


def what_is_said(job: Mapping[str, Any], pods: list[dict[str, Any]]) -> Said:
    """What the status of a Job or JobSet and of its pods means."""
    conditions = {one["type"]: one for one in job.get("status", {}).get("conditions") or () if one["status"] == "True"}
    if "Complete" in conditions or "Completed" in conditions:
        return Said("over", Outcome.SUCCEEDED)
    if "Failed" in conditions:
        return _failed(conditions["Failed"], pods)
    if any(pod.get("status", {}).get("phase") == "Running" for pod in pods):
        return Said("running")
    return Said("waiting", reason=_waits_for(pods))


def _failed(condition: Mapping[str, Any], pods: list[dict[str, Any]]) -> Said:
    """Why a job has failed: its pods know better than itself."""
    for pod in pods:
        status = pod.get("status", {})
        for one in status.get("conditions") or ():
            if one["type"] == "DisruptionTarget" and one["status"] == "True":
                return Said("over", Outcome.STOPPED, reason=f"Kubernetes has taken its pod: {one.get('message', '')}")
        if status.get("reason") in _LOST:
            return Said("over", Outcome.LOST, reason=f"its node was lost ({status['reason']})")
        for container in status.get("containerStatuses") or ():
            ended = container.get("state", {}).get("terminated") or {}
            if ended.get("exitCode"):
                why = f"{ended.get('reason', 'Error')}, exit code {ended['exitCode']}"
                return Said("over", Outcome.FAILED, int(ended["exitCode"]), f"Kubernetes says: {why}")
    return Said("over", Outcome.LOST, reason=f"Kubernetes says: {condition.get('message', 'it has failed')}")


def _waits_for(pods: list[dict[str, Any]]) -> str:
    for pod in pods:
        status = pod.get("status", {})
        for container in status.get("containerStatuses") or ():
            if waiting := container.get("state", {}).get("waiting"):
                return f"{waiting.get('reason', '')}: {waiting.get('message', '')}".strip(": ")
        for one in status.get("conditions") or ():
            if one["type"] == "PodScheduled" and one["status"] == "False":
                return str(one.get("message", ""))
    return ""
