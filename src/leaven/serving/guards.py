"""The guards before an application: what reaches it has the token, a known host, no foreign origin, and a bounded body.

They ask in this order, and nothing is read of the body before the last:

    421  the host is not a name of this server: a page of a stranger whose name leads here (DNS rebinding)
    403  the request comes from a page of another origin
    401  the token is missing or wrong
    413  the body is too long, by what it says or as it is counted
    408  the body comes too slowly

A browser gets a cookie for a token in a link, `/?token=…`, and is sent to the address without it. Any ASGI application
can be guarded. How long headers and connections may last is decided in `connections.py`.
"""

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from leaven.serving.tokens import Token

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

REFUSED = "refused"  # the entry of a scope's state that says so of a request
_LARGE = 256 * 1024  # bytes of a body from which on only one is in memory at a time
_HEADERS = {  # of every answer: whatever a job has printed or is called is text, for this origin alone
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True)
class Rules:
    """The requests that a server accepts. `names` are its host names; IP addresses are always accepted."""

    names: Collection[str] = ("localhost",)
    open_paths: Collection[str] = ()  # which may be read without the token
    most_bytes: int = 64 * 1024
    more_bytes: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by method and path
    body_seconds: float = 20.0  # for a body, and more by its length
    body_rate: float = 10_000.0  # bytes per second that a body must have, once these are over
    rest_seconds: float = 3.0  # in which a client that was refused may send the rest of its body, and then reads why
    headers: Mapping[str, str] = field(default_factory=dict)  # more of every answer


@dataclass(frozen=True)
class Refusal:
    """Why a request is not let through."""

    status: int
    error: str
    help: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class Guard:
    """An application that passes on the requests which its rules accept."""

    def __init__(self, application: Application, token: Token, rules: Rules) -> None:
        self._application = application
        self._token = token
        self._rules = rules
        self._large = asyncio.Semaphore(1)
        self._added = [(name.encode(), value.encode()) for name, value in {**_HEADERS, **rules.headers}.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._application(scope, receive, send)
        send = self._adding_headers(send)
        request = _Request(scope)
        refused = self._wrong_host(request) or self._wrong_origin(request)
        if refused is None and request.token is not None and request.method == "GET":
            return await self._exchange(request, receive, send)
        if refused is None and request.path in self._rules.open_paths and request.is_reading:
            return await self._application(scope, receive, send)
        refused = refused or self._wrong_token(request)
        if refused is not None:
            return await self._refuse(refused, request, receive, send)
        if scope["type"] == "websocket" or not request.has_body:
            return await self._application(scope, receive, send)
        await self._pass_body(request, receive, send)

    def _wrong_host(self, request: "_Request") -> Refusal | None:
        name = _hostname(request.headers.get("host", ""))
        if name is None or not (_is_address(name) or name in self._rules.names):
            return Refusal(
                421, "this server does not have that name", "if it is its name, start the server with `--name`"
            )
        return None

    def _wrong_origin(self, request: "_Request") -> Refusal | None:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "none")  # said by browsers, also where there is no origin
        is_link = request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
        if origin is not None and origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
            return Refusal(403, "the request comes from a page of another origin")
        if origin is None and site not in ("none", "same-origin") and not is_link:
            return Refusal(403, "the request comes from a page of another site")
        return None

    def _wrong_token(self, request: "_Request") -> Refusal | None:
        kind, _, sent = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._token.is_sent(sent.strip()):
            return None
        if self._token.is_cookie(request.cookie(_cookie_name(request.scope))):
            return None
        help = "send `Authorization: Bearer TOKEN`"
        return Refusal(401, "the token is missing or wrong", help, {"WWW-Authenticate": "Bearer"})

    async def _exchange(self, request: "_Request", receive: Receive, send: Send) -> None:
        """Answer with a cookie for the token in a link, and a redirect to the address without it."""
        if not self._token.is_sent(request.token or ""):
            help = "the token may have been renewed: ask for another link"
            refusal = Refusal(401, "the token in the address is wrong", help)
            return await self._refuse(refusal, request, receive, send)
        cookie = f"{_cookie_name(request.scope)}={self._token.cookie()}; Path=/; HttpOnly; SameSite=Strict"
        cookie += "; Secure" if request.scope.get("scheme") == "https" else ""
        headers = {"Location": request.clean_address, "Set-Cookie": cookie, "Cache-Control": "no-store"}
        await _begin(send, 303, b"", headers)
        await send({"type": "http.response.body"})

    async def _pass_body(self, request: "_Request", receive: Receive, send: Send) -> None:
        """Read the body, then call the application, which so never waits for a client."""
        rules, scope = self._rules, request.scope
        most = rules.more_bytes.get((request.method, request.path), rules.most_bytes)
        is_large = request.length is None or request.length > _LARGE
        if request.length is not None and request.length > most:
            return await self._refuse(_too_long(most), request, receive, send)
        async with self._large if is_large and most > _LARGE else contextlib.nullcontext():
            body = await self._read(receive, most)
            if isinstance(body, Refusal):
                return await self._refuse(body, request, receive, send)
            if body is not None:  # else the client is gone
                await self._application(scope, _with_body(body, receive), send)

    async def _refuse(self, refusal: Refusal, request: "_Request", receive: Receive, send: Send) -> None:
        """Answer with a refusal. What was sent of a body is read and dropped: else the client would not see why."""
        if request.scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": refusal.error})
        request.scope.setdefault("state", {})[REFUSED] = True
        headers = {"Content-Type": "application/json", **refusal.headers}
        await _begin(send, refusal.status, problem_body(refusal.error, refusal.help), headers)
        if request.has_body:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rules.rest_seconds):
                    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                        pass
        await send({"type": "http.response.body"})

    async def _read(self, receive: Receive, most: int) -> bytes | Refusal | None:
        """A body; None where the client has gone."""
        pieces, count, began = list[bytes](), 0, asyncio.get_running_loop().time()
        while True:
            until = began + self._rules.body_seconds + count / self._rules.body_rate
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                return Refusal(408, "the body of the request came too slowly")
            if message["type"] != "http.request":
                return None
            piece = message.get("body", b"")
            count += len(piece)
            if count > most:
                return _too_long(most)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    def _adding_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._added]}
            await send(message)

        return sending


