"""What became of an attempt that runs elsewhere: from what the engine says of it and what the attempt itself has left.

While the engine has an attempt, the engine's word counts: it may begin an attempt again that it has preempted. Once it
is over, the attempt's own word counts more, since it knows whether it has saved.
"""

from dataclasses import dataclass
from typing import Literal

from leaven.jobs.environments.environment import Status
from leaven.jobs.environments.places import Place
from leaven.jobs.states import Outcome


@dataclass(frozen=True)
class Said:
    """What an engine says of an attempt; `outcome` is what it would be if the attempt itself says nothing."""

    phase: Literal["absent", "waiting", "running", "over"]
    outcome: Outcome = Outcome.LOST
    exit_code: int | None = None
    reason: str = ""


def judged(place: Place, attempt: str, said: Said, *, was_submitted: bool) -> Status:
    """What became of an attempt."""
    if said.phase == "waiting":
        return Status("starting", reason=said.reason)
    if said.phase == "running":
        place.follow(attempt)
        return Status("running", reason=said.reason)
    if (known := place.outcome(attempt)) is not None:
        return known
    if place.is_stopping(attempt):
        place.rescue(attempt)
        return Status("ended", Outcome.STOPPED, said.exit_code, said.reason)
    if said.phase == "absent" and not was_submitted:
        return Status("absent")
    place.rescue(attempt)
    return Status("ended", said.outcome, said.exit_code, said.reason)
