"""The routes of the HTTP API: each calls the function that the command of the same name calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import ValidationError

from leaven.jobs import coordinator, job_variables, replies, requests
from leaven.jobs.checking import checks
from leaven.jobs.environments.answers import CachedAnswer
from leaven.jobs.environments.environment import Check, Unreachable
from leaven.jobs.metrics import Metrics
from leaven.jobs.package import read_package
from leaven.jobs.printed import stream_logs
from leaven.jobs.settings import Settings
from leaven.jobs.states import State
from leaven.jobs.store.for_users import JobStore, NoSuchJob
from leaven.jobs.store.records import Job
from leaven.serving.answers import add_docs, refuse_unknown

OPEN = ("/", "/docs", "/openapi.json", "/health")  # paths that need no token
SUBMIT = ("POST", "/jobs")
_MOST_JOBS = 1000  # in one answer
_MOST_EVENTS = 100  # of a job in one answer
_MOST = 1_000_000  # of anything that is counted
_HEALTH_SECONDS = 5.0
_COMMANDS = {"cancel": requests.cancel, "pause": requests.pause, "resume": requests.resume, "retry": requests.retry}
_CODES = {
    400: "It can't be done",
    401: "The token is missing or wrong",
    403: "The request comes from a page of another origin, or the job is of another user",
    404: "There is no such job, attempt or environment",
    408: "The body came too slowly",
    409: "The name is taken",
    413: "The body is too long",
    421: "The server does not have that name",
    422: "A parameter is wrong",
    503: "The store does not answer, or there are too many connections",
}
_ALWAYS = (400, 401, 403, 421, 422, 503)

Count = Annotated[int | None, Query(ge=1, le=_MOST)]
Word = Annotated[str | None, Query(max_length=200)]


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The answers to failing requests, for the description of a route."""
    return {code: {"model": replies.ProblemReply, "description": _CODES[code]} for code in codes}


def jobs_router(settings: Settings, store: JobStore) -> APIRouter:
    """What can be asked about jobs and environments, for any server."""
    sends_token = Depends(HTTPBearer(auto_error=False))  # a part of the description; the guards check it
    router = APIRouter(responses=problems(*_ALWAYS), dependencies=[sends_token, Depends(refuse_unknown)])
    _add_jobs(router, store)
    _add_submit(router, settings, store)
    _add_logs(router, settings, store)
    _add_commands(router, settings, store)
    _add_environments(router, settings, store)
    return router


def add_routes(app: FastAPI, settings: Settings, store: JobStore, metrics: Metrics) -> None:
    """All that can be asked of a coordinator's server."""
    router = jobs_router(settings, store)

    @router.get(
        "/metrics",
        summary="Metrics for Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}},
    )
    def read_metrics() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    app.include_router(router)
    _add_health(app, store)

    @app.get("/", include_in_schema=False)
    def top() -> RedirectResponse:
        return RedirectResponse("/docs")

    add_docs(app)


# -- jobs


async def _body(request: Request) -> bytes:
    """The body as it is: `curl --data` says that it is a form, whatever it sends."""
    return await request.body()


Body = Annotated[bytes, Depends(_body)]


def _has_body(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


def _finder(store: JobStore) -> Callable[[str], Job]:
    def find(job: str) -> Job:
        try:
            return store.job(job)
        except NoSuchJob as problem:
            raise HTTPException(404, problem.headline) from None

    return find


def _add_jobs(router: APIRouter, store: JobStore) -> None:
    """Looking at jobs."""
    Found = Annotated[Job, Depends(_finder(store))]

    @router.get("/jobs", summary="List jobs: the newest", response_model=replies.JobsReply)
    def list_jobs(
        state: Annotated[list[State] | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_JOBS)] = _MOST_JOBS,
        before: Annotated[int | None, Query(ge=1, lt=2**31, description="Only jobs with a smaller id")] = None,
    ) -> list[dict[str, Any]]:
        return [job.to_json() for job in store.jobs(states=state or (), limit=limit, before=before)]

    @router.get(
        "/jobs/{job}",
        summary="One job, with its attempts",
        response_model=replies.JobWithAttempts,
        responses=problems(404),
    )
    def show(job: Found) -> dict[str, Any]:
        return store.described(job.id, _MOST_EVENTS)


def _add_submit(router: APIRouter, settings: Settings, store: JobStore) -> None:
    """New jobs."""

    @router.post(
        "/jobs",
        status_code=201,
        summary="Queue a package, as `leaven pack` writes it",
        response_model=replies.JobsReply,
        responses=problems(408, 409, 413),
        openapi_extra=_has_body("application/octet-stream", {"type": "string", "format": "binary"}),
    )
    def submit(
        package: Body,
        environment: Annotated[str, Query(max_length=200)] = "local",
        name: Word = None,
        priority: Annotated[int, Query(ge=-_MOST, le=_MOST)] = 0,
        retries: Annotated[int, Query(ge=0, le=_MOST)] = requests.RETRIES,
        after: Annotated[list[str] | None, Query(max_length=1000)] = None,
        sweep: bool = False,
        gpus: Annotated[int | None, Query(ge=0, le=_MOST)] = None,
        cpus: Count = None,
        memory: Word = None,
        processes: Count = None,
        nodes: Count = None,
        time: Word = None,
        env: Annotated[list[str] | None, Query(max_length=1000, description="NAME=VALUE")] = None,
        secret: Annotated[list[str] | None, Query(max_length=1000)] = None,
    ) -> list[dict[str, Any]]:
        opened = read_package(package, "the package")
        resources = requests.resources(
            settings,
            environment,
            opened.manifest.resources,
            gpus=gpus,
            cpus=cpus,
            memory=memory,
            processes=processes,
            nodes=nodes,
            length=time,
        )
        order = requests.Order(
            opened,
            environment,
            resources,
            name,
            priority,
            retries,
            after=after or (),
            is_sweep=sweep,
            variables=job_variables.parsed(env or ()),
            secrets=secret or (),
        )
        ids = requests.submit(store, settings, [order])
        coordinator.start(settings)
        return [store.job(str(id)).to_json() for id in ids]


