"""A guarded application behind a real server on a free port of this machine, and a client that sends any bytes."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from leaven.serving.connections import Limits, server_of
from leaven.serving.guards import Guard, Receive, Rules, Scope, Send
from leaven.serving.tokens import Token

TOKEN = "a-token-of-the-tests"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the path and how many bytes of a body came; `/slow` ends when the client has gone,
    and `/long` has a long answer."""
    body = b"" if scope["method"] == "GET" else (await receive())["body"]
    if scope["path"] == "/slow":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    if scope["path"] == "/long":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        return
    told = json.dumps({"path": scope["path"], "bytes": len(body)}).encode()
    headers = [(b"content-length", str(len(told)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


@dataclass
class Answer:
    """What a server has answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A server that listens."""

    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def ask(self, method: str = "GET", path: str = "/", body: bytes = b"", **headers: str | None) -> Answer:
        """A request with the token, unless headers say otherwise; one that is None is left out."""
        with self.connect() as connection:
            connection.sendall(self.head(method, path, len(body), **headers) + body)
            return read_answer(connection)

    def head(self, method: str, path: str, length: int | None, **headers: str | None) -> bytes:
        usual = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}", "Content-Length": length or None}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in {**usual, **given}.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")


def read_answer(connection: socket.socket) -> Answer:
    found = HTTPResponse(connection)
    found.begin()
    return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes a connection, before it is asked for anything more."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@contextmanager
def serving(rules: Rules | None = None, limits: Limits | None = None, token: Token | None = None) -> Iterator[Served]:
    """Serve in a thread of this process."""
    guard = Guard(echo, token or Token(Path("/nonexistent"), TOKEN), rules or Rules())
    listening = socket.create_server(("127.0.0.1", 0))
    server = server_of(guard, limits)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Served(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
