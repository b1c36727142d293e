"""Questions to models: what they are, what they answer, why, and what is inside."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from leaven.api import asked, replies
from leaven.api.lab import Lab
from leaven.api.problems import Forbidden, Refused
from leaven.api.routes.described import ASKING, WITH_BODY, Limit, Offset, Slot, Word, problems
from leaven.formats.agreement import agreement

MOST_UPLOAD = 32 * 2**20  # bytes
_MOST_OUTPUTS = 1000
_IMAGES: dict[str, Any] = {"image/jpeg": {}, "image/png": {}}
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-ndjson": {"schema": replies.Attribution.model_json_schema()}}}
}


def add_models(router: APIRouter, lab: Lab) -> None:
    """All of them."""
    _add_listing(router, lab)
    _add_inputs(router, lab)
    _add_answers(router, lab)
    _add_inside(router, lab)


def _add_listing(router: APIRouter, lab: Lab) -> None:
    @router.get("/models", summary="Runs, bundles and published models, and which are loaded")
    async def models(offset: Offset = 0, limit: Limit = 100) -> replies.Models:
        found = await asyncio.to_thread(lab.places.found)
        items = [replies.Listed(name=one.name, kind=one.kind) for one in found[offset : offset + limit]]  # type: ignore[arg-type]
        return replies.Models(items=items, total=len(found), loaded=_loaded(lab))

    @router.post("/models/open", summary="Load a model", responses=problems(*WITH_BODY, *ASKING))
    async def open_model(body: asked.OfModel) -> replies.Model:
        found = await lab.ask(body.model, "open")
        run = lab.places.name_of(found["run"]) if found["run"] else None
        outputs = found["outputs"]
        known = {**found, "run": run, "outputs": outputs[:_MOST_OUTPUTS], "output_count": len(outputs)}
        return replies.Model(model=body.model, **known)

    @router.post("/models/close", summary="End the process of a model", responses=problems(*WITH_BODY))
    async def close_model(body: asked.OfModel) -> replies.Closed:
        return replies.Closed(closed=await lab.processes.close((lab.places.model(body.model),)))


def _loaded(lab: Lab) -> list[replies.Loaded]:
    return [
        replies.Loaded(
            models=[lab.places.name_of(name) if Path(name).is_absolute() else name for name in names],
            state="ended" if not one.process.is_running else "idle" if one.is_idle else "busy",
            pid=one.process.pid,
            problem=one.problem,
        )
        for names, one in lab.processes.models.items()
    ]


def _add_inputs(router: APIRouter, lab: Lab) -> None:
    @router.get("/edits", summary="The kinds of edits, with their arguments", responses=problems(*ASKING))
    async def edits() -> list[replies.EditKind]:
        found = (await lab.picture("edits")).content["answer"]
        return [replies.EditKind(**one) for one in found]

    @router.post(
        "/uploads",
        status_code=201,
        summary="Send an image",
        responses=problems(*WITH_BODY, *ASKING),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )
    async def upload(request: Request) -> replies.Upload:
        content = await request.body()
        id = await asyncio.to_thread(lab.places.keep, content)
        try:
            found = await lab.look(lab.places.upload(id))
        except Refused as problem:
            lab.places.forget(id)
            raise type(problem)(problem.headline.replace(id, "the upload"), problem.help) from None
        return replies.Upload(upload=id, **found)

    @router.post(
        "/picture",
        summary="A changed image at display size",
        response_class=Response,
        responses={200: {"content": _IMAGES}, **problems(*WITH_BODY, *ASKING)},
    )
    async def picture(body: asked.Picture, slot: Slot = None) -> Response:
        ticket = lab.processes.slots.take(slot and f"picture {slot}")
        given, edits = await lab.given(body.input), await lab.edits(body.edits)
        if "file" not in given:
            raise Refused("a text has no picture")
        found = await lab.picture("changed", ticket, file=given["file"], edits=edits, size=body.size)
        return Response(found.body, media_type=found.content["answer"]["type"])

    @router.get(
        "/thumbnail",
        summary="A file as a small image",
        response_class=Response,
        responses={200: {"content": _IMAGES}, **problems(*ASKING)},
    )
    async def thumbnail(
        file: Annotated[str | None, Query(min_length=1, max_length=4000)] = None,
        upload: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
        size: Annotated[int, Query(ge=16, le=2048)] = 128,
    ) -> Response:
        if (file is None) == (upload is None):
            raise Refused("give `file` or `upload`")
        path = lab.places.file(file) if file is not None else lab.places.upload(str(upload))
        found = await lab.picture("thumbnail", file=path, size=size)
        return Response(found.body, media_type=found.content["answer"]["type"], headers={"Cache-Control": "private"})


def _add_answers(router: APIRouter, lab: Lab) -> None:
    slots = lab.processes.slots

    @router.post("/predict", summary="Answers before and after edits", responses=problems(*WITH_BODY, *ASKING))
    async def predict(body: asked.Predict, slot: Slot = None) -> replies.Predicted:
        ticket = slots.take(slot)
        known = {"given": await lab.given(body.input), "edits": await lab.edits(body.edits), "k": body.k}
        journal = str(lab.journal) if body.journal else ""
        found = await lab.ask_all(body.models, "predict", ticket, journal=journal, **known)
        answers = [one["answer"]["after"] for one in found]
        return replies.Predicted(
            edits=found[0]["edits"],
            answers=[replies.Answer(**one) for one in found],
            agreement=agreement([one["model"] for one in found], answers, is_same=len(set(answers)) == 1),
            recipe=found[0]["recipe"],
            check=found[0]["check"],
            python="\n".join(one["python"] for one in found),
        )

    @router.post(
        "/vary", summary="Curves while an edit grows, and flip points", responses=problems(*WITH_BODY, *ASKING)
    )
    async def vary(body: asked.Vary, slot: Slot = None) -> replies.Curves:
        ticket = slots.take(slot)
        known = {"given": await lab.given(body.input), "edits": await lab.edits(body.edits), "k": body.k}
        known |= {"name": body.vary, "between": body.between, "values": body.values, "steps": body.steps}
        known |= {"journal": str(lab.journal) if body.journal else ""}
        found = await lab.ask_all(body.models, "vary", ticket, **known)
        curves = [replies.Curve(**one) for one in found]
        first = {name: found[0][name] for name in ("vary", "neutral", "values")}
        return replies.Curves(**first, curves=curves, python="\n".join(one["python"] for one in found))

    @router.post("/flip", summary="The smallest edit that changes the answer", responses=problems(*WITH_BODY, *ASKING))
    async def flip(body: asked.Flip, slot: Slot = None) -> replies.MaybeFlip:
        ticket = slots.take(slot)
        given, edits = await lab.given(body.input), await lab.edits(body.edits)
        found = await lab.ask(body.model, "flip", ticket, given=given, edits=edits, names=body.names)
        return replies.MaybeFlip(flip=replies.Flip(**found) if found is not None else None)

    @router.post(
        "/attribute",
        summary="Why a model answers so: a line of JSON for all that is known so far, from coarse to fine",
        response_class=StreamingResponse,
        responses={**_LINES, **problems(*WITH_BODY, *ASKING)},
    )
    async def attribute(body: asked.Attribute, slot: Slot = None) -> StreamingResponse:
        ticket = slots.take(slot)
        known: dict[str, Any] = {"given": await lab.given(body.input), "edits": await lab.edits(body.edits)}
        known |= {"target": body.target, "method": body.method, "layer": body.layer}
        return await streamed(lab.stream(body.model, "attribute", ticket, **known))

    @router.post("/compare", summary="Two models, runs or recipes", responses=problems(*WITH_BODY, *ASKING))
    async def compare(body: asked.Compare) -> replies.Comparison:
        names = tuple(lab.places.model(word) for word in (body.a, body.b))
        data = str(lab.places.existing(body.data)) if body.data is not None else None
        known = {"a": names[0], "b": names[1], "data": data, "split": body.split, "seeds": body.seeds}
        if not lab.runs_code and any(name.endswith(".leaven") for name in names):
            raise Forbidden("to compare recipes, their Python code may have to be run", "start with `--run-code`")
        frame = await lab.processes.answer(names, "compare", {**known, "trust": lab.runs_code})
        found = frame.content["answer"]
        return replies.Comparison(**{**found, "a": body.a, "b": body.b})

    @router.post("/checks", status_code=201, summary="Save a check", responses=problems(*WITH_BODY, *ASKING))
    async def check(body: asked.Check) -> replies.SavedCheck:
        model = lab.places.model(body.model)
        beside = Path(model) / "model.checks" if Path(model).is_dir() else Path(model).with_suffix(".checks")
        file = lab.places.path(body.file if body.file is not None else str(beside))
        if file.suffix != ".checks":
            raise Refused("a file of checks ends in `.checks`")
        given, edits = await lab.given(body.input), await lab.edits(body.edits)
        found = await lab.ask(body.model, "check", given=given, edits=edits, file=str(file))
        return replies.SavedCheck(file=lab.places.name_of(file), check=found["check"])

    @router.get("/journal", summary="What was asked with `journal`, the newest first", responses=problems(*ASKING))
    async def journal(offset: Offset = 0, limit: Limit = 100) -> replies.JournalPage:
        frame = await lab.picture("journal", file=str(lab.journal), offset=offset, limit=limit)
        found = frame.content["answer"]
        return replies.JournalPage(**found)


def _add_inside(router: APIRouter, lab: Lab) -> None:
    @router.get("/layers", summary="The layers of a model", responses=problems(*ASKING))
    async def layers(model: Word, offset: Offset = 0, limit: Limit = 1000) -> replies.Layers:
        found = await lab.ask(model, "layers")
        rows = found.pop("layers")
        items = [replies.Layer(**one) for one in rows[offset : offset + limit]]
        return replies.Layers(items=items, total=len(rows), **found)

    @router.get("/statistics", summary="Weights, activations, time and memory per layer", responses=problems(*ASKING))
    async def statistics(model: Word, depth: Annotated[int | None, Query(ge=1, le=100)] = None) -> dict[str, Any]:
        found: dict[str, Any] = await lab.ask(model, "statistics", depth=depth)
        return found

    @router.post("/layers/read", summary="Inputs and outputs of layers", responses=problems(*WITH_BODY, *ASKING))
    async def read(body: asked.ReadLayers, slot: Slot = None) -> list[replies.Reading]:
        ticket = lab.processes.slots.take(slot)
        known: dict[str, Any] = {"given": await lab.given(body.input), "edits": await lab.edits(body.edits)}
        known |= {"layers": body.layers, "gradients": body.gradients, "target": body.target}
        found = await lab.ask(body.model, "read", ticket, **known)
        return [replies.Reading(**one) for one in found]

    @router.post("/layers/change", summary="Switch layers off, or scale them", responses=problems(*WITH_BODY, *ASKING))
    async def change(body: asked.ChangeLayers, slot: Slot = None) -> replies.Changed:
        ticket = lab.processes.slots.take(slot)
        known: dict[str, Any] = {"given": await lab.given(body.input), "edits": await lab.edits(body.edits)}
        known |= {"layers": body.layers, "by": body.by, "factor": body.factor, "k": body.k}
        return replies.Changed(**await lab.ask(body.model, "change", ticket, **known))


async def streamed(answers: AsyncGenerator[Any]) -> StreamingResponse:
    """Answers as lines of JSON. A problem before the first has its status, a later one is the last line."""
    first = await anext(answers)

    async def lines() -> AsyncIterator[bytes]:
        async with aclosing(answers):
            yield _line(first)
            try:
                async for one in answers:
                    yield _line(one)
            except Refused as problem:
                yield _line({"error": problem.headline, "help": problem.help, "status": problem.status})

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def _line(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False).encode() + b"\n"
