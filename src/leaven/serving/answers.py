"""What servers made with FastAPI share: how problems are answered, and a page that lists the routes.

What can't be done is answered as JSON, with what to do about it: `{"error": …, "help": …}`.
"""

import html
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from leaven.serving.guards import problem_body
from leaven.terminal.problem import Problem


def answer(status: int, error: str, help: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """The answer that something can't be done."""
    return Response(problem_body(error, help), status, headers, "application/json")


def add_reports(app: FastAPI, status_of: Callable[[Problem], int]) -> None:
    """Answer with what can't be done, and what to do about it."""

    @app.exception_handler(StarletteHTTPException)
    def _(_request: object, problem: StarletteHTTPException) -> Response:
        help = "/docs lists what there is" if problem.status_code == 404 else ""
        return answer(problem.status_code, str(problem.detail), help, problem.headers)

    @app.exception_handler(RequestValidationError)
    def _(_request: object, problem: RequestValidationError) -> Response:
        first = problem.errors()[0]
        return answer(422, f"`{first['loc'][-1]}`: {first['msg']}", "/openapi.json says what is expected")

    @app.exception_handler(Problem)
    def _(_request: object, problem: Problem) -> Response:
        return answer(status_of(problem), problem.headline, problem.help)

    @app.exception_handler(Exception)
    def _(_request: object, _problem: Exception) -> Response:
        return answer(500, "the server failed", "what it has printed says why")


async def refuse_unknown(request: Request) -> None:
    """A parameter that is misspelt would have no effect, and nobody would notice."""
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    if unknown := [name for name in request.query_params if name not in known]:
        others = f"there are: {', '.join(known)}" if known else "there is none here"
        raise HTTPException(422, f"there is no parameter `{unknown[0]}`; {others}")


def add_docs(app: FastAPI) -> None:
    """A page with the routes that loads nothing from elsewhere: with a cookie, that could run programs."""

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(_page(app.openapi()))


def _page(described: dict[str, Any]) -> str:
    rows = [
        f"<tr><td>{method.upper()}</td><td>{html.escape(path)}</td><td>{html.escape(route['summary'])}</td></tr>"
        for path, routes in described["paths"].items()
        for method, route in routes.items()
    ]
    title = html.escape(described["info"]["title"])
    link = '<p>In full: <a href="/openapi.json">openapi.json</a></p>'
    return f"<!doctype html><title>{title}</title><h1>{title}</h1><table>{''.join(rows)}</table>{link}"
