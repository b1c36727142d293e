"""What a server lets through to an application."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from tests.unit.serving.real_server import TOKEN, Served, read_answer, serving

from leaven.serving.guards import Rules
from leaven.serving.tokens import Token, renew

RULES = Rules(
    names=("localhost", "lab.example.com"),
    open_paths=("/health",),
    most_bytes=1000,
    more_bytes={("POST", "/large"): 1_000_000},
    body_seconds=0.5,
    body_rate=1000.0,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving(RULES) as found:
        yield found


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{}", "localhost:{}", "LOCALHOST", "[::1]:{}", "lab.example.com", "10.0.0.7"]
)
def test_a_server_answers_to_its_names_and_to_addresses(server: Served, host: str) -> None:
    assert server.ask(Host=host.format(server.port)).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8477", "127.0.0.1.evil.example", "[::1", "localhost@evil", "2130706433", ""]
)
def test_a_name_that_leads_here_from_elsewhere_is_refused(server: Served, host: str) -> None:
    assert server.ask(Host=host).status == 421
    assert server.ask(path="/health", Host=host).status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1", ""])
def test_a_page_of_another_origin_is_refused(server: Served, origin: str) -> None:
    refused = server.ask("POST", "/", b"x", Origin=origin, Content_Type="text/plain")
    assert (refused.status, refused.json["error"]) == (403, "the request comes from a page of another origin")
    assert "access-control-allow-origin" not in refused.headers


def test_a_page_of_the_server_itself_may_ask(server: Served) -> None:
    assert server.ask("POST", "/", b"x", Origin=f"http://127.0.0.1:{server.port}").status == 200
    assert server.ask(Origin="https://lab.example.com", Host="lab.example.com").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_fetches_for_another_site_is_refused_but_a_link_may_be_followed(
    server: Served, site: str
) -> None:
    assert server.ask(Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
    assert server.ask(Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 200
    assert server.ask("POST", "/", b"x", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 403


@pytest.mark.parametrize(
    "sent", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xfc"]
)
def test_a_request_needs_the_token(server: Served, sent: str | None) -> None:
    refused = server.ask(Authorization=sent)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json == {"error": "the token is missing or wrong", "help": "send `Authorization: Bearer TOKEN`"}


def test_what_is_open_can_be_read_but_not_written_without_the_token(server: Served) -> None:
    assert server.ask(path="/health", Authorization=None).status == 200
    assert server.ask("POST", "/health", b"x", Authorization=None).status == 401


def test_nothing_of_a_body_is_waited_for_without_the_token(server: Served) -> None:
    with server.connect() as connection:
        connection.sendall(server.head("POST", "/large", 500_000, Authorization=None))
        assert read_answer(connection).status == 401


def test_a_refused_client_that_keeps_sending_still_reads_why(server: Served) -> None:
    assert server.ask("POST", "/large", bytes(5_000_000), Authorization=None).status == 401
    assert server.ask("POST", "/large", bytes(5_000_000), Authorization=None, Connection="close").status == 401


def test_a_body_is_bounded_by_what_it_says_and_as_it_is_counted(server: Served) -> None:
    assert server.ask("POST", "/", bytes(1000)).json == {"path": "/", "bytes": 1000}
    assert server.ask("POST", "/", bytes(1001)).status == 413
    assert server.ask("POST", "/large", bytes(1_000_000)).json["bytes"] == 1_000_000
    assert server.ask("POST", "/large", bytes(1_000_001)).status == 413
    with server.connect() as connection:
        connection.sendall(server.head("POST", "/", None, Transfer_Encoding="chunked"))
        for _ in range(20):
            connection.sendall(b"64\r\n" + bytes(100) + b"\r\n")
        refused = read_answer(connection)
        assert (refused.status, refused.json["error"]) == (413, "the body of the request is longer than 1,000 bytes")


def test_large_bodies_are_in_memory_one_at_a_time_and_small_ones_do_not_wait_for_them(server: Served) -> None:
    with server.connect() as first, server.connect() as second:
        first.sendall(server.head("POST", "/large", 500_000) + bytes(400_000))
        time.sleep(0.1)
        second.sendall(server.head("POST", "/large", 400_000) + bytes(400_000))
        assert server.ask("POST", "/large", bytes(1000)).status == 200
        second.settimeout(0.2)
        with pytest.raises(TimeoutError):
            second.recv(1)
        first.sendall(bytes(100_000))
        second.settimeout(30)
        assert (read_answer(first).status, read_answer(second).status) == (200, 200)


def test_a_body_that_comes_too_slowly_is_not_waited_for(server: Served) -> None:
    with server.connect() as connection:
        connection.sendall(server.head("POST", "/", 1000))
        began = time.monotonic()
        stop = threading.Event()
        sender = threading.Thread(target=_trickle, args=(connection, stop))
        sender.start()
        refused = read_answer(connection)
        stop.set()
        sender.join()
    assert (refused.status, time.monotonic() - began < 5) == (408, True)


def _trickle(connection: socket.socket, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        try:
            connection.send(b"x")
        except OSError:
            return


def test_a_browser_gets_a_cookie_for_the_token_in_a_link(server: Served) -> None:
    sent = server.ask(path=f"/runs/a%20b?view=1&token={TOKEN}&x=%26", Authorization=None)
    assert (sent.status, sent.headers["location"]) == (303, "/runs/a%20b?view=1&x=%26")
    cookie, *attributes = sent.headers["set-cookie"].split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert TOKEN not in cookie
    assert server.ask(path="/runs", Authorization=None, Cookie=f"other=1; {cookie}").status == 200
    assert server.ask(path="/runs", Authorization=None, Cookie=f"{cookie}x").status == 401
    foreign = server.ask("POST", "/runs", b"x", Authorization=None, Cookie=cookie, Origin="http://127.0.0.1:1")
    assert foreign.status == 403
    assert server.ask(path="/?token=wrong", Authorization=None).status == 401


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example", "/%0d%0aSet-Cookie:x"])
def test_the_exchange_leads_nowhere_else(server: Served, path: str) -> None:
    sent = server.ask(path=f"{path}?token={TOKEN}", Authorization=None)
    assert sent.status == 303
    assert sent.headers["location"].startswith("/")
    assert not sent.headers["location"].startswith(("//", "/\\"))
    assert "\n" not in sent.headers["location"]


def test_a_cookie_of_another_server_on_this_machine_does_not_get_in_the_way(server: Served) -> None:
    cookie = server.ask(path=f"/?token={TOKEN}", Authorization=None).headers["set-cookie"].partition(";")[0]
    assert cookie.startswith(f"leaven-{server.port}=")


def test_a_token_that_is_renewed_holds_at_once(tmp_path: Path) -> None:
    token = Token(tmp_path / "token")
    renew(token.file)
    old = token.read()
    with serving(token=token) as server:
        cookie = server.ask(path=f"/?token={old}", Authorization=None).headers["set-cookie"].partition(";")[0]
        assert server.ask(Authorization=f"Bearer {old}").status == 200
        renew(token.file)
        assert server.ask(Authorization=f"Bearer {old}").status == 401
        assert server.ask(Authorization=None, Cookie=cookie).status == 401
        assert server.ask(Authorization=f"Bearer {token.read()}").status == 200
        token.file.unlink()
        assert server.ask(Authorization="Bearer ").status == 401
        assert server.ask(path="/?token=", Authorization=None).status == 401


def test_every_answer_says_how_a_browser_should_take_it(server: Served) -> None:
    for answer in (server.ask(), server.ask(Authorization=None)):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
