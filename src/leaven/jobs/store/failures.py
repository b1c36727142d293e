"""The errors of a store, in one line for users."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from leaven.terminal.problem import Problem

_NOT_ALLOWED = "42501"  # in SQL: insufficient privilege
_NOT_SANE = "23514"  # a check of a table failed


class StoreError(Problem):
    """A store can't be used."""


class StoreFailed(StoreError):
    """A store that was opened does not answer as it should."""


class NotStorable(StoreError):
    """A value can't be stored: that is about one job, not about the store."""


class Forgotten(StoreError):
    """A job was removed while something was written about it."""


class NameTaken(Problem):
    """A new job can't have a name, since another one has it."""


class NotAllowed(StoreError):
    """Something belongs to another user."""


@contextmanager
def raising_store_errors() -> Iterator[None]:
    """Raise the errors of a database as those of a store."""
    try:
        yield
    except IntegrityError as problem:
        if getattr(problem.orig, "sqlstate", "") == _NOT_SANE:
            raise NotStorable(f"can't be stored: {first_line(problem)}") from None
        raise Forgotten(f"a job is not there any more: {first_line(problem)}") from None
    except DataError as problem:
        raise NotStorable(f"can't be stored: {first_line(problem)}") from None
    except DBAPIError as problem:
        if getattr(problem.orig, "sqlstate", "") == _NOT_ALLOWED:
            raise NotAllowed(first_line(problem), "its owner or an administrator can do that") from None
        raise StoreFailed(f"the store can't be used: {first_line(problem)}", help_for(problem)) from None


def first_line(problem: Exception) -> str:
    return str(getattr(problem, "orig", problem)).strip().partition("\n")[0]


_HELPS = {
    "malformed": "it is damaged: restore a copy of it (`leaven coordinator restore`), or move it away",
    "not a database": "it is damaged, or something else: restore a copy of it, or move it away",
    "readonly": "it can't be written: set LEAVEN_JOBS to a folder that can",
    "unable to open": "its folder can't be written: set LEAVEN_JOBS to one that can",
    "disk is full": "free some room, and try again: nothing is lost",
    "locked": "another process is writing to it for long: try again",
}


def help_for(problem: Exception) -> str:
    """The help for an error of a database."""
    error = first_line(problem)
    return next((help for words, help in _HELPS.items() if words in error), "")
