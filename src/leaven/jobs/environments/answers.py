"""Answers of engines, which are not asked for again for some seconds: a listing of all jobs costs them something."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Held(Generic[Answer]):
    """The answer to a question, which holds for some seconds."""

    def __init__(self, ask: Callable[[], Answer], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._found: tuple[float, Answer] | None = None

    def __call__(self) -> Answer:
        now = time.monotonic()
        if self._found is None or now >= self._found[0] + self._seconds:
            self._found = (now, self._ask())
        return self._found[1]

    def forget(self) -> None:
        """Ask anew: what was said before does not hold any more."""
        self._found = None
