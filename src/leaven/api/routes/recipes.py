"""Recipes: checking and completing what is typed, plans and programs, and the catalog."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query

from leaven.api import asked, replies
from leaven.api.lab import Lab
from leaven.api.problems import Refused
from leaven.api.routes.described import ASKING, WITH_BODY, Limit, Offset, Slot, Word, problems
from leaven.files.atomic_files import write_text
from leaven.language.parser import MAX_CHARACTERS

ENDING = ".leaven"
_PATHS = ("check", "plan", "program", "show", "format", "complete", "hover")
MOST_TEXT = 4 * MAX_CHARACTERS + 100_000  # bytes
LONG_TEXTS = (*(("POST", f"/recipes/{name}") for name in _PATHS), ("PUT", "/recipes/file"), ("POST", "/runs"))
Kind = Annotated[str | None, Query(max_length=50)]
Name = Annotated[str, Query(min_length=1, max_length=300)]


def known_of(lab: Lab, body: asked.RecipeText) -> dict[str, Any]:
    """A recipe as its process is told."""
    file = _recipe_file(lab, body.file)
    roots = [str(root) for root in lab.places.folders]
    asked_for = {"text": body.text, "file": str(file), "args": body.args, "settings": body.settings}
    return {**asked_for, "roots": roots, "run_code": lab.runs_code}


def _recipe_file(lab: Lab, word: str) -> Path:
    """Where a recipe is or would be; a bare name is in the first of the lab's folders."""
    is_bare = Path(word).name == word and not Path(word).exists()
    if is_bare and lab.places.folders:
        return lab.places.path(str(lab.places.folders[0] / word))
    return lab.places.path(word)


def add_recipes(router: APIRouter, lab: Lab) -> None:
    """All of them."""
    told = problems(*WITH_BODY, *ASKING)
    slots = lab.processes.slots

    @router.post("/recipes/check", summary="Reports on a recipe, with fixes", responses=told)
    async def check(body: asked.RecipeText, slot: Slot = None) -> replies.Checked:
        ticket = slots.take(slot)
        return replies.Checked(**await lab.recipes("check", ticket, **known_of(lab, body)))

    @router.post("/recipes/plan", summary="What a recipe does, step by step", responses=told)
    async def plan(body: asked.RecipeText, slot: Slot = None) -> replies.CheckedText:
        ticket = slots.take(slot)
        return replies.CheckedText(**await lab.recipes("plan", ticket, **known_of(lab, body)))

    @router.post("/recipes/program", summary="The PyTorch program of a recipe", responses=told)
    async def program(body: asked.ProgramText, slot: Slot = None) -> replies.CheckedText:
        ticket = slots.take(slot)
        known = {**known_of(lab, body), "is_standalone": body.standalone}
        return replies.CheckedText(**await lab.recipes("program", ticket, **known))

    @router.post("/recipes/show", summary="A recipe with all defaults filled in", responses=told)
    async def show(body: asked.RecipeText, slot: Slot = None) -> replies.Shown:
        ticket = slots.take(slot)
        return replies.Shown(**await lab.recipes("show", ticket, **known_of(lab, body)))

    @router.post("/recipes/format", summary="A recipe as the formatter writes it", responses=told)
    async def format_text(body: asked.PlainText) -> replies.Formatted:
        return replies.Formatted(**await lab.recipes("format", text=body.text))

    @router.post("/recipes/complete", summary="The words that may stand at a place", responses=told)
    async def complete(body: asked.Place, slot: Slot = None) -> replies.Completions:
        ticket = slots.take(slot)
        return replies.Completions(**await lab.recipes("complete", ticket, text=body.text, offset=body.offset))

    @router.post("/recipes/hover", summary="The card of the name at a place", responses=told)
    async def hover(body: asked.Place, slot: Slot = None) -> replies.MaybeCard:
        ticket = slots.take(slot)
        return replies.MaybeCard(card=await lab.recipes("hover", ticket, text=body.text, offset=body.offset))

    @router.get("/recipes/file", summary="Read a recipe", responses=problems(*ASKING))
    async def read_file(file: Word) -> replies.RecipeFile:
        path = lab.places.file(file)
        if not path.endswith(ENDING) or Path(path).stat().st_size > MOST_TEXT:
            raise Refused(f"a recipe ends in `{ENDING}`")
        text = await asyncio.to_thread(Path(path).read_bytes)
        return replies.RecipeFile(file=file, text=text.decode("utf-8-sig", "replace"))

    @router.put("/recipes/file", summary="Save a recipe", responses=problems(*WITH_BODY))
    async def save_file(body: asked.Saved) -> replies.RecipeFile:
        place = lab.places.path(body.file)
        if place.suffix != ENDING:
            raise Refused(f"a recipe ends in `{ENDING}`")
        if not place.parent.is_dir():
            raise Refused(f"there is no folder `{lab.places.name_of(place.parent)}`")
        await asyncio.to_thread(write_text, place, body.text)
        return replies.RecipeFile(file=lab.places.name_of(place), text=body.text)


def add_catalog(router: APIRouter, lab: Lab) -> None:
    """The catalog."""

    @router.get("/catalog", summary="Search the catalog", responses=problems(*ASKING))
    async def search(
        words: Annotated[str, Query(max_length=200)] = "", kind: Kind = None, offset: Offset = 0, limit: Limit = 50
    ) -> replies.CatalogPage:
        found = await lab.recipes("search", words=words, kind=kind, offset=offset, limit=limit)
        return replies.CatalogPage(**found)

    @router.get("/catalog/cards", summary="The cards that a name means", responses=problems(*ASKING))
    async def cards(name: Name, kind: Kind = None) -> list[replies.Card]:
        return [replies.Card(**one) for one in await lab.recipes("cards", name=name, kind=kind)]

    @router.get("/explain", summary="The page of a report, or what a name means", responses=problems(*ASKING))
    async def explain(word: Name) -> replies.Explanation:
        return replies.Explanation(**await lab.recipes("explain", word=word))