def _add_logs(router: APIRouter, settings: Settings, store: JobStore) -> None:
    """The logs of jobs."""
    Found = Annotated[Job, Depends(_finder(store))]

    @router.get(
        "/jobs/{job}/logs",
        summary="What a job has printed",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/plain": {}}}, **problems(404)},
    )
    async def logs(
        job: Found, follow: bool = False, attempt: Annotated[int | None, Query(ge=1, le=_MOST)] = None
    ) -> StreamingResponse:
        if attempt is not None:
            known = await asyncio.to_thread(store.attempts, job.id)
            if attempt not in [tried.number for tried in known]:
                raise HTTPException(404, f"{job.name} has no attempt {attempt}")

        async def text() -> AsyncIterator[bytes]:
            async for chunk in stream_logs(settings, store, job, follows=follow, attempt=attempt):
                yield chunk.text

        return StreamingResponse(text(), media_type="text/plain; charset=utf-8")


def _add_commands(router: APIRouter, settings: Settings, store: JobStore) -> None:
    """Commands on jobs."""
    Found = Annotated[Job, Depends(_finder(store))]

    def add(name: str, command: Callable[[JobStore, list[Job]], None]) -> None:
        @router.post(
            f"/jobs/{{job}}/{name}",
            name=name,
            summary=str(command.__doc__),
            response_model=replies.JobWithAttempts,
            responses=problems(404),
        )
        def ask(job: Found) -> dict[str, Any]:
            command(store, [job])
            coordinator.start(settings)
            return store.described(job.id, _MOST_EVENTS)

    for name, command in _COMMANDS.items():
        add(name, command)

    @router.put(
        "/jobs/{job}/priority",
        summary="Higher ones start first",
        response_model=replies.JobWithAttempts,
        responses=problems(404, 408, 413),
        openapi_extra=_has_body("application/json", replies.PriorityBody.model_json_schema()),
    )
    def priority(job: Found, body: Body) -> dict[str, Any]:
        try:
            new = replies.PriorityBody.model_validate_json(body, strict=True).priority
        except ValidationError:
            raise HTTPException(422, 'expected {"priority": 5}') from None
        store.set_priority([job.id], new)
        coordinator.start(settings)
        return store.described(job.id, _MOST_EVENTS)

    @router.delete("/jobs/{job}", summary="Forget a job that has ended, with its logs", responses=problems(404))
    def clean(job: Found, force: bool = False) -> replies.Forgotten:
        return replies.Forgotten(forgotten=requests.clean(store, settings, [job], by_force=force))

    @router.delete("/jobs", summary="Forget all jobs that have ended and that none waits for")
    def clean_all() -> replies.Forgotten:
        return replies.Forgotten(forgotten=requests.clean_all(store, settings))


# -- environments and the coordinator


def _add_environments(router: APIRouter, settings: Settings, store: JobStore) -> None:
    waiting = anyio.CapacityLimiter(4)  # what takes minutes keeps no thread from what takes milliseconds

    @router.get("/environments", summary="Where jobs can run")
    async def environments() -> list[replies.EnvironmentReply]:
        return await anyio.to_thread.run_sync(_environments, settings, store, limiter=waiting)

    @router.post(
        "/environments/{name}/check",
        summary="What an environment needs, and a tiny job in it",
        responses=problems(404),
    )
    async def check(name: str) -> list[Check]:
        if name not in settings.environments:
            raise HTTPException(404, f"there is no environment `{name}`")
        return await anyio.to_thread.run_sync(lambda: list(checks(settings, name)), limiter=waiting)

    @router.get("/coordinator", summary="Whether a coordinator is running, and how many jobs there are")
    def status() -> replies.CoordinatorReply:
        counts = {state.value: count for state, count in store.counts().items()}
        return replies.CoordinatorReply(coordinator=coordinator.status(settings, store), jobs=counts)

    @router.post("/coordinator/start", summary="Start a coordinator that stays")
    def start() -> replies.Started:
        return replies.Started(started=coordinator.start(settings, stays=True))

    @router.post("/coordinator/stop", summary="Stop the coordinator; jobs go on")
    async def stop() -> replies.Stopped:
        stopped = await anyio.to_thread.run_sync(coordinator.stop, settings, store, limiter=waiting)
        return replies.Stopped(stopped=stopped)


def _environments(settings: Settings, store: JobStore) -> list[replies.EnvironmentReply]:
    problems = {record.name: record.problem for record in store.environments()}
    answers = []
    for name, configured in settings.environments.items():
        try:
            has = requests.environment_of(settings, name).capacity()
        except Unreachable as problem:
            has, problems[name] = None, str(problem)
        problem_text, kind = problems.get(name, ""), configured["kind"]
        answers.append(replies.EnvironmentReply(name=name, kind=kind, has=has, problem=problem_text))
    return answers


# -- for those who watch the server


def _add_health(app: FastAPI, store: JobStore) -> None:
    asked = CachedAnswer(store.counts, 1.0)  # anyone may ask, and costs the store at most one question a second
    one_at_a_time = asyncio.Lock()

    @app.get(
        "/health",
        summary="Whether the server and its store answer; needs no token",
        responses=problems(*_ALWAYS),
    )
    async def health() -> replies.Health:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS), one_at_a_time:
                await asyncio.to_thread(asked)
        except TimeoutError:
            raise HTTPException(503, "the store does not answer") from None
        return replies.Health()
