"""A Kubernetes cluster: an attempt is a Job of one pod, or a JobSet with a pod on each of several nodes.

Objects are named after the attempt, so that one is never created twice. A pod runs the agent of the attempt once:
retries are the coordinator's, which also knows what a preemption is. With `queue`, Kueue decides when it starts.

Manifests are plain data, which `kubernetes_manifests.py` writes; here they are applied by the official client.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from leaven.jobs.environments.answers import Rejected, not_understood, rows, table, tables
from leaven.jobs.environments.environment import Check, Refused, Task, Unreachable
from leaven.jobs.environments.following import PREFIX, EngineEnvironment, EngineStatus, NotYet
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.kubernetes_manifests import LABELS, manifest
from leaven.jobs.environments.kubernetes_status import attempt_of, may_say_why, pods_of, status_of, why_by_events
from leaven.jobs.environments.launching import agent_command

_JOBS, _JOBSETS = ("batch", "v1", "jobs"), ("jobset.x-k8s.io", "v1alpha2", "jobsets")
_ASK_AGAIN = (401, 408, 429)  # a token that is renewed, a server that is busy
_QUOTA = "exceeded quota"  # what Kubernetes says of the one about the number of Jobs
_STRICTLY = {"field_validation": "Strict"}  # a field that Kubernetes does not know is refused, not left out
_MOST_EVENTS = 20  # attempts of which events are asked for at once


class Kubernetes(EngineEnvironment):
    """A cluster, by the official client and the user's kubeconfig."""

    keys: ClassVar = {
        **EngineEnvironment.keys,
        **dict.fromkeys(("image", "namespace", "context", "config", "claim", "mount"), Form.STRING),
        **dict.fromkeys(("queue", "secret", "service_account", "gpu"), Form.STRING),
        **dict.fromkeys(("selector", "security_context", "pod", "job"), Form.TABLE),
        "pull_secrets": Form.STRINGS,
        "tolerations": Form.TABLES,
        "shm": Form.SIZE,
    }
    engine, poll_seconds, timeout, after_grace = "Kubernetes", 5.0, 20.0, 30.0

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        super().__init__(settings, attempts, wake)
        self._namespace = str(settings.get("namespace") or "default")
        self._api: Any = None

    def _start(self, task: Task) -> str:
        if not self._settings.get("image"):
            raise Refused("`image` of the environment is not set: the image of pods, with Leaven in it")
        command = agent_command(self._python, self._place.send(task))
        body = manifest(task, command, self._settings)
        kind = _JOBSETS if body["kind"] == "JobSet" else _JOBS
        try:
            self._objects("create", kind, body, **_STRICTLY)
        except Rejected as rejected:
            if rejected.status == 403 and _QUOTA in rejected.text:
                raise NotYet(f"a quota of the namespace is used up (Kubernetes: {rejected.text})") from None
            if rejected.status != 409:  # it exists: a crash came after it was created
                raise Refused(f"Kubernetes refuses it: {rejected.text}") from None
        return PREFIX + task.attempt

    def _objects(self, verb: str, kind: tuple[str, str, str], *given: Any, **more: Any) -> dict[str, Any]:
        """A call about Jobs or JobSets, as plain data: the client's classes know only the fields of its own version."""
        group, version, plural = kind
        call = f"{verb}_namespaced_custom_object"
        return self._call("CustomObjectsApi", call, group, version, self._namespace, plural, *given, **more)

    def _end(self, attempt: str) -> None:
        for kind in (_JOBS, _JOBSETS):
            try:
                self._objects("delete", kind, PREFIX + attempt, propagation_policy="Background")
            except Rejected as rejected:
                if rejected.status != 404:
                    raise Unreachable(rejected.text) from None

    # -- what the cluster says

    def _ask_engine(self) -> dict[str, EngineStatus]:
        """The Jobs and JobSets of the namespace that are attempts."""
        ours = {"label_selector": ",".join(f"{key}={value}" for key, value in LABELS.items())}
        jobs = self._items(lambda: self._objects("list", _JOBS, **ours))
        jobs += self._items(lambda: self._objects("list", _JOBSETS, **ours), may_be_missing=True)
        pods = self._items(lambda: self._call("CoreV1Api", "list_namespaced_pod", self._namespace, **ours))
        statuses, silent = {}, 0
        for job in jobs:
            if (attempt := attempt_of(job)) is None:
                continue
            mine = pods_of(attempt, pods)
            status = status_of(job, mine)
            if status.phase == "waiting" and not status.reason and silent < _MOST_EVENTS:
                silent += 1
                reason = why_by_events(self._warnings(may_say_why(attempt, mine)), has_pods=bool(mine))
                status = replace(status, reason=reason)
            statuses[attempt] = status
        return statuses

    def _items(self, ask: Callable[[], dict[str, Any]], *, may_be_missing: bool = False) -> list[dict[str, Any]]:
        """The objects of a list; none where a cluster may not have such."""
        try:
            answer = ask()
        except Rejected as rejected:
            if rejected.status == 404 and may_be_missing:
                return []
            raise Unreachable(rejected.text) from None
        if "items" not in answer:
            raise not_understood(self.engine, answer)
        return tables(self.engine, answer["items"] or [])

    def _warnings(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The warnings about objects; none where this user may not read them."""
        events: list[dict[str, Any]] = []
        for name in names:
            about = {"field_selector": f"type=Warning,involvedObject.name={name}"}
            try:
                answer = self._call("CoreV1Api", "list_namespaced_event", self._namespace, **about)
            except Rejected:
                return []
            events += rows(answer.get("items"))
        return events

    def _call(self, api: str, call: str, *given: Any, **more: Any) -> dict[str, Any]:
        """The answer to a call; `Rejected` where the server rejects it, `Unreachable` for any other failure."""
        try:
            from kubernetes import client
            from kubernetes.client.exceptions import ApiException
            from kubernetes.config.config_exception import ConfigException
        except ModuleNotFoundError:
            raise Unreachable("the Kubernetes client is not installed: pip install 'leaven[kubernetes]'") from None
        try:
            self._api = self._api or self._connected()
            method = getattr(getattr(client, api)(self._api), call)
            text = method(*given, _request_timeout=self._timeout, _preload_content=False, **more).data
        except ApiException as problem:
            rejected = Rejected(int(problem.status or 0), _message(problem))
            if rejected.status >= 500 or not rejected.status or rejected.status in _ASK_AGAIN:
                raise Unreachable(rejected.text) from None
            raise rejected from None
        except (ConfigException, OSError) as problem:
            raise Unreachable(str(problem)) from None
        except Exception as problem:  # of the library below, which has no class of its own for all
            raise Unreachable(f"{type(problem).__name__}: {problem}") from None
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise not_understood(self.engine, text.decode(errors="replace"))
        return answer

    def _connected(self) -> Any:
        """The client, by the kubeconfig; in a pod by the pod's own account."""
        from kubernetes import client, config

        settings = self._settings
        configuration = client.Configuration()
        configuration.retries = False
        try:
            config.load_kube_config(
                settings.get("config"), settings.get("context"), configuration, persist_config=False
            )
        except config.ConfigException:
            if settings.get("config") or settings.get("context") or "KUBERNETES_SERVICE_HOST" not in os.environ:
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
        for group, what in (_JOBS[::2], _JOBSETS[::2], ("", "pods")):
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
        except Rejected as rejected:
            return Check(f"permission to {verb} {what}", False, rejected.text)
        is_allowed = bool(table(answer.get("status")).get("allowed"))
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
        except Rejected as rejected:
            return Check(f"claim {claim}", False, rejected.text, f"create it in namespace {self._namespace}")
        return Check(f"claim {claim}", True, f"mounted as {mount}")

    def _gpus(self) -> Check:
        kind = str(self._settings.get("gpu") or "nvidia.com/gpu")
        try:
            nodes = rows(self._call("CoreV1Api", "list_node").get("items"))
        except Rejected:
            return Check("GPUs", True, "not known: no permission to list nodes")
        counts = [str(table(table(node.get("status")).get("allocatable")).get(kind, "")) for node in nodes]
        count = sum(int(count) for count in counts if count.isdecimal())
        return Check("GPUs", True, str(count) if count else "none: programs use the CPU")


def _message(problem: Any) -> str:
    try:
        return str(json.loads(problem.body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{problem.status} {problem.reason}"
