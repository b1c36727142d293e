"""The token of a server, and the cookie that a browser gets in its place.

It is `LEAVEN_TOKEN`, or else in a file that only its user can read, written when it is first needed. The file is read
with every request: a renewed token is valid at once, and the old one no longer is.
"""

import hashlib
import hmac
import ipaddress
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from leaven.terminal.problem import Problem

VARIABLE = "LEAVEN_TOKEN"
_FEWEST = 20  # characters of a token with which other machines may use a server


@dataclass(frozen=True)
class Token:
    """A token that was given, or that of a file."""

    file: Path
    given: str = ""

    def read(self) -> str:
        """The token; empty, which no client has, where the file can't be read."""
        if self.given:
            return self.given
        try:
            return self.file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return ""

    def is_sent(self, sent: str) -> bool:
        """Whether a client has sent the token."""
        return _is_same(sent, self.read())

    def is_cookie(self, sent: str) -> bool:
        """Whether a browser has sent the cookie that it was given for the token."""
        token = self.read()
        return bool(token) and _is_same(sent, _cookie(token))

    def cookie(self) -> str:
        """The cookie for a browser: it changes with the token, which can't be derived from it."""
        return _cookie(self.read())


def token_of(file: Path, host: str) -> Token:
    """The token of a server that listens on an address; the file is written if it is needed."""
    token = os.environ.get(VARIABLE, "").strip()
    if not token:
        if not file.is_file():
            renew(file)
        return Token(file)
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise Problem(f"{VARIABLE} has characters that no HTTP header can carry", "use letters and digits")
    if len(token) < _FEWEST and not is_loopback(host):
        raise Problem(
            f"{host} can be reached by other machines, and the token of {VARIABLE} is short enough to be guessed",
            f"use one of at least {_FEWEST} random characters, or unset {VARIABLE}: then one is made",
        )
    return Token(file, token)


def renew(file: Path) -> None:
    """Write a new token; nobody but the user can read the file at any time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as written:
            written.write(secrets.token_urlsafe(32))
            written.flush()
            os.fsync(written.fileno())
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _cookie(token: str) -> str:
    return hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()


def _is_same(sent: str, known: str) -> bool:
    return bool(known) and secrets.compare_digest(sent.encode("utf-8", "replace"), known.encode())
