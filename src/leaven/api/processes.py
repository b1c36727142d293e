"""The processes of a lab: one for each model, of which there are a few, and one each for recipes and pictures.

Decides who waits for whom: a process answers one question at a time, the least recently used model makes room for
another, and of requests of one slot only the newest is answered.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from leaven.api.problems import Busy, Refused, Superseded
from leaven.api.process import Limits, Process
from leaven.files.frames import Frame

MODEL, RECIPES, PICTURES = (f"leaven.lab.asked.{name}" for name in ("model", "recipes", "pictures"))
_MOST_WAITING = 64  # for one process
_MOST_SLOTS = 10_000
_SECONDS = 300.0  # for recipes and pictures at least: libraries may be indexed, and imported


class Ticket:
    """The place of a request in its slot; `stale` is set when a newer one has come."""

    def __init__(self) -> None:
        self.stale = asyncio.Event()

    def check(self) -> None:
        if self.stale.is_set():
            raise Superseded("a newer request of the same slot has come")


class Slots:
    """The newest request of each slot: of a slider, only its last value matters."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, Ticket] = OrderedDict()

    def take(self, slot: str | None) -> Ticket:
        """A ticket for a request, which makes that of an earlier one stale."""
        ticket = Ticket()
        if slot is not None:
            if (before := self._newest.pop(slot, None)) is not None:
                before.stale.set()
            self._newest[slot] = ticket
            if len(self._newest) > _MOST_SLOTS:
                self._newest.popitem(last=False)
        return ticket


@dataclass
class Resident:
    """A process with the turn that its questions take."""

    process: Process
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    used: float = field(default_factory=time.monotonic)
    problem: str = ""  # how it ended last
    is_closed: bool = False

    @property
    def is_idle(self) -> bool:
        return not self.turn.locked() and not self.waiting


class Processes:
    """All of them; `most` is how many models may be loaded."""

    def __init__(self, most: int, limits: Limits, folder: str, *, trust: bool) -> None:
        self.most = most
        self.limits = limits
        self.slots = Slots()
        self.models: dict[tuple[str, ...], Resident] = {}
        self._folder = folder
        self._trust = trust
        patient = replace(limits, seconds=max(limits.seconds, _SECONDS))
        self._others = {name: Resident(Process(name, patient, folder)) for name in (RECIPES, PICTURES)}
        self._making_room = asyncio.Lock()

    async def answer(
        self, names: str | tuple[str, ...], call: str, arguments: Mapping[str, Any], ticket: Ticket | None = None
    ) -> Frame:
        """The only answer to a question; `names` are those of models, or RECIPES or PICTURES."""
        found = [frame async for frame in self.answers(names, call, arguments, ticket)]
        return found[-1]

    async def answers(
        self, names: str | tuple[str, ...], call: str, arguments: Mapping[str, Any], ticket: Ticket | None = None
    ) -> AsyncGenerator[Frame]:
        """The answers to a question as they come. Whoever leaves the loop cancels it."""
        ticket = ticket or Ticket()
        async with self._turn(names, ticket) as resident:
            try:
                async with aclosing(resident.process.ask(call, arguments)) as frames:
                    async for frame in frames:
                        yield frame
                        ticket.check()
                resident.problem = ""
            except Superseded:
                raise
            except Refused as problem:
                resident.problem = problem.headline if problem.status >= 500 else ""
                raise
            finally:
                resident.used = time.monotonic()

    @asynccontextmanager
    async def _turn(self, names: str | tuple[str, ...], ticket: Ticket) -> AsyncIterator[Resident]:
        """The process of some models when it is this request's turn."""
        while True:
            resident = self._others[names] if isinstance(names, str) else await self._resident(names)
            await self._wait(resident, ticket)
            try:
                if not resident.is_closed:  # while this request was waiting
                    yield resident
                    return
            finally:
                resident.turn.release()

    async def _wait(self, resident: Resident, ticket: Ticket) -> None:
        """Take the turn of a process, unless a newer request comes first."""
        if resident.waiting >= _MOST_WAITING:
            raise Busy("too many requests are waiting for this model", "try again later")
        resident.waiting += 1
        mine = asyncio.ensure_future(resident.turn.acquire())
        stale = asyncio.ensure_future(ticket.stale.wait())
        try:
            await asyncio.wait({mine, stale}, return_when=asyncio.FIRST_COMPLETED)
            ticket.check()
        except BaseException:
            if not mine.cancel():
                resident.turn.release()
            raise
        finally:
            stale.cancel()
            resident.waiting -= 1

    async def _resident(self, names: tuple[str, ...]) -> Resident:
        """The process of some models; the least recently used makes room for it."""
        if (found := self.models.get(names)) is not None:
            found.used = time.monotonic()
            return found
        async with self._making_room:
            while names not in self.models and len(self.models) >= self.most:
                idle = [name for name, one in self.models.items() if one.is_idle]
                oldest = min(idle or self.models, key=lambda name: self.models[name].used)
                await self.close(oldest)
            loads = [("load", {"model": name, "trust": self._trust}) for name in names]
            return self.models.setdefault(names, Resident(Process(MODEL, self.limits, self._folder, loads)))

    async def close(self, names: tuple[str, ...]) -> bool:
        """End the process of some models, when it has answered; whether there was one."""
        if (resident := self.models.get(names)) is None:
            return False
        async with resident.turn:
            resident.is_closed = True
            await resident.process.end()
            if self.models.get(names) is resident:
                del self.models[names]
        return True

    async def end(self) -> None:
        """End all of them."""
        for resident in (*self.models.values(), *self._others.values()):
            await resident.process.end()
