"""The types of the HTTP API's answers: those of jobs and attempts follow from the records of the store."""

from dataclasses import fields
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, Field, create_model

from leaven.jobs.progress import Progress
from leaven.jobs.resources import Slots
from leaven.jobs.states import State
from leaven.jobs.store.records import Attempt, Event, Job

_MOST = 1_000_000
_SHOWN = {  # fields that `Job.to_json` shows otherwise than the store has them
    "state": Literal["paused", *(state.value for state in State)],
    "progress": Progress | None,
    "settings": dict[str, Any],
}


def _fields(record: type) -> dict[str, Any]:
    """The fields of a record, all of which an answer has."""
    hints = {**get_type_hints(record), **(_SHOWN if record is Job else {})}
    return {field.name: (hints[field.name], ...) for field in fields(record)}


JobReply: type[BaseModel] = create_model("Job", **_fields(Job))
JobsReply = list[JobReply]  # type: ignore[valid-type]
AttemptReply: type[BaseModel] = create_model("Attempt", **_fields(Attempt))
JobWithAttempts: type[BaseModel] = create_model(
    "JobWithAttempts",
    __base__=JobReply,
    after=(list[int], ...),
    tries=(list[AttemptReply], ...),  # type: ignore[valid-type]
    events=(list[Event], ...),
)


class EnvironmentReply(BaseModel):
    """An environment: its resources, unknown where it has a queue of its own, and why it does not answer."""

    name: str
    kind: str
    has: Slots | None
    problem: str


class CoordinatorReply(BaseModel):
    """The coordinator of the folder, if one is running, and the number of jobs in each state."""

    coordinator: dict[str, Any] | None
    jobs: dict[str, int]


class Forgotten(BaseModel):
    """How many jobs were forgotten."""

    forgotten: int


class Started(BaseModel):
    """Whether a coordinator was started: not if one is running."""

    started: bool


class Stopped(BaseModel):
    """Whether a coordinator was stopped: not if none was running."""

    stopped: bool


class Health(BaseModel):
    """The server answers, and so does its store."""

    status: Literal["ok"] = "ok"


class ProblemReply(BaseModel):
    """What can't be done, and what to do about it."""

    error: str
    help: str


class PriorityBody(BaseModel):
    """A new priority."""

    priority: int = Field(ge=-_MOST, le=_MOST)
