"""A server that plays the API of a Kubernetes cluster, and runs the pods of Jobs as processes of this machine.

It accepts only manifests that are valid by the schemas of Kubernetes. What it says of Jobs and pods has the shape of
what a real cluster says; nothing here shows that a real one would run them.
"""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import kubernetes_validate

VERSION = "1.31"
_OBJECTS = re.compile(r"/apis/(batch/v1|jobset\.x-k8s\.io/v1alpha2)/namespaces/default/(jobs|jobsets)(?:/([\w-]+))?")


@dataclass
class Cluster:
    """What the server has, and what it does: whether it answers, lets pods start, and allows what is asked."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    is_down: bool = False
    is_full: bool = False
    is_allowed: bool = True
    quota: str = ""  # why no Job is made any more
    asked: int = 0  # how often a Job was asked for
    disrupted: set[str] = field(default_factory=set)
    foreign: list[dict[str, Any]] = field(default_factory=list)  # Jobs that others have made
    waiting: dict[str, Any] | None = None  # the status of pods that don't start, while the cluster is full
    events: list[dict[str, Any]] = field(default_factory=list)
    garbage: str | None = None  # what it answers in place of everything
    config: Path = Path()

    def start_pods(self) -> None:
        """Run the pods of jobs that have none yet."""
        for name, made in self.objects.items():
            if name not in self.pods and not self.is_full:
                (container,) = made["spec"]["template"]["spec"]["containers"]
                variables = {one["name"]: one["value"] for one in container["env"]}
                self.pods[name] = subprocess.Popen(container["command"], env={**os.environ, **variables})

    def job(self, name: str) -> dict[str, Any]:
        code = self.pods[name].poll() if name in self.pods else None
        if code is None:
            return self.objects[name]
        kind = "Complete" if code == 0 else "Failed"
        condition = {"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "it has failed"}
        return {**self.objects[name], "status": {"conditions": [condition]}}

    def pod(self, name: str) -> dict[str, Any]:
        labels = self.objects[name]["spec"]["template"]["metadata"]["labels"]
        code = self.pods[name].poll()
        status: dict[str, Any] = {"phase": "Running" if code is None else "Failed" if code else "Succeeded"}
        if code:
            ended = {"terminated": {"exitCode": abs(code), "reason": "Error"}}
            status["containerStatuses"] = [
                {"name": "program", "image": "x", "imageID": "x", "ready": False, "restartCount": 0, "state": ended}
            ]
        if name in self.disrupted:
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "message": "preempted"}]
        return _made_for(name, labels, status)

    def all_pods(self) -> list[dict[str, Any]]:
        running = [self.pod(name) for name in self.pods]
        if self.waiting is None:
            return running
        rest = [name for name in self.objects if name not in self.pods]
        return [*running, *(_made_for(name, {}, self.waiting) for name in rest)]


def _made_for(name: str, labels: dict[str, str], status: dict[str, Any]) -> dict[str, Any]:
    """A pod, as the controller of Jobs makes it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
    return {"metadata": {"name": f"{name}-x", "labels": labels, "ownerReferences": [owner]}, "status": status}


class _Handler(BaseHTTPRequestHandler):
    cluster: Cluster

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, code: int, content: object) -> None:
        text = (json.dumps(content) if self.cluster.garbage is None else self.cluster.garbage).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _fail(self, code: int, message: str) -> None:
        self._answer(code, {"kind": "Status", "status": "Failure", "code": code, "message": message})

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).rstrip("/")
        if self.cluster.is_down:
            self._fail(503, "the server is currently unable to handle the request")
        elif path == "/version":
            self._answer(200, {"gitVersion": f"v{VERSION}.0", "major": "1", "minor": "31"} | _BUILD)
        elif path == "/apis/batch/v1/namespaces/default/jobs":
            self.cluster.start_pods()
            jobs = [self.cluster.job(name) for name in self.cluster.objects]
            self._answer(200, {"kind": "JobList", "items": [*self.cluster.foreign, *jobs]})
        elif path == "/api/v1/namespaces/default/pods":
            self._answer(200, {"kind": "PodList", "items": self.cluster.all_pods()})
        elif path == "/api/v1/namespaces/default/events":
            about = parse_qs(urlsplit(self.path).query)["fieldSelector"][0].split("involvedObject.name=")[1]
            events = [one for one in self.cluster.events if one["involvedObject"]["name"] == about]
            self._answer(200, {"kind": "EventList", "items": events})
        elif path == "/api/v1/namespaces/default/persistentvolumeclaims/work":
            self._answer(200, {"kind": "PersistentVolumeClaim", "metadata": {"name": "work"}})
        elif path == "/api/v1/nodes":
            self._answer(200, {"kind": "NodeList", "items": [{"status": {"allocatable": {"nvidia.com/gpu": "4"}}}]})
        else:
            self._fail(404, f"the server could not find {path}")

    def _count_and_refuse(self) -> bool:
        self.cluster.asked += 1
        return bool(self.cluster.quota)

    def do_POST(self) -> None:
        body, path = self._body(), urlsplit(self.path).path
        if self.cluster.is_down:
            self._fail(503, "the server is currently unable to handle the request")
        elif path.endswith("/selfsubjectaccessreviews"):
            self._answer(201, {**body, "status": {"allowed": self.cluster.is_allowed}})
        elif not self.cluster.is_allowed:
            self._fail(403, 'jobs.batch is forbidden: User "me" cannot create resource "jobs"')
        elif (found := _OBJECTS.fullmatch(path)) is None or found[2] == "jobsets":
            self._fail(404, "the server could not find the requested resource")
        elif self._count_and_refuse():
            self._fail(403, f"jobs.batch is forbidden: {self.cluster.quota}")
        elif body["metadata"]["name"] in self.cluster.objects:
            self._fail(409, f'jobs.batch "{body["metadata"]["name"]}" already exists')
        else:
            try:
                is_strict = parse_qs(urlsplit(self.path).query).get("fieldValidation") == ["Strict"]
                kubernetes_validate.validate(body, VERSION, strict=is_strict)
            except kubernetes_validate.ValidationError as problem:
                self._fail(422, str(problem))
                return
            self.cluster.objects[body["metadata"]["name"]] = body
            self.cluster.created.append(body)
            self._answer(201, body)

    def do_DELETE(self) -> None:
        found = _OBJECTS.fullmatch(urlsplit(self.path).path)
        self._body()
        if found is None or found[3] not in self.cluster.objects or found[2] == "jobsets":
            self._fail(404, "not found")
            return
        del self.cluster.objects[found[3]]
        if (pod := self.cluster.pods.pop(found[3], None)) is not None:
            pod.terminate()
            pod.wait(30)
        self._answer(200, {"kind": "Status", "status": "Success"})


_BUILD = dict.fromkeys(("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform"), "x")


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start the server; its pods are ended at the end."""
    found = Cluster()
    handler = type("Handler", (_Handler,), {"cluster": found})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.config = folder / "kubeconfig"
    address = f"http://127.0.0.1:{server.server_port}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    found.config.write_text(json.dumps(config))
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        for pod in found.pods.values():
            pod.kill()
            pod.wait(30)
