"""How long a client may keep a server waiting, and how many there may be."""

import contextlib
import time

import pytest

pytest.importorskip("uvicorn")

from tests.unit.serving.real_server import is_closed, read_answer, serving

from leaven.serving.connections import Limits
from leaven.serving.guards import Rules


def test_headers_must_come_in_time_however_often_a_byte_comes() -> None:
    with serving(limits=Limits(header=0.5)) as server, server.connect() as silent, server.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        began = time.monotonic()
        slow.settimeout(0.05)
        while time.monotonic() < began + 10:
            try:
                slow.sendall(b"X-A: b\r\n")
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 0.3 < time.monotonic() - began < 5
        assert is_closed(silent)


def test_headers_must_come_in_time_in_a_connection_that_was_used_too() -> None:
    with serving(limits=Limits(header=0.5)) as server, server.connect() as connection:
        connection.sendall(server.head("GET", "/", None))
        assert read_answer(connection).status == 200
        connection.sendall(b"GET /")
        assert is_closed(connection)


def test_a_refused_client_can_not_keep_sending_for_ever() -> None:
    with serving(Rules(rest_seconds=0.5)) as server, server.connect() as connection:
        connection.sendall(server.head("POST", "/", 10**12, Authorization=None))
        assert read_answer(connection).status == 401
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() < began + 10:
                connection.sendall(bytes(1000))
                time.sleep(0.01)
        assert time.monotonic() - began < 5


def test_a_connection_whose_refused_body_has_come_is_used_again() -> None:
    with serving() as server, server.connect() as connection:
        for _ in range(2):
            connection.sendall(server.head("POST", "/", 1000, Authorization=None) + bytes(1000))
            assert read_answer(connection).status == 401


def test_silent_connections_keep_nobody_out() -> None:
    with serving(limits=Limits(connections=5)) as server:
        silent = [server.connect() for _ in range(20)]
        assert server.ask().status == 200
        assert is_closed(silent[0])
        for one in silent:
            one.close()


def test_with_too_many_requests_under_way_others_get_a_503() -> None:
    with serving(limits=Limits(connections=3)) as server:
        busy = [server.connect() for _ in range(3)]
        for one in busy:
            one.sendall(server.head("GET", "/slow", None))
            assert one.recv(12) == b"HTTP/1.1 200"
        with server.connect() as other:
            refused = read_answer(other)
        assert (refused.status, refused.json["error"]) == (503, "there are too many connections")
        busy[0].close()
        deadline = time.monotonic() + 10
        while server.ask().status != 200:
            assert time.monotonic() < deadline
        for one in busy:
            one.close()


def test_a_client_that_takes_nothing_of_its_answer_is_left() -> None:
    with serving(limits=Limits(answer=0.5)) as server, server.connect() as connection:
        connection.sendall(server.head("GET", "/long", None))
        time.sleep(1.0)
        count = 0
        with contextlib.suppress(ConnectionResetError):
            while found := connection.recv(1_000_000):
                count += len(found)
        assert count < 100_000_000


def test_a_server_ends_while_answers_are_under_way() -> None:
    with serving(limits=Limits(end=1)) as server:
        connection = server.connect()
        connection.sendall(server.head("GET", "/slow", None))
        assert connection.recv(12) == b"HTTP/1.1 200"
    connection.close()


def test_refused_clients_keep_nobody_out() -> None:
    with serving(limits=Limits(connections=5)) as server:
        refused = [server.connect() for _ in range(5)]
        for one in refused:
            one.sendall(server.head("POST", "/", 10**9, Authorization=None))
            assert one.recv(12) == b"HTTP/1.1 401"
        assert server.ask().status == 200
        for one in refused:
            one.close()


def test_a_body_that_nobody_reads_can_not_be_sent_for_ever() -> None:
    with serving(Rules(open_paths=("/",)), Limits(rest=0.5)) as server, server.connect() as connection:
        connection.sendall(server.head("GET", "/", 10**9, Authorization=None))
        assert read_answer(connection).status == 200
        assert is_closed(connection)


def test_an_answer_is_sent_at_once() -> None:
    """Of a header and a body, the body must not wait until the client has confirmed the header: 40 ms."""
    times = []
    with serving() as server, server.connect() as connection:
        for _ in range(20):
            began = time.monotonic()
            connection.sendall(server.head("GET", "/", None))
            assert read_answer(connection).status == 200
            times.append(time.monotonic() - began)
    assert min(times[10:]) < 0.03
