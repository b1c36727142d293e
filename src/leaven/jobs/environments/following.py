"""Environments whose attempts an engine runs: their statuses, from the engine's word and the files of the attempt.

While the engine has an attempt, the engine's word counts: it may begin an attempt again that it has preempted. Once it
is over, the attempt's own word counts more, since it knows whether it has saved; only why it was ended the engine may
know better. What an engine can't take yet, since a limit of the user is reached, waits here and is submitted again.
What does not start within `start_within` minutes is given up.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from leaven.jobs.environments.answers import CachedAnswer
from leaven.jobs.environments.environment import GRACE, Position, Status, Task, Unreachable
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.places import place_of
from leaven.jobs.resources import Slots
from leaven.jobs.states import Outcome

PREFIX = "leaven-"  # of the name that an attempt has in the engine
_TRY_AGAIN = 60.0  # seconds until what an engine could not take is submitted again


class NotYet(Exception):
    """An engine can't take an attempt now, and says why; later it may."""


@dataclass(frozen=True)
class EngineStatus:
    """An attempt as its engine sees it.

    `outcome` holds where the attempt itself says nothing; if the engine `knows_why` the attempt was ended, also where
    it only says that it was. `until_begun` is why a program may not have begun that the engine counts as running. `id`
    is the engine's own, where that is not the name.
    """

    phase: Literal["waiting", "running", "over"]
    outcome: Outcome = Outcome.LOST
    exit_code: int | None = None
    reason: str = ""
    knows_why: bool = False
    until_begun: str = ""
    id: str = ""


