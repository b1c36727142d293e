"""A process that answers questions over pipes: how it is started, asked one question at a time, and ended.

Decides what is reported where it is killed, takes too long or too much memory. What it answers is left to the room
`lab`, whose programs these are; JSON and bytes cross the pipes, and nothing is unpickled.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from leaven.api.problems import OF_PROCESSES, Ended, OutOfMemory, Refused, TooSlow
from leaven.catalog.process import search_path
from leaven.files.frames import HEAD, BadFrame, Frame, decoded, encoded, lengths
from leaven.formats.out_of_memory import says_out_of_memory
from leaven.terminal.byte_sizes import show_bytes
from leaven.terminal.visible import visible

_LINES = 50  # of what it has printed, to say why it ended
_AGAIN = "the next request starts it again"
_STARTING = 600.0  # seconds to import libraries and to load a model, which may be downloaded
_ENDING = 2.0  # seconds until it is killed


Question = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Limits:
    """How much memory a process may have, in bytes, and how many seconds may pass without an answer."""

    memory: int = 4 * 2**30
    seconds: float = 120.0


class Process:
    """A subprocess that runs one of the programs in `leaven.lab.asked`."""

    def __init__(self, module: str, limits: Limits, cwd: str, first: Sequence[Question] = ()) -> None:
        self._module = module
        self._first = first  # what is asked at its start, which may take longer
        self._limits = limits
        self._cwd = cwd
        self._running: asyncio.subprocess.Process | None = None
        self._printed: deque[str] = deque(maxlen=_LINES)
        self._listening: asyncio.Task[None] | None = None
        self._count = 0

    @property
    def pid(self) -> int | None:
        """The id of the process while it runs."""
        return self._running.pid if self.is_running and self._running is not None else None

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._running.returncode is None

    async def ask(self, call: str, arguments: Mapping[str, Any], body: bytes = b"") -> AsyncGenerator[Frame]:
        """The answers to a question. Whoever leaves the loop cancels it.

        The process is started if it does not run.
        """
        if not self.is_running:
            await self._start()
            for question in self._first:
                async for _ in self._asked(*question, b"", _STARTING):
                    pass
        async with aclosing(self._asked(call, arguments, body, self._limits.seconds)) as frames:
            async for frame in frames:
                yield frame

    async def _asked(
        self, call: str, arguments: Mapping[str, Any], body: bytes, seconds: float
    ) -> AsyncGenerator[Frame]:
        self._count += 1
        number, is_over = self._count, False
        try:
            await self._send({"id": number, "ask": call, "arguments": dict(arguments)}, body)
            while "answer" in (frame := await self._next(number, seconds)).content:
                yield frame
            is_over = True
        except Refused:
            is_over = True
            raise
        finally:
            if not is_over and self.is_running:
                with suppress(Refused):
                    await self._send({"cancel": number})
        if (problem := frame.content.get("problem")) is not None:
            if problem["kind"] == "memory":
                await self.end()
            raise _as_error(problem, self._limits)

    async def end(self) -> None:
        """End the process at once."""
        running, self._running = self._running, None
        if running is None:
            return
        if running.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
        await running.wait()
        if self._listening is not None:
            await asyncio.wait({self._listening}, timeout=_ENDING)

    # -- pipes

    async def _start(self) -> None:
        await self.end()  # what is left of one that was killed while nobody asked
        self._printed.clear()
        path = os.pathsep.join(search_path())
        quiet = {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "TOKENIZERS_PARALLELISM": "false"}
        environment = {**os.environ, **quiet, "PYTHONFAULTHANDLER": ""}
        pipe = asyncio.subprocess.PIPE
        try:
            self._running = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", self._module, str(self._limits.memory)),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=self._cwd,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the server, which ends it
            )
        except OSError as problem:
            raise Ended(f"no process could be started: {problem}") from None
        self._listening = asyncio.create_task(self._listen(self._running))

    async def _listen(self, running: asyncio.subprocess.Process) -> None:
        """Keep the last lines of what the process prints."""
        assert running.stderr is not None
        while chunk := await running.stderr.read(65536):
            self._printed.extend(line for line in chunk.decode("utf-8", "replace").splitlines() if line.strip())

    async def _send(self, content: Mapping[str, Any], body: bytes = b"") -> None:
        stream = self._running.stdin if self._running is not None else None
        assert stream is not None
        try:
            stream.write(encoded(content, body))
            await stream.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._ended() from None

    async def _next(self, number: int, seconds: float) -> Frame:
        """The next answer to a question; those to one that was left before it are dropped."""
        try:
            async with asyncio.timeout(seconds):
                while (frame := await self._read()).content.get("id") != number:
                    pass
                return frame
        except TimeoutError:
            await self.end()
            raise TooSlow(f"there was no answer within {seconds:g} seconds", _AGAIN) from None
        except (asyncio.IncompleteReadError, ConnectionResetError):
            raise await self._ended() from None
        except BadFrame as problem:
            await self.end()
            raise Ended(f"the process has sent what is no answer: {problem}") from None

    async def _read(self) -> Frame:
        stream = self._running.stdout if self._running is not None else None
        assert stream is not None
        length, more = lengths(await stream.readexactly(HEAD.size))
        return decoded(await stream.readexactly(length), await stream.readexactly(more))

    async def _ended(self) -> Refused:
        """Why the process has ended, as an error."""
        running = self._running
        assert running is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING):
                await running.wait()
        await self.end()
        code = running.returncode or 0
        printed = "\n".join(self._printed)
        if says_out_of_memory(printed):
            return _out_of_memory(self._limits)
        last = self._printed[-1] if self._printed else ""
        how = f"signal {-code} ({_signal_name(-code)})" if code < 0 else f"exit code {code}"
        about = f": {visible(last)[:300]}" if last and code > 0 else ""
        return Ended(f"its process has ended by {how}{about}", _AGAIN)


def _as_error(problem: Mapping[str, str], limits: Limits) -> Refused:
    if problem["kind"] == "memory":
        return _out_of_memory(limits)
    return OF_PROCESSES.get(problem["kind"], Refused)(problem["headline"], problem["help"])


def _out_of_memory(limits: Limits) -> Refused:
    text = f"its process needed more than the {show_bytes(limits.memory)} of memory that it may have, and was ended"
    return OutOfMemory(text, "start the lab with a larger `--memory`")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
