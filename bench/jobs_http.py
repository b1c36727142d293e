"""The part of jobs.py that measures the HTTP API: how fast it answers many clients, and how much memory it takes."""

import contextlib
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from leaven.jobs.package import MOST_BYTES

CLIENTS = 50
MOST_SECONDS = 1.0  # for 99 of 100 requests
MOST_MEMORY = 200_000_000  # of the server, whatever is asked
MOST_LOG_MEMORY = 100_000_000  # more than before, for a log of 1 GB
LOG_BYTES = 1_000_000_000
SENT_BYTES = 1_500_000_000


@dataclass(frozen=True)
class Server:
    """A server of a store in a folder."""

    host: str
    port: int
    token: str
    pid: int

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> int:
        connection.request(method, path, body, {"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=120)

    def memory(self, kind: str = "VmHWM") -> int:
        """The most memory since `forget_peak`, in bytes."""
        return int(Path(f"/proc/{self.pid}/status").read_text().split(f"{kind}:")[1].split()[0]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    environment = {**os.environ, "LEAVEN_JOBS": str(folder)}
    environment.pop("LEAVEN_TOKEN", None)
    words = [sys.executable, "-m", "leaven", "coordinator", "serve", "--port", "0"]
    process = subprocess.Popen(words, env=environment, cwd="/", stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = urlsplit(process.stdout.readline().strip())
        process.stdout.readline()
        assert address.hostname is not None
        assert address.port is not None
        yield Server(address.hostname, address.port, (folder / "token").read_text(), process.pid)
    finally:
        process.terminate()
        process.wait(30)


def measure_requests(server: Server, package: bytes, job: int, count: int) -> list[str]:
    """Many clients at once, which list, look, read logs, submit and change priorities."""
    asked = [
        ("GET", "/jobs?limit=100", None),
        ("GET", f"/jobs/{job}", None),
        ("GET", f"/jobs/{job}/logs", None),
        ("POST", "/jobs?cpus=1", package),
        ("PUT", f"/jobs/{job}/priority", json.dumps({"priority": 1}).encode()),
    ]
    times: list[float] = []
    wrong: list[object] = []

    def client(number: int) -> None:
        connection = server.connection()
        for turn in range(count):
            began = time.perf_counter()
            try:
                status = server.ask(connection, *asked[(number + turn) % len(asked)])
                wrong.extend([status] if status >= 300 else [])
            except OSError as problem:
                wrong.append(problem)
            times.append(time.perf_counter() - began)
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    ordered = sorted(times)
    worst = ordered[int(0.99 * (len(ordered) - 1))]
    print(
        f"{CLIENTS} clients, {count} requests each: {len(ordered) / took:.0f} per second, {len(wrong)} errors, "
        f"median {1000 * median(ordered):.0f} ms, 99 of 100 within {1000 * worst:.0f} ms"
    )
    return [
        *([f"{len(wrong)} requests failed: {wrong[:3]}"] if wrong else []),
        *([f"99 of 100 requests take {worst:.2f} s"] if worst > MOST_SECONDS else []),
    ]


def measure_memory(server: Server, sent: int) -> list[str]:
    """The most memory of the server while it gets what takes most."""
    before = server.memory("VmRSS")
    hostile = {
        "sent without the token": lambda: _send(server, sent, ""),
        "sent with the token": lambda: _send(server, sent, server.token),
        "an archive of empty members": lambda: _post(server, _many_members()),
        "an archive that becomes large": lambda: _post(server, _bomb()),
        "a list of jobs": lambda: server.ask(server.connection(), "GET", "/jobs?limit=1000"),
    }
    missed = []
    for what, do in hostile.items():
        server.forget_peak()
        status = do()
        peak = server.memory()
        print(f"memory of the server, {what} ({status}): {peak / 1e6:.0f} MB; {before / 1e6:.0f} MB before all")
        missed += [f"{what} takes {peak / 1e6:.0f} MB"] if peak > MOST_MEMORY else []
    return missed


def _post(server: Server, body: bytes) -> int:
    return server.ask(server.connection(), "POST", "/jobs", body)


def _send(server: Server, size: int, token: str) -> int:
    """A long body, of which the server takes what it wants; the status that it answers with."""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        head = f"POST /jobs HTTP/1.1\r\nHost: {server.host}\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        piece = b"F4240\r\n" + bytes(1_000_000) + b"\r\n"
        with contextlib.suppress(OSError):  # it ends the connection when it has had enough
            for _ in range(size // 1_000_000):
                connection.sendall(piece)
        return int(connection.recv(12).split()[1])


def _many_members() -> bytes:
    """An archive with as many members as fit into the longest body."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        number = 0
        while written.tell() < MOST_BYTES * 0.38:  # the list of members at its end takes the rest
            archive.writestr(zipfile.ZipInfo(f"{number:x}"), b"")
            number += 1
    assert len(written.getvalue()) <= MOST_BYTES
    return written.getvalue()


def _bomb() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("program.py", bytes(MOST_BYTES - 1000))
    return written.getvalue()


def measure_log(server: Server, log: Path, job: int, size: int) -> list[str]:
    """How much memory a long log takes, read and followed."""
    block = b"a line of a log, as programs print them\n" * 25_000
    with log.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
    missed = []
    for query in ("", "?follow=true"):
        server.forget_peak()
        before, began = server.memory("VmRSS"), time.perf_counter()
        connection = server.connection()
        connection.request("GET", f"/jobs/{job}/logs{query}", headers={"Authorization": f"Bearer {server.token}"})
        answer, count = connection.getresponse(), 0
        while piece := answer.read(1_000_000):
            count += len(piece)
        assert count == log.stat().st_size
        grown = server.memory() - before
        print(
            f"a log of {count / 1e9:.2f} GB, {'followed' if query else 'read'}: {grown / 1e6:.0f} MB more memory, "
            f"{time.perf_counter() - began:.1f} s"
        )
        missed += [f"a log takes {grown / 1e6:.0f} MB"] if grown > MOST_LOG_MEMORY else []
        connection.close()
    return missed
