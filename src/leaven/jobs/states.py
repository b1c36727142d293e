"""The words for what a job runs, where it is, what its user wants, and how an attempt ended."""

from enum import StrEnum


class Entry(StrEnum):
    """The program that a job runs."""

    PROGRAM = "program"  # that of its run, from the last checkpoint
    SWEEP = "sweep"  # all trials of a sweep, and what ends it
    END_SWEEP = "end sweep"  # what compares the trials, and finishes the best
    PLAIN = "plain"  # any Python file, which has no run to resume


class State(StrEnum):
    """Where a job is. Only the reconcile loop writes it."""

    QUEUED = "queued"
    STARTING = "starting"  # an attempt was recorded, and maybe submitted
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"  # its processes or its machine went away too often


NOT_SEEN = "no coordinator has looked at it yet"  # why a job waits that was just queued
ACTIVE = (State.STARTING, State.RUNNING, State.STOPPING)
ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST)


class Wanted(StrEnum):
    """The user's wish for a job. Only users write it."""

    RUN = "run"
    STOP = "stop"
    PAUSE = "pause"


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # asked to, or preempted: what was trained is saved
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"  # in the engine, by somebody else than Leaven: it is not tried again
    REFUSED = "refused"  # the environment will never run it
    DIVERGED = "diverged"  # its loss became NaN or infinite; another attempt's would too
    ERROR = "error"  # the coordinator itself can't deal with it; it is not tried again
    LOST = "lost"  # nobody can tell how it ended
