"""A lab that is served: the files that it may reach, its processes, and what its clients may do."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leaven.api.asked import Input
from leaven.api.places import Places
from leaven.api.problems import Refused
from leaven.api.processes import PICTURES, RECIPES, Processes, Ticket
from leaven.api.running import Runs
from leaven.files.frames import Frame

_REMEMBERED = 10_000  # pictures whose headers were looked at


@dataclass
class Lab:
    """What all routes share."""

    places: Places
    processes: Processes
    runs: Runs
    runs_code: bool
    journal: Path
    _looked_at: dict[tuple[str, int, int], dict[str, Any]] = field(default_factory=dict)

    # -- questions to models

    async def ask(self, model: str, call: str, ticket: Ticket | None = None, **arguments: Any) -> Any:
        """The answer of a model, by the name that the client uses."""
        name = self.places.model(model)
        frame = await self.processes.answer(
            (name,), call, {"model": name, "trust": self.runs_code, **arguments}, ticket
        )
        return _named(frame.content["answer"], model)

    async def ask_all(self, models: Sequence[str], call: str, ticket: Ticket, **arguments: Any) -> list[Any]:
        """The answers of some models, which compute at the same time."""
        asked = [self.ask(model, call, ticket, **arguments) for model in dict.fromkeys(models)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        for model, each in zip(models, found, strict=False):
            if isinstance(each, Refused):
                raise type(each)(f"{model}: {each.headline}" if len(models) > 1 else each.headline, each.help)
            if isinstance(each, BaseException):
                raise each
        return found

    async def stream(self, model: str, call: str, ticket: Ticket, **arguments: Any) -> AsyncGenerator[Any]:
        """The answers of a model as they come."""
        name = self.places.model(model)
        known = {"model": name, "trust": self.runs_code, **arguments}
        async with aclosing(self.processes.answers((name,), call, known, ticket)) as frames:
            async for frame in frames:
                yield _named(frame.content["answer"], model)

    # -- inputs

    async def given(self, asked: Input) -> dict[str, Any]:
        """An input as a process is told: a picture was looked at before, and can be decoded."""
        if asked.text is not None:
            return {"text": asked.text}
        file = self.places.upload(asked.upload) if asked.upload is not None else self.places.file(str(asked.file))
        await self.look(file)
        return {"file": file}

    async def edits(self, edits: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The edits with files that may be reached: one that is pasted is a picture as well."""
        found = []
        for one in edits:
            edit = dict(one)
            if edit.get("edit") == "paste":
                file = str(edit.get("file", ""))
                edit["file"] = self.places.upload(file) if _is_upload(file) else self.places.file(file)
                await self.look(edit["file"])
            found.append(edit)
        return found

    async def look(self, file: str) -> dict[str, Any]:
        """The format and size of a picture that is not too large; asked once for each state of a file."""
        stat = await asyncio.to_thread(Path(file).stat)
        key = file, stat.st_mtime_ns, stat.st_size
        if key not in self._looked_at:
            if len(self._looked_at) > _REMEMBERED:
                self._looked_at.clear()
            self._looked_at[key] = (await self.picture("look", file=file)).content["answer"]
        return self._looked_at[key]

    async def picture(self, call: str, ticket: Ticket | None = None, **arguments: Any) -> Frame:
        """An answer of the process that opens pictures."""
        return await self.processes.answer(PICTURES, call, arguments, ticket)

    # -- recipes

    async def recipes(self, call: str, ticket: Ticket | None = None, **arguments: Any) -> Any:
        """An answer of the process that reads recipes."""
        return (await self.processes.answer(RECIPES, call, arguments, ticket)).content["answer"]


def _is_upload(word: str) -> bool:
    return len(word) == 32 and all(letter in "0123456789abcdef" for letter in word)


def _named(answer: Any, model: str) -> Any:
    """An answer in which the model has the name that the client uses."""
    if isinstance(answer, dict) and "model" in answer:
        answer["model"] = model
        for flip in answer.get("flips") or ():
            flip["model"] = model
    return answer
