"""Answers of engines: asked for at most every few seconds, and of a shape that nobody promises."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from leaven.jobs.environments.environment import Unreachable
from leaven.terminal.visible import visible

Answer = TypeVar("Answer")
_SHOWN = 200  # characters of an answer that can't be understood


class Rejected(Exception):
    """An engine that is asked over HTTP rejects a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class CachedAnswer(Generic[Answer]):
    """The answer to a question that costs an engine something, kept for some seconds."""

    def __init__(self, ask: Callable[[], Answer], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._kept: tuple[float, Answer] | None = None

    def __call__(self) -> Answer:
        now = time.monotonic()
        if self._kept is None or now >= self._kept[0] + self._seconds:
            self._kept = (now, self._ask())
        return self._kept[1]

    def forget(self) -> None:
        """Ask anew next time."""
        self._kept = None


def run_command(
    name: str, words: Sequence[str], timeout: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command of an engine that has ended; `name` is what reports call it."""
    try:
        return subprocess.run(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        raise Unreachable(f"the command `{words[0]}` is not there") from None
    except subprocess.TimeoutExpired:
        raise Unreachable(f"`{name}` did not answer in {timeout:.0f} s") from None


def not_understood(engine: str, answer: object) -> Unreachable:
    """The report of an answer that has another shape than an engine's: a proxy's page, a line that was cut."""
    words = visible(" ".join(str(answer).split()))
    return Unreachable(f"the answer of {engine} can't be understood: {words[:_SHOWN] or 'it is empty'}")


def tables(engine: str, answer: Any) -> list[dict[str, Any]]:
    """The tables of a list, as most answers are."""
    if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
        raise not_understood(engine, answer)
    return answer


def table(answer: Any) -> dict[str, Any]:
    """A table inside of an answer; an empty one where there is something else."""
    return answer if isinstance(answer, dict) else {}


def rows(answer: Any) -> list[dict[str, Any]]:
    """The tables of a list inside of an answer; none where there is something else."""
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
