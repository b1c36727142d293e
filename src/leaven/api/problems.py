"""What a request can't have: one class per status, with what to do about it."""

from collections.abc import Mapping

from leaven.terminal.problem import Problem


class Refused(Problem):
    """The question can't be answered as it is asked."""

    status = 400


class Forbidden(Refused):
    """It is outside of what the lab was started with."""

    status = 403


class Missing(Refused):
    """There is nothing of that name."""

    status = 404


class Superseded(Refused):
    """A newer request of the same slot has come, or the request was cancelled."""

    status = 409


class Failed(Refused):
    """The process has met an error that nobody has foreseen; it goes on."""

    status = 500


class Ended(Refused):
    """The process has ended without an answer; the next request starts it again."""

    status = 502


class Busy(Refused):
    """Too many requests wait for the process."""

    status = 503


class TooSlow(Refused):
    """The answer took too long, and the process was ended."""

    status = 504


class OutOfMemory(Refused):
    """The process needed more memory than it may have, and was ended."""

    status = 507


DESCRIPTIONS: Mapping[int, str] = {
    400: "It can't be done",
    401: "The token is missing or wrong",
    403: "The request comes from a page of another origin, or is about what the lab was not started with",
    404: "There is nothing of that name",
    408: "The body came too slowly",
    409: "A newer request of the same slot has come, or the name is taken",
    413: "The body is too long",
    421: "The server does not have that name",
    422: "A parameter is wrong",
    500: "A model or a recipe has met an error that nobody has foreseen",
    502: "The process of the model has ended; the next request starts it again",
    503: "Too many requests are waiting",
    504: "The answer took too long, and the process of the model was ended",
    507: "The model needed more memory than it may have, and its process was ended",
}
OF_PROCESSES: Mapping[str, type[Refused]] = {  # the kinds of problems that a process tells
    "refused": Refused,
    "forbidden": Forbidden,
    "missing": Missing,
    "failed": Failed,
    "memory": OutOfMemory,
}
