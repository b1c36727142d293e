"""What became of attempts that run elsewhere: from what the engine says of them and what they themselves have left.

While the engine has an attempt, the engine's word counts: it may begin an attempt again that it has preempted. Once it
is over, the attempt's own word counts more, since it knows whether it has saved.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from leaven.jobs.environments.answers import Held
from leaven.jobs.environments.environment import Status
from leaven.jobs.environments.places import place_of
from leaven.jobs.resources import Slots
from leaven.jobs.states import Outcome

PREFIX = "leaven-"  # of the name that an attempt has in the engine


@dataclass(frozen=True)
class Said:
    """What an engine says of an attempt; `outcome` is what it would be if the attempt itself says nothing."""

    phase: Literal["waiting", "running", "over"]
    outcome: Outcome = Outcome.LOST
    exit_code: int | None = None
    reason: str = ""


class Followed(ABC):
    """An environment whose attempts an engine has, and whose files are in a place."""

    engine: ClassVar[str]  # what reports call it
    hold: ClassVar[float]  # seconds for which an answer is not asked for again, unless `poll` says others
    after_grace: ClassVar[float]  # seconds in which what a program has saved may be sent here, before it is ended

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        self._settings = settings
        self._attempts = attempts
        self._python = str(settings.get("python") or "python")
        self._place = place_of(settings, attempts, self._python)
        self._said = Held(self._ask_engine, float(settings.get("poll", self.hold)))
        self._end_at: dict[str, float] = {}

    @abstractmethod
    def _ask_engine(self) -> Mapping[str, Said]:
        """What the engine says of all attempts."""

    @abstractmethod
    def _end(self, attempt: str) -> None:
        """Let the engine end an attempt."""

    def capacity(self) -> Slots | None:
        """None: the engine has a queue of its own."""
        return None

    def logs(self, attempt: str, native: str, offset: int) -> bytes:
        return self._place.log(attempt, offset)

    def find(self, attempt: str) -> str | None:
        """The engine's name of an attempt, if it has it."""
        self._said.forget()
        return PREFIX + attempt if attempt in self._said() else None

    def poll(self, attempts: Mapping[str, str]) -> dict[str, Status]:
        """What became of attempts, given with the engine's names of those that were submitted."""
        said = self._said()
        found = {id: self._status(id, said.get(id), was_submitted=bool(name)) for id, name in attempts.items()}
        self._end_at = {id: at for id, at in self._end_at.items() if id not in found or found[id].phase != "ended"}
        return found

    def _status(self, attempt: str, said: Said | None, *, was_submitted: bool) -> Status:
        place = self._place
        is_stopping = place.is_stopping(attempt)
        if said is not None and said.phase == "waiting" and not is_stopping:
            return Status("starting", reason=said.reason)
        if said is not None and said.phase == "running":
            place.follow(attempt)
            return Status("running", reason=said.reason)
        if (known := place.outcome(attempt)) is not None:
            return known
        if place.is_alive(attempt):
            return Status("running", reason=f"{self.engine} has lost it; it saves and ends")
        if said is None and not was_submitted and not is_stopping:
            return Status("absent")
        place.rescue(attempt)
        if is_stopping:  # also one that waits: it will see the wish when it begins, and do nothing
            return Status("ended", Outcome.STOPPED, reason="" if said is None else said.reason)
        said = said or Said("over", reason=f"{self.engine} does not know it any more")
        return Status("ended", said.outcome, said.exit_code, said.reason)

    def cancel(self, attempt: str, native: str, grace: float) -> None:
        """Let a program that runs save; after the grace, and if it has not begun, let the engine end it."""
        said = self._said().get(attempt)
        if said is not None and said.phase != "over" and not self._place.is_stopping(attempt):
            self._place.stop(attempt, grace)
            self._said.forget()  # what has begun by now may save; what begins later sees the wish, and does nothing
            said = self._said().get(attempt)
        if said is None or said.phase == "over":
            return
        now = time.monotonic()
        until = self._end_at.setdefault(attempt, now + grace + self.after_grace)
        if said.phase == "waiting" or now >= until:
            self._end(attempt)
            self._said.forget()
