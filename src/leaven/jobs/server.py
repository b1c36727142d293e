"""The HTTP API of a coordinator: what the commands do, by the same functions.

Every request needs the token. The server listens on this machine alone, unless it is told otherwise and given a token.
Anyone who has the token may run programs as the user who runs the server. What can't be done is answered as JSON,
with what to do about it: `{"error": …, "help": …}`.
"""

import ipaddress
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from leaven.formats.atomic_files import write_text
from leaven.formats.installed_versions import leaven_version
from leaven.jobs import coordinator, requests
from leaven.jobs.checking import checks
from leaven.jobs.environments.environment import Unreachable
from leaven.jobs.package import PackageError, read_package
from leaven.jobs.printed import read_logs
from leaven.jobs.problem import Problem
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, State
from leaven.jobs.store.connection import StoreFailed
from leaven.jobs.store.for_users import JobStore, NoSuchJob
from leaven.jobs.store.records import Job

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

PORT = 8477
TOKEN = "LEAVEN_TOKEN"  # the environment variable with the token
_FILE = "token"  # the file in the folder of jobs with a token that was made up
_MOST_BYTES = 100_000_000
_WISHES = {"cancel": requests.cancel, "pause": requests.pause, "resume": requests.resume, "retry": requests.retry}


class ServerError(Problem):
    """The server can't be started."""


