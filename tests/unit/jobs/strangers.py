"""Hostile requests at the port of a server, one after the other, for as long as a test takes."""

import contextlib
import http.client
import random
import socket
import threading
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator

from tests.unit.jobs.plain_jobs import plain
from tests.unit.jobs.served_api import Api
from tests.unit.jobs.test_routes import HOSTILE

_SLOW = 30  # connections that send their headers byte by byte
_PIECE = bytes(1_000_000)


class Strangers(threading.Thread):
    """`theirs` are the names of jobs that do not belong to the user of the server. In the end, `wrong` has every answer
    that none should get, and `answers` how often there was which status; 0: the connection was closed."""

    def __init__(self, api: Api, theirs: Callable[[], list[str]], seed: int) -> None:
        super().__init__(daemon=True)
        self._api = api
        self._theirs = theirs
        self._choose = random.Random(seed)
        self._is_over = threading.Event()
        self._slow: list[socket.socket] = []
        self.answers: Counter[int] = Counter()
        self.wrong: list[tuple[str, int | str]] = []

    def run(self) -> None:
        acts = [self._guess, self._corrupt, self._deep, self._other, self._pour, self._overfill, self._dribble]
        while not self._is_over.wait(0.05):
            act = self._choose.choice(acts)
            try:
                code = act()
            except (ConnectionError, http.client.HTTPException, urllib.error.URLError) as problem:
                code = 0
                if "refused" in str(problem):
                    self.wrong.append((act.__name__, str(problem)))
            except Exception as problem:  # one that hangs
                self.wrong.append((act.__name__, repr(problem)))
                continue
            self.answers[code] += 1
            if not (code in (0, 503) or 400 <= code < 500):
                self.wrong.append((act.__name__, code))

    def end(self) -> None:
        self._is_over.set()
        self.join(120)
        for one in self._slow:
            one.close()

    def _ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        return int(self._api(method, path, body, **headers)[0])

    def _guess(self) -> int:
        """Without the token, or from a page elsewhere, or by another name."""
        stranger = Api(self._api.address, self._choose.choice([None, "", "wrong", self._api.token]), self._api.folder)
        method, path = self._choose.choice(["GET", "POST", "DELETE"]), "/jobs"
        if stranger.token == self._api.token:
            headers = self._choose.choice([{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
            return int(stranger(method, path, **headers)[0])
        return int(stranger(method, path, plain("pass").content if method == "POST" else None)[0])

    def _corrupt(self) -> int:
        body = self._choose.choice(list(HOSTILE.values()))
        return self._ask("POST", "/jobs", body, Content_Type="application/octet-stream")

    def _deep(self) -> int:
        job = self._choose.choice([*self._theirs(), "nobody", "%00", "9" * 30])
        body = self._choose.choice([b"[" * 100_000, b'{"priority": ' * 10_000, b'{"priority": ' + b"9" * 4000 + b"}"])
        return self._ask("PUT", f"/jobs/{job}/priority", body)

    def _other(self) -> int:
        """What belongs to another user."""
        job = self._choose.choice([*self._theirs(), "nobody"])
        if self._choose.random() < 0.5:
            return self._ask("DELETE", f"/jobs/{job}?force=true")
        return self._ask("POST", f"/jobs/{job}/{self._choose.choice(['cancel', 'pause', 'retry', 'resume'])}")

    def _pour(self) -> int:
        """A body without end, without the token."""
        return self._send("wrong", 64)

    def _overfill(self) -> int:
        """A body that is too long, with the token."""
        return self._send(str(self._api.token), 20)

    def _send(self, token: str, pieces: int) -> int:
        def body() -> Iterator[bytes]:
            for _ in range(pieces):
                yield _PIECE

        with contextlib.closing(http.client.HTTPConnection(self._address[0], self._address[1], timeout=60)) as sending:
            headers = {"Authorization": f"Bearer {token}", "Transfer-Encoding": "chunked"}
            sending.request("POST", "/jobs", body(), headers, encode_chunked=True)
            return sending.getresponse().status

    def _dribble(self) -> int:
        """Headers that never end: those that the server has closed are opened again."""
        for one in list(self._slow):
            try:
                one.send(b"x")
            except OSError:
                self._slow.remove(one)
                one.close()
        while len(self._slow) < _SLOW:
            one = socket.create_connection(self._address, timeout=60)
            one.send(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            self._slow.append(one)
        return 0

    @property
    def _address(self) -> tuple[str, int]:
        host, _, port = self._api.address.removeprefix("http://").rpartition(":")
        return host, int(port)