class _Request:
    """A request before its body is read: its method, path, query and headers."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method = str(scope.get("method", "GET"))
        self.path = str(scope["path"])
        self.headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        self._query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)

    @property
    def is_reading(self) -> bool:
        return self.method in ("GET", "HEAD")

    @property
    def has_body(self) -> bool:
        return self.length != 0

    @property
    def length(self) -> int | None:
        """The length of the body; None where the headers don't say it."""
        if "transfer-encoding" in self.headers:
            return None
        length = self.headers.get("content-length", "0")
        return int(length) if length.isdecimal() else None

    @property
    def token(self) -> str | None:
        """The token in the address."""
        return next((value for name, value in self._query if name == "token"), None)

    @property
    def clean_address(self) -> str:
        """The address without the token, always on this server."""
        rest = urlencode([(name, value) for name, value in self._query if name != "token"])
        return "/" + quote(self.path.lstrip("/")) + (f"?{rest}" if rest else "")

    def cookie(self, name: str) -> str:
        try:
            cookie = SimpleCookie(self.headers.get("cookie", "")).get(name)
        except CookieError:
            return ""
        return cookie.value if cookie is not None else ""


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was read already, and after it what the client sends, such as that it is gone."""
    rest = [body]

    async def receiving() -> Message:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        return await receive()

    return receiving


def _too_long(most: int) -> Refusal:
    return Refusal(413, f"the body of the request is longer than {most:,} bytes")


def _cookie_name(scope: Scope) -> str:
    """Cookies are the same for all ports of a host, so the port is in the name."""
    server = scope.get("server") or ("", 0)
    return f"leaven-{server[1]}"


def _hostname(host: str) -> str | None:
    """The name in `name:port`; None where there is none."""
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        return name if closed and (not port or port.startswith(":")) else None
    name = host.partition(":")[0].lower().removesuffix(".")
    return name or None


def _is_address(name: str) -> bool:
    """Whether it is an IP address, which no stranger's name server can lead elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def problem_body(error: str, help: str = "") -> bytes:
    """The body of an error as JSON. Texts of strangers may have surrogates, which UTF-8 can't encode."""
    return json.dumps({"error": error, "help": help}, ensure_ascii=False).encode("utf-8", "backslashreplace")


async def _begin(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Send an answer, but not that it is complete: the client may still be sending its body."""
    all_headers = {**headers, "Content-Length": str(len(body))}
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": True})