def token_of(settings: Settings, host: str) -> tuple[str, Path | None]:
    """The token, and the file that has it if it was not given; others than this machine need one that was given."""
    if given := os.environ.get(TOKEN, "").strip():
        if not (given.isascii() and given.isprintable()) or " " in given:
            raise ServerError(f"{TOKEN} has characters that no HTTP header can carry", "use letters and digits")
        return given, None
    if not is_loopback(host):
        raise ServerError(
            f"{host} can be reached by other machines, and there is no token",
            f"set {TOKEN} to a long random string; clients send it as `Authorization: Bearer …`",
        )
    file = settings.folder / _FILE
    if not file.is_file():
        settings.folder.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
        write_text(file, secrets.token_urlsafe(32))
    return file.read_text(encoding="utf-8").strip(), file


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(settings: Settings, host: str, port: int, said: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `said` gets the address when it listens."""
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise ServerError("FastAPI is not installed", "pip install 'leaven[serve]'") from None
    token, file = token_of(settings, host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as problem:
        raise ServerError(f"can't listen on {host}:{port}: {problem.strerror}", "choose another --port") from None
    app = application(settings, token)
    shown = f"[{host}]" if ":" in host else host
    said(f"http://{shown}:{listening.getsockname()[1]}")
    said(f"the token is in {file}" if file is not None else f"the token is that of {TOKEN}")
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listening])


def application(settings: Settings, token: str) -> "FastAPI":
    """The API of a store."""
    from fastapi import APIRouter, Depends, FastAPI, HTTPException
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
    from starlette.exceptions import HTTPException as AnyHTTPException

    def check_token(
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))],
    ) -> None:
        if given is None or not secrets.compare_digest(given.credentials.encode(), token.encode()):
            raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})

    app = FastAPI(title="Leaven's jobs", version=leaven_version(), description="What `leaven jobs` does, over HTTP.")

    def told(status: int, headline: str, help: str = "", headers: Any = None) -> JSONResponse:
        return JSONResponse({"error": headline, "help": help}, status, headers)

    @app.exception_handler(AnyHTTPException)
    def _(_request: object, problem: AnyHTTPException) -> JSONResponse:
        helps = {401: "send `Authorization: Bearer TOKEN`", 404: "/docs lists what there is"}
        return told(problem.status_code, str(problem.detail), helps.get(problem.status_code, ""), problem.headers)

    @app.exception_handler(RequestValidationError)
    def _(_request: object, problem: RequestValidationError) -> JSONResponse:
        first = problem.errors()[0]
        return told(422, f"`{first['loc'][-1]}`: {first['msg']}", "/docs says what is expected")

    @app.exception_handler(Problem)
    def _(_request: object, problem: Problem) -> JSONResponse:
        return told(503 if isinstance(problem, StoreFailed) else 400, problem.headline, problem.help)

    router = APIRouter(dependencies=[Depends(check_token)])
    store = requests.open_store(settings)
    _add_jobs(router, settings, store)
    _add_wishes(router, settings, store)
    _add_places(router, settings, store)
    app.include_router(router)
    return app


def _found(store: JobStore, word: str) -> Job:
    from fastapi import HTTPException

    try:
        return store.job(word)
    except NoSuchJob as problem:
        raise HTTPException(404, problem.headline) from None


def _described(store: JobStore, job: Job) -> dict[str, Any]:
    tries = [asdict(one) for one in store.attempts(job.id)]
    return {**job.to_json(), "after": store.after(job.id), "tries": tries}


def _add_jobs(router: "APIRouter", settings: Settings, store: JobStore) -> None:
    """New jobs, and looking at jobs."""
    from fastapi import Body, HTTPException, Query
    from fastapi.responses import StreamingResponse

    @router.get("/jobs", summary="List jobs")
    def list_jobs(
        state: Annotated[list[State] | None, Query()] = None, limit: Annotated[int | None, Query(ge=1)] = None
    ) -> list[dict[str, Any]]:
        return [job.to_json() for job in store.jobs(states=state or (), limit=limit)]

    @router.post("/jobs", status_code=201, summary="Queue a package, as `leaven pack` writes it")
    def submit(
        package: Annotated[bytes, Body(media_type="application/octet-stream")],
        environment: str = "local",
        name: str | None = None,
        priority: int = 0,
        retries: Annotated[int, Query(ge=0)] = requests.RETRIES,
        after: Annotated[list[str] | None, Query()] = None,
        sweep: bool = False,
        gpus: Annotated[int | None, Query(ge=0)] = None,
        cpus: Annotated[int | None, Query(ge=1)] = None,
        memory: str | None = None,
        processes: Annotated[int | None, Query(ge=1)] = None,
        nodes: Annotated[int | None, Query(ge=1)] = None,
        time: str | None = None,
    ) -> list[dict[str, Any]]:
        if len(package) > _MOST_BYTES:
            raise PackageError("this is too large to be a job package")
        opened = read_package(package, "the package")
        given = requests.resources(
            requests.environment_of(settings, environment),
            opened.manifest.resources,
            gpus=gpus,
            cpus=cpus,
            memory=memory,
            processes=processes,
            nodes=nodes,
            length=time,
        )
        order = requests.Order(opened, environment, given, name, priority, retries, tuple(after or ()), sweep)
        ids = requests.submit(store, settings, [order])
        coordinator.start(settings)
        return [store.job(str(id)).to_json() for id in ids]

    @router.get("/jobs/{job}", summary="One job, with its attempts")
    def show(job: str) -> dict[str, Any]:
        return _described(store, _found(store, job))

    @router.get("/jobs/{job}/logs", response_class=StreamingResponse, summary="What a job has printed")
    def logs(job: str, follow: bool = False, attempt: int | None = None) -> StreamingResponse:
        found = _found(store, job)
        if attempt is not None and attempt not in [one.number for one in store.attempts(found.id)]:
            raise HTTPException(404, f"{found.name} has no attempt {attempt}")

        def text() -> Iterator[bytes]:
            for chunk in read_logs(settings, store, found, follows=follow, attempt=attempt):
                yield chunk.text

        return StreamingResponse(text(), media_type="text/plain; charset=utf-8")


def _priority(body: bytes) -> int:
    """The number in `{"priority": 5}`, whatever the request says of its type."""
    from fastapi import HTTPException

    try:
        given = json.loads(body)
    except ValueError:
        given = None
    number = given.get("priority") if isinstance(given, dict) else None
    if not isinstance(number, int) or isinstance(number, bool):
        raise HTTPException(422, 'expected {"priority": 5}')
    return number


def _add_wishes(router: "APIRouter", settings: Settings, store: JobStore) -> None:
    """What may be asked of jobs."""
    from fastapi import Depends, Request

    async def _body(request: Request) -> bytes:  # `curl --data` says that it is a form, whatever it sends
        return await request.body()

    def add(name: str, wish: Callable[[JobStore, list[Job]], None]) -> None:
        @router.post(f"/jobs/{{job}}/{name}", name=name, summary=str(wish.__doc__))
        def ask(job: str) -> dict[str, Any]:
            found = _found(store, job)
            wish(store, [found])
            coordinator.start(settings)
            return _described(store, _found(store, str(found.id)))

    for name, wish in _WISHES.items():
        add(name, wish)

    @router.put("/jobs/{job}/priority", summary="Higher ones start first")
    def priority(job: str, body: Annotated[bytes, Depends(_body)]) -> dict[str, Any]:
        priority = _priority(body)
        found = _found(store, job)
        store.set_priority([found.id], priority)
        coordinator.start(settings)
        return _described(store, _found(store, str(found.id)))

    @router.delete("/jobs/{job}", summary="Forget a job that has ended, with its logs")
    def clean(job: str) -> dict[str, int]:
        return {"forgotten": requests.clean(store, settings, [_found(store, job)])}

    @router.delete("/jobs", summary="Forget all jobs that have ended")
    def clean_all() -> dict[str, int]:
        return {"forgotten": requests.clean(store, settings, store.jobs(states=ENDED))}


def _add_places(router: "APIRouter", settings: Settings, store: JobStore) -> None:
    """Environments and the coordinator."""
    from fastapi import HTTPException

    @router.get("/environments", summary="Where jobs can run")
    def environments() -> list[dict[str, Any]]:
        return [_environment(settings, store, name) for name in settings.environments]

    @router.post("/environments/{name}/check", summary="What an environment needs, and a tiny job in it")
    def check(name: str) -> list[dict[str, Any]]:
        if name not in settings.environments:
            raise HTTPException(404, f"there is no environment `{name}`")
        return [asdict(found) for found in checks(settings, name)]

    @router.get("/coordinator", summary="Whether a coordinator is running, and how many jobs there are")
    def status() -> dict[str, Any]:
        counts = {state.value: count for state, count in store.counts().items()}
        return {"leader": coordinator.status(settings, store), "jobs": counts}

    @router.post("/coordinator/start", summary="Start a coordinator that stays")
    def start() -> dict[str, bool]:
        return {"started": coordinator.start(settings, stays=True)}

    @router.post("/coordinator/stop", summary="Stop the coordinator; jobs go on")
    def stop() -> dict[str, bool]:
        return {"stopped": coordinator.stop(settings, store)}


def _environment(settings: Settings, store: JobStore, name: str) -> dict[str, Any]:
    known = {one.name: one for one in store.environments()}
    problem = known[name].problem if name in known else ""
    try:
        has = requests.environment_of(settings, name).capacity()
    except Unreachable as found:
        has, problem = None, str(found)
    kind = settings.environments[name]["kind"]
    return {"name": name, "kind": kind, "has": asdict(has) if has is not None else None, "problem": problem}
