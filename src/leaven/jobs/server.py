"""The HTTP API of a coordinator: what the commands do, by the same functions.

Every request needs the token, and anyone who has it may run programs as the user who runs the server. The room
`serving` guards the application. The server listens on this machine alone, unless it is told otherwise. What can't be
done is answered as JSON, with what to do about it: `{"error": …, "help": …}`.
"""

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Collection

from leaven.formats.installed_versions import leaven_version
from leaven.jobs import requests
from leaven.jobs.package import MOST_BYTES
from leaven.jobs.settings import Settings
from leaven.jobs.store.failures import NameTaken, NotAllowed, StoreFailed
from leaven.jobs.store.for_users import JobStore
from leaven.serving import tokens
from leaven.serving.guards import Application, Guard, Rules
from leaven.serving.memory import give_back_memory
from leaven.terminal.problem import Problem

_FILE = "token"  # the file in the folder of jobs with a token that was made up
_THREADS = 6
_CODES: dict[type[Problem], int] = {NotAllowed: 403, NameTaken: 409, StoreFailed: 503}  # of other problems it is 400
_HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}


class ServerError(Problem):
    """The server can't be started."""


def serve(
    settings: Settings, host: str, port: int, announce: Callable[[str], None], names: Collection[str] = ()
) -> None:
    """Serve until a signal ends it; `announce` gets the address when it listens. `names` are others that lead here."""
    try:
        from leaven.serving.connections import server_of

        token = token_of(settings, host)
        os.environ.pop(tokens.VARIABLE, None)  # neither a coordinator nor a job that is started from here needs it
        store = requests.open_store(settings)
        from leaven.jobs.routes import OPEN, SUBMIT

        all_names = tuple(name.lower() for name in {"localhost", host, socket.gethostname(), *names})
        rules = Rules(all_names, OPEN, more_bytes={SUBMIT: MOST_BYTES}, headers=_HEADERS)
        server = server_of(application(settings, store, token, rules))
    except ModuleNotFoundError as problem:
        raise ServerError(f"{problem.name} is not installed", "pip install 'leaven[serve]'") from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as problem:
        raise ServerError(f"can't listen on {host}:{port}: {problem.strerror}", "choose another --port") from None
    shown = f"[{host}]" if ":" in host else host
    announce(f"http://{shown}:{listening.getsockname()[1]}")
    announce(f"the token is in {token.file}" if not token.given else f"the token is that of {tokens.VARIABLE}")
    give_back_memory()
    server.run(sockets=[listening])


def token_of(settings: Settings, host: str = "localhost") -> tokens.Token:
    """The token of a server with these settings."""
    return tokens.token_of(settings.folder / _FILE, host)


def read_token(settings: Settings, *, renew: bool) -> str:
    """The token, or a new one in its place."""
    token = token_of(settings)
    if renew and token.given:
        raise ServerError(f"the token is that of {tokens.VARIABLE}", "change the variable, and start the server again")
    if renew:
        tokens.renew(token.file)
    return token.read()


def application(settings: Settings, store: JobStore, token: tokens.Token, rules: Rules) -> Application:
    """The API of a store, with its guards."""
    from fastapi import FastAPI

    from leaven.jobs.metrics import Metrics
    from leaven.jobs.routes import add_routes
    from leaven.serving.answers import add_reports

    app = FastAPI(
        title="Leaven's jobs",
        version=leaven_version(),
        description="What `leaven jobs` does, over HTTP.",
        docs_url=None,  # these load scripts from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
        lifespan=_with_few_threads,
    )
    metrics = Metrics(settings, store)
    add_routes(app, settings, store, metrics)
    add_reports(app, status_of)
    return metrics.measuring(Guard(app, token, rules))


def status_of(problem: Problem) -> int:
    """The status of the answer to what can't be done."""
    return next((code for kind, code in _CODES.items() if isinstance(problem, kind)), 400)


@contextlib.asynccontextmanager
async def _with_few_threads(_app: object) -> AsyncIterator[None]:
    """Let requests wait for a thread, which they get in their order: writers that meet in SQLite wait in none."""
    from anyio.to_thread import current_default_thread_limiter

    current_default_thread_limiter().total_tokens = _THREADS
    yield
