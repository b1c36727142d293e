"""Answers questions that come over a pipe, one after the other, until the pipe is closed.

    question   {"id": 7, "ask": "predict", "arguments": {…}}   and perhaps bytes
    answer     {"id": 7, "answer": …}                          and perhaps bytes, any number of times
    at last    {"id": 7, "end": true}                          or, in its place, {"id": 7, "problem": {…}}
    cancelled  {"cancel": 7}                                   the question is left at its next answer

Whatever a library prints goes to the standard error.
"""

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import GeneratorType
from typing import Any, BinaryIO, NamedTuple

from leaven.files.frames import BadFrame, Frame, encoded, read
from leaven.formats.out_of_memory import says_out_of_memory
from leaven.terminal.problem import Problem

Call = Callable[..., Any]


class Missing(Problem):
    """There is nothing of that name."""


class Forbidden(Problem):
    """It may be asked only of a lab that was started otherwise."""


class Answer(NamedTuple):
    """An answer with bytes, such as a picture."""

    value: Any
    body: bytes = b""


def serve(calls: Mapping[str, Call]) -> None:
    """Answer the questions on the standard input, with as much memory as the first argument says, in bytes."""
    _limit_memory(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    questions = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    waiting: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    cancelled: set[int] = set()
    threading.Thread(target=_read, args=(questions, waiting, cancelled), daemon=True).start()
    with suppress(BrokenPipeError):  # who asked is gone
        while True:
            _answer(calls, waiting.get(), answers, cancelled)


def _read(questions: BinaryIO, waiting: "queue.SimpleQueue[Frame]", cancelled: set[int]) -> None:
    """Read on while a question is answered. At the end of the pipe, this process ends, whatever it does."""
    try:
        while (frame := read(questions)) is not None:
            if "cancel" in frame.content:
                cancelled.add(int(frame.content["cancel"]))
            else:
                waiting.put(frame)
    except BadFrame:
        pass
    os._exit(0)


def _answer(calls: Mapping[str, Call], question: Frame, answers: BinaryIO, cancelled: set[int]) -> None:
    number = question.content["id"]
    arguments = dict(question.content["arguments"])
    if question.body:
        arguments["body"] = question.body
    try:
        for each in _answers(calls[question.content["ask"]](**arguments)):
            if number in cancelled:
                break
            value, body = each if isinstance(each, Answer) else (each, b"")
            _write(answers, encoded({"id": number, "answer": value}, body))
        _write(answers, encoded({"id": number, "end": True}))
    except Exception as problem:
        _write(answers, encoded({"id": number, "problem": told(problem)}))
    cancelled.discard(number)


def _answers(found: Any) -> Iterator[Any]:
    """Each of the answers; of what is no generator, the only one."""
    if isinstance(found, GeneratorType):
        yield from found
    else:
        yield found


_KINDS: dict[type[Problem], str] = {Missing: "missing", Forbidden: "forbidden"}


def told(problem: Exception) -> dict[str, str]:
    """A problem as JSON: its kind, headline and help."""
    text = f"{type(problem).__name__}: {problem}"
    if isinstance(problem, MemoryError) or says_out_of_memory(text):
        return {"kind": "memory", "headline": "there is too little memory", "help": ""}
    if hasattr(problem, "headline"):
        kind = next((name for kind, name in _KINDS.items() if isinstance(problem, kind)), "refused")
        return {"kind": kind, "headline": str(problem.headline), "help": str(getattr(problem, "help", "") or "")}
    if isinstance(problem, OSError) and problem.strerror:
        return {"kind": "refused", "headline": f"{problem.filename}: {problem.strerror}", "help": ""}
    return {"kind": "failed", "headline": text[:2000], "help": ""}


def _write(answers: BinaryIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[answers.write(rest) :]


def _limit_memory(most: int) -> None:
    """From now on so much memory, in bytes; where the system has no such limit, none."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if most:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
