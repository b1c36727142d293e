"""Metrics of a coordinator's server for Prometheus: jobs, environments, coordinators and requests."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leaven.jobs import coordinator
from leaven.jobs.settings import Settings
from leaven.jobs.states import State
from leaven.jobs.store.for_users import JobStore
from leaven.serving.guards import Application, Message, Receive, Scope, Send

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")


class Metrics:
    """The metrics of one server."""

    def __init__(self, settings: Settings, store: JobStore) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Jobs(settings, store))
        self._requests = Counter(
            "leaven_http_requests", "Requests, refused ones included", ["method", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "leaven_http_request_seconds", "Time until an answer begins", ["method"], registry=self._registry
        )

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self._registry)

    def measuring(self, application: Application) -> Application:
        """An application whose requests are counted."""

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            began = time.perf_counter()
            # strangers send any word, and each would be kept for ever
            method = str(scope.get("method", ""))
            method = method if method in _METHODS else "other"

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._requests.labels(method, message["status"]).inc()
                    self._seconds.labels(method).observe(time.perf_counter() - began)
                await send(message)

            await application(scope, receive, sending)

        return measured


class _Jobs(Collector):
    """The metrics that are read from the store with every request."""

    def __init__(self, settings: Settings, store: JobStore) -> None:
        self._settings = settings
        self._store = store

    def collect(self) -> Iterator[Metric]:
        counts = self._store.counts()
        jobs = GaugeMetricFamily("leaven_jobs", "Jobs by state", labels=["state"])
        for state in State:
            jobs.add_metric([state.value], counts.get(state, 0))
        yield jobs
        reachable = GaugeMetricFamily(
            "leaven_environment_reachable", "Whether an environment answers", labels=["environment"]
        )
        silent = {record.name for record in self._store.environments() if record.unreachable_since is not None}
        for name in self._settings.environments:
            reachable.add_metric([name], float(name not in silent))
        yield reachable
        running = coordinator.status(self._settings, self._store) is not None
        yield GaugeMetricFamily("leaven_coordinator_running", "Whether the folder's coordinator runs", float(running))
        seen = GaugeMetricFamily(
            "leaven_coordinator_seen_timestamp_seconds", "When each coordinator was last seen", labels=["host", "owner"]
        )
        for agent in self._store.agents().values():
            seen.add_metric([agent.host, agent.owner], agent.seen)
        yield seen