class EngineEnvironment(ABC):
    """An environment whose attempts an engine runs, and whose files are in a place."""

    keys: ClassVar[Mapping[str, Form]] = {
        **dict.fromkeys(("python", "folder", "store", "scratch"), Form.STRING),
        "grace": Form.NUMBER,
        "log_limit": Form.SIZE,
        **dict.fromkeys(("poll", "timeout", "start_within"), Form.NUMBER),
    }
    engine: ClassVar[str]  # what reports call it
    poll_seconds: ClassVar[float]  # for which an answer is not asked for again, unless `poll` says others
    timeout: ClassVar[float]  # seconds for one question, unless `timeout` says others
    after_grace: ClassVar[float]  # seconds in which what a program has saved may be sent here, before it is ended

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        self._settings = settings
        self._attempts = attempts
        self._python = str(settings.get("python") or "python")
        self._grace = float(settings.get("grace", GRACE))
        self._timeout = float(settings.get("timeout", self.timeout))
        self._start_within = settings.get("start_within")  # minutes
        self._place = place_of(settings, attempts, self._python)
        self._statuses = CachedAnswer(self._ask, float(settings.get("poll", self.poll_seconds)))
        self._end_at: dict[str, float] = {}
        self._waits_since: dict[str, float] = {}
        self._held: dict[str, tuple[str, float]] = {}  # why attempts can't be submitted yet, and until when

    @abstractmethod
    def _start(self, task: Task) -> str:
        """Let the engine have an attempt; its own id of it. `NotYet` where it can't take it now."""

    @abstractmethod
    def _ask_engine(self) -> Mapping[str, EngineStatus]:
        """The statuses of all attempts that the engine has."""

    @abstractmethod
    def _end(self, attempt: str) -> None:
        """Let the engine end an attempt."""

    def _ask(self) -> Mapping[str, EngineStatus]:
        try:
            return self._ask_engine()
        except (AttributeError, LookupError, TypeError, ValueError) as problem:  # an answer of a shape that none has
            fact = f"the answer of {self.engine} can't be understood: {type(problem).__name__}: {problem}"
            raise Unreachable(fact) from problem

    def submit(self, task: Task) -> str:
        self._statuses.forget()  # also if this fails, the engine may have it
        try:
            native = self._start(task)
        except NotYet as problem:
            self._held[task.attempt] = (str(problem), time.monotonic() + _TRY_AGAIN)
            return ""
        self._held.pop(task.attempt, None)
        return native

    def capacity(self) -> Slots | None:
        """None: the engine has a queue of its own."""
        return None

    def logs(self, attempt: str, native: str, start: Position, most: int) -> tuple[bytes, Position]:
        return self._place.log(attempt, start, most)

    def poll(self, attempts: Mapping[str, str]) -> dict[str, Status]:
        """The statuses of attempts, given with the engine's ids of those that were submitted."""
        engine = self._statuses()
        statuses = {id: self._status(id, engine.get(id), was_submitted=bool(native)) for id, native in attempts.items()}
        for id, status in statuses.items():
            if (known := engine.get(id)) is not None:
                statuses[id] = replace(status, native=known.id or PREFIX + id)
            if status.phase in ("ended", "running"):
                self._waits_since.pop(id, None)
            if status.phase == "ended":
                self._end_at.pop(id, None)
                self._held.pop(id, None)
        return statuses

    def _status(self, attempt: str, engine: EngineStatus | None, *, was_submitted: bool) -> Status:
        place = self._place
        is_stopping = place.is_stopping(attempt)
        if engine is not None and engine.phase == "running" and (is_stopping or place.has_begun(attempt)):
            place.follow(attempt)
            return Status("running", reason=engine.reason)
        if engine is not None and engine.phase != "over" and not is_stopping:
            return self._waiting(attempt, engine)
        if (known := place.outcome(attempt)) is not None:
            if engine is not None and engine.knows_why and known.outcome is not Outcome.SUCCEEDED and not is_stopping:
                return Status("ended", engine.outcome, known.exit_code, engine.reason)
            return known
        if place.is_alive(attempt):
            return Status("running", reason=f"{self.engine} has lost it; it has not ended yet")
        if engine is None and not was_submitted and not is_stopping:
            return self._not_submitted(attempt)
        place.rescue(attempt)
        if is_stopping:  # also one that waits: it will see the request when it begins, and do nothing
            return Status("ended", Outcome.STOPPED, reason="" if engine is None else engine.reason)
        engine = engine or EngineStatus("over", reason=f"{self.engine} does not know it any more")
        return Status("ended", engine.outcome, engine.exit_code, engine.reason)

    def _not_submitted(self, attempt: str) -> Status:
        """The status of an attempt that the engine does not have: submit it, unless it could not take it lately."""
        reason, until = self._held.get(attempt, ("", 0.0))
        status = self._waiting(attempt, EngineStatus("waiting", reason=reason)) if reason else Status("absent")
        return Status("absent") if status.phase == "starting" and time.monotonic() >= until else status

    def _waiting(self, attempt: str, engine: EngineStatus) -> Status:
        """The status of an attempt that has not begun: why it waits, or that it has waited for too long."""
        reason = engine.reason
        if engine.phase == "running":
            reason = engine.until_begun or f"{self.engine} has started it; its program has not begun"
        since = self._waits_since.setdefault(attempt, time.monotonic())
        if self._start_within is None or time.monotonic() < since + 60 * float(self._start_within):
            return Status("starting", reason=reason)
        self._place.stop(attempt, self._grace)
        self._statuses.forget()  # what has begun by now may save, and is tried again
        now = self._statuses().get(attempt)
        if now is not None and now.phase == "running" and self._place.has_begun(attempt):
            return Status("running", reason=now.reason)
        if now is not None and now.phase != "over":
            self._end(attempt)
            self._statuses.forget()
        fact = f"it could not start within {float(self._start_within):g} minutes"
        return Status("ended", Outcome.TIMED_OUT, reason=f"{fact}: {reason}" if reason else fact)

    def cancel(self, attempt: str, native: str, grace: float) -> None:
        """Let a program that runs save; after the grace, and if it has not begun, let the engine end it."""
        if attempt in self._held:
            self._place.stop(attempt, grace)
        engine = self._statuses().get(attempt)
        if engine is not None and engine.phase != "over" and not self._place.is_stopping(attempt):
            self._place.stop(attempt, grace)
            self._statuses.forget()  # what has begun by now may save; what begins later sees the request, and ends
            engine = self._statuses().get(attempt)
        if engine is None or engine.phase == "over":
            return
        now = time.monotonic()
        until = self._end_at.setdefault(attempt, now + grace + self.after_grace)
        if engine.phase == "waiting" or now >= until:
            self._end(attempt)
            self._statuses.forget()
