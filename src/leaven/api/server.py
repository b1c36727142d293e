"""The server of a lab: the routes of `/api/v1` behind the guards of the room `serving`.

Every request needs the token. The server listens on this machine alone, unless it is told otherwise. It imports neither
torch nor models: these are in processes of their own (`processes.py`).
"""

import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaven.formats.installed_versions import leaven_version
from leaven.serving import tokens
from leaven.serving.memory import give_back_memory
from leaven.terminal.problem import Problem

if TYPE_CHECKING:
    from fastapi import FastAPI

    from leaven.api.lab import Lab
    from leaven.serving.guards import Application

PREFIX = "/api/v1"
_HEADERS = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}


class ServerError(Problem):
    """The lab can't be started."""


@dataclass(frozen=True)
class Setup:
    """How a lab is started: on what, where it listens, and what its models may use."""

    words: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 8400
    names: Sequence[str] = ()
    token_file: Path | None = None
    runs_code: bool = False
    most_models: int = 3
    memory: int = 4 * 2**30
    seconds: float = 120.0
    journal: Path = Path("journal.jsonl")


def serve(setup: Setup, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `announce` gets the link, when it listens."""
    try:
        from leaven.serving.connections import server_of

        file = setup.token_file or _token_file()
        token = tokens.token_of(file, setup.host)
        os.environ.pop(tokens.VARIABLE, None)  # no process that is started from here needs it
        with tempfile.TemporaryDirectory(prefix="leaven-lab-") as empty:
            server = server_of(application(setup, token, empty))
            listening = _listening(setup)
            shown = f"[{setup.host}]" if ":" in setup.host else setup.host
            address = f"http://{shown}:{listening.getsockname()[1]}"
            announce(f"{address}/docs?token={token.read()}")
            announce(f"the API is {address}{PREFIX}; the token is {_where(token)}")
            give_back_memory()
            server.run(sockets=[listening])
    except ModuleNotFoundError as problem:
        raise ServerError(f"{problem.name} is not installed", "pip install 'leaven[lab]'") from None


def _where(token: tokens.Token) -> str:
    return f"that of {tokens.VARIABLE}" if token.given else f"in {token.file}"


def _token_file() -> Path:
    from leaven.cache import location

    return location.user_folder() / "lab" / "token"


def _listening(setup: Setup) -> socket.socket:
    family = socket.AF_INET6 if ":" in setup.host else socket.AF_INET
    try:
        return socket.create_server((setup.host, setup.port), family=family)
    except OSError as problem:
        reason = f"can't listen on {setup.host}:{setup.port}: {problem.strerror}"
        raise ServerError(reason, "choose another --port; 0 is any that is free") from None


def application(setup: Setup, token: tokens.Token, empty: str) -> "Application":
    """The API with its guards. Models run in an empty folder, where no name is that of a file."""
    from leaven.api.lab import Lab
    from leaven.api.places import Places
    from leaven.api.process import Limits
    from leaven.api.processes import Processes
    from leaven.api.running import Runs
    from leaven.serving.guards import Guard, Rules

    processes = Processes(setup.most_models, Limits(setup.memory, setup.seconds), empty, trust=setup.runs_code)
    lab = Lab(Places(setup.words), processes, Runs(), setup.runs_code, setup.journal.absolute())
    all_names = tuple(name.lower() for name in {"localhost", setup.host, socket.gethostname(), *setup.names})
    rules = Rules(all_names, ("/openapi.json",), more_bytes=_more_bytes(), headers=_HEADERS)
    return Guard(api_of(lab), token, rules)


def _more_bytes() -> dict[tuple[str, str], int]:
    """The routes that take long bodies."""
    from leaven.api.routes.models import MOST_UPLOAD
    from leaven.api.routes.recipes import LONG_TEXTS, MOST_TEXT
    from leaven.jobs.package import MOST_BYTES
    from leaven.jobs.routes import SUBMIT

    texts = {(method, PREFIX + path): MOST_TEXT for method, path in LONG_TEXTS}
    return {("POST", f"{PREFIX}/uploads"): MOST_UPLOAD, (SUBMIT[0], PREFIX + SUBMIT[1]): MOST_BYTES, **texts}


def api_of(lab: "Lab") -> "FastAPI":
    """The routes of a lab."""
    from fastapi import APIRouter, Depends, FastAPI
    from fastapi.security import HTTPBearer

    from leaven.api.routes.about import add_about
    from leaven.api.routes.described import ALWAYS, problems
    from leaven.api.routes.models import add_models
    from leaven.api.routes.recipes import add_catalog, add_recipes
    from leaven.api.routes.runs import add_runs
    from leaven.jobs.requests import open_store
    from leaven.jobs.routes import jobs_router
    from leaven.jobs.settings import load_settings
    from leaven.serving.answers import add_docs, add_reports, refuse_unknown

    @contextlib.asynccontextmanager
    async def ending(_app: object) -> AsyncIterator[None]:
        yield
        await lab.processes.end()

    app = FastAPI(
        title="Leaven's lab",
        version=leaven_version(),
        description="Questions to models, runs and recipes, over HTTP.",
        docs_url=None,  # these load scripts from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
        lifespan=ending,
    )
    sends_token = Depends(HTTPBearer(auto_error=False))  # a part of the description; the guards check it
    router = APIRouter(prefix=PREFIX, responses=problems(*ALWAYS), dependencies=[sends_token, Depends(refuse_unknown)])
    for add in (add_about, add_models, add_runs, add_recipes, add_catalog):
        add(router, lab)
    app.include_router(router)
    settings = load_settings()
    app.include_router(jobs_router(settings, open_store(settings)), prefix=PREFIX)
    add_docs(app)
    add_reports(app, _status_of)
    return app


def _status_of(problem: Problem) -> int:
    from leaven.api.problems import Refused
    from leaven.jobs.server import status_of

    return problem.status if isinstance(problem, Refused) else status_of(problem)
