"""What all routes declare: their problems, and parameters that many have."""

from typing import Annotated, Any

from fastapi import Header, Query

from leaven.api import replies
from leaven.api.problems import DESCRIPTIONS

ALWAYS = (400, 401, 403, 404, 421, 422, 503)
WITH_BODY = (408, 413)
ASKING = (409, 500, 502, 504, 507)  # what asks a process


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The answers to failing requests, for the description of a route."""
    return {code: {"model": replies.Problem, "description": DESCRIPTIONS[code]} for code in codes}


Slot = Annotated[
    str | None,
    Header(alias="X-Slot", max_length=100, description="Of requests with the same slot, only the newest is answered"),
]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Word = Annotated[str, Query(min_length=1, max_length=4000)]
