"""Runs: listing, following, starting and stopping them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from leaven.api import asked, replies
from leaven.api.lab import Lab
from leaven.api.problems import Forbidden, Missing
from leaven.api.routes.described import ASKING, WITH_BODY, Limit, Offset, Word, problems
from leaven.api.routes.models import streamed
from leaven.api.routes.recipes import known_of
from leaven.api.running import points, printed
from leaven.formats import run_folder

_OFTEN = 0.5  # seconds between two looks at a run that is followed
_QUIET = 10.0  # after which a line says that nothing is new: so it is noticed that the client has gone
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-ndjson": {"schema": replies.Rows.model_json_schema()}}}
}
Since = Annotated[int, Query(ge=0, le=1_000_000_000)]


def add_runs(router: APIRouter, lab: Lab) -> None:
    """All of them."""
    runs, places = lab.runs, lab.places

    @router.get("/runs", summary="List runs, the newest first")
    def list_runs(offset: Offset = 0, limit: Limit = 100) -> replies.Runs:
        found = [one for one in places.found() if one.kind == "run" and one.path is not None]
        found.sort(key=lambda one: _started(one.path), reverse=True)
        items = [replies.Run(**runs.short(one.path, one.name)) for one in found[offset : offset + limit] if one.path]
        return replies.Runs(items=items, total=len(found))

    @router.post("/runs", status_code=201, summary="Start a run", responses=problems(*WITH_BODY, *ASKING))
    async def start(body: asked.StartRun) -> replies.Started:
        known = {**known_of(lab, body), "name": body.name, "is_quick": body.quick}
        found = await lab.recipes("prepare_run", **known)
        folder, words, begin = (found.pop(name, None) for name in ("folder", "words", "start"))
        if folder is not None:
            runs.start(Path(folder), words, begin)
        return replies.Started(**found, run=places.name_of(folder) if folder is not None else None)

    @router.post("/runs/stop", summary="Let a run save and stop", responses=problems(*WITH_BODY))
    def stop(body: asked.OfRun) -> replies.Stopped:
        return replies.Stopped(stopped=runs.stop(places.run(body.run)))

    @router.post("/runs/resume", summary="Resume a run that was stopped", responses=problems(*WITH_BODY, *ASKING))
    async def resume(body: asked.OfRun) -> replies.Run:
        folder = places.run(body.run)
        if not lab.runs_code:
            raise Forbidden("to resume a run is to run the program in its folder", "start the lab with `--run-code`")
        found = await lab.recipes("resume_words", folder=str(folder))
        if runs.state(folder) == "stopped":
            runs.start(folder, found["words"], found["start"])
        return replies.Run(**runs.short(folder, body.run))

    @router.get("/runs/one", summary="A run with its recipe and plan")
    def one(run: Word) -> replies.RunDetails:
        folder = places.run(run)
        texts: dict[str, Any] = {
            "recipe": _text(folder / run_folder.RECIPE),
            "resolved": _text(folder / run_folder.RESOLVED),
            "plan": _text(folder / run_folder.PLAN_TEXT),
        }
        python = f"import leaven\n\nrun = leaven.open_run({str(folder)!r})\nprint(run.scores)\n"
        files = sorted(file.name for file in folder.iterdir() if file.is_file())
        return replies.RunDetails(**runs.short(folder, run), **texts, python=python, files=files)

    @router.get("/runs/metrics", summary="The epochs of a run from one on")
    def metrics(run: Word, since: Since = 0, limit: Limit = 1000) -> replies.Rows:
        return replies.Rows(**runs.rows(places.run(run), since, limit))

    @router.get("/runs/curve", summary="Metrics of a run as a chart of at most 1,000 points")
    def curve(run: Word, names: Annotated[list[str] | None, Query(max_length=20)] = None) -> replies.Points:
        rows = run_folder.read_metrics(places.run(run))
        numbers = list(dict.fromkeys(name for row in rows for name in row if name not in ("phase", "epoch")))
        if unknown := [name for name in names or () if name not in numbers]:
            raise Missing(f"the run has no metric `{unknown[0][:100]}`", f"it has {', '.join(numbers)}")
        return replies.Points(**points(rows, names or numbers))

    @router.get(
        "/runs/follow",
        summary="The epochs of a run as they come: a line of JSON for each change, until it ends",
        response_class=StreamingResponse,
        responses=_LINES,
    )
    async def follow(run: Word, since: Since = 0) -> StreamingResponse:
        folder = places.run(run)
        return await streamed(_followed(lambda at: runs.rows(folder, at, 1000), since))

    @router.get("/runs/training", summary="Loss, layers and probes of a run", responses=problems(*ASKING))
    async def training(run: Word) -> dict[str, Any]:
        found: dict[str, Any] = await lab.recipes("training", folder=str(places.run(run)))
        return found

    @router.get("/runs/training/rows", summary="What a run has recorded since", responses=problems(*ASKING))
    async def training_rows(run: Word, since: Since = 0) -> dict[str, Any]:
        found: dict[str, Any] = await lab.recipes("new_rows", folder=str(places.run(run)), since=since)
        return found

    @router.get("/runs/advice", summary="What stands out in a run, and what to change", responses=problems(*ASKING))
    async def advice(run: Word) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await lab.recipes("advice", folder=str(places.run(run)))
        return found

    @router.get("/runs/printed", summary="The end of what a run that was started here has printed")
    def read_printed(run: Word) -> replies.Printed:
        return replies.Printed(text=printed(places.run(run)))


async def _followed(read: Callable[[int], dict[str, Any]], since: int) -> AsyncGenerator[dict[str, Any]]:
    """The rows of a run whenever there are new ones or its state changes; the last has no rows after it."""
    state, quiet, is_first = "", 0.0, True
    while True:
        found = await asyncio.to_thread(read, since)
        if found["rows"] or found["state"] != state or quiet >= _QUIET or is_first:
            yield found
            since, state, quiet, is_first = found["next"], found["state"], 0.0, False
        if state != "running" and not found["rows"]:
            return
        await asyncio.sleep(_OFTEN)
        quiet += _OFTEN


def _started(folder: Path | None) -> str:
    return str(run_folder.read_json(folder / run_folder.LOCK).get("started", "")) if folder is not None else ""


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")[:1_000_000]
    except OSError:
        return ""
