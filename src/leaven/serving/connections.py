"""Connections of a server: how many there are, and how long one may keep the server waiting.

uvicorn has no time-out for headers and none for clients that don't take their answers, and answers every request with
503 once there are too many connections. Here a connection that waits for nothing but its client gives way to a new one,
so that a thousand silent connections keep nobody out.
"""

import asyncio
import functools
import logging
import socket
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from leaven.serving.guards import REFUSED, Application, problem_body


@dataclass(frozen=True)
class Limits:
    """How long a connection may take, in seconds, and how many there may be."""

    connections: int = 256
    header: float = 10.0  # until a request has all its headers
    rest: float = 3.0  # until a client has sent the rest of a body that was not read
    answer: float = 300.0  # during which a client takes nothing of its answer
    idle: int = 5  # between two requests
    end: int = 1  # for requests that are being answered when the server ends


class Connection(H11Protocol):
    """A connection that is closed when its client takes too long."""

    def __init__(self, *arguments: Any, limits: Limits, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._phase = ""
        self._since = 0.0
        self._waiting: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio forgets it for some sockets, and an answer of two parts would wait for the client to confirm the first
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch()
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def _make_room(self) -> None:
        """Close the connection that has been silent for longest; if none is, this one."""
        others = [other for other in self.connections if isinstance(other, Connection) and other is not self]
        if silent := [other for other in others if other.is_silent]:
            return min(silent, key=lambda other: other._since).transport.abort()
        body = problem_body("there are too many connections", "try again later")
        head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()

    @property
    def is_silent(self) -> bool:
        """Whether the server does nothing for it: it waits for its client, or was refused."""
        return bool(self._phase) or self._is_refused

    @property
    def _is_refused(self) -> bool:
        return self.scope is not None and REFUSED in self.scope["state"]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._waiting, self._stalled):
            if timer is not None:
                timer.cancel()

    def _watch(self) -> None:
        """Start the timer of what the connection waits for, if that has changed."""
        phase = self._awaited()
        if phase == self._phase:
            return
        if self._waiting is not None:
            self._waiting.cancel()
        rest = 0.0 if self._is_refused else self._limits.rest  # the guards have waited for it
        seconds = {"header": self._limits.header, "rest": rest}.get(phase)
        self._waiting = self.loop.call_later(seconds, self.transport.close) if seconds is not None else None
        self._phase, self._since = phase, self.loop.time()

    def _awaited(self) -> str:
        """The part of a request that the client has to send: `header`, or the `rest` of a body that was not read."""
        if self.conn.their_state is h11.IDLE:
            return "header"
        if self.conn.their_state is h11.SEND_BODY and self.cycle is not None and self.cycle.response_complete:
            return "rest"
        return ""  # the application answers, or reads the body

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self._limits.answer, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


class _Server(uvicorn.Server):
    """A server that logs nothing about the answers that its shutdown cuts off."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


def server_of(application: Application, limits: Limits | None = None) -> uvicorn.Server:
    """A server of an application; `run(sockets=[…])` serves until a signal ends it."""
    limits = limits or Limits()
    config = uvicorn.Config(
        application,
        http=functools.partial(Connection, limits=limits),  # type: ignore[arg-type]
        ws="none",
        log_level="error",
        server_header=False,
        timeout_keep_alive=limits.idle,
        timeout_graceful_shutdown=limits.end,
    )
    return _Server(config)
