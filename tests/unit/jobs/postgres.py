"""A PostgreSQL server of the tests' own: as a user that is not root, in a temporary folder, on a socket."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.jobs.plain_jobs import wait_until


def programs() -> Path | None:
    """Where Debian or the path has the server; None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def why_not() -> str:
    """Why no server can be started; empty if one can."""
    if programs() is None:
        return "PostgreSQL is not installed"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    if os.geteuid() == 0 and _owner() is None:
        return "PostgreSQL does not run as root, and there is no user `postgres`"
    return ""


def _owner() -> str | None:
    """As whom the server runs, where we are root."""
    try:
        return pwd.getpwnam("postgres").pw_name if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


@dataclass
class Server:
    """A server that can be killed and started again; `url` is the address of its database."""

    place: Path
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"postgresql://leaven@/postgres?host={self.place}"

    def start(self) -> None:
        """Start it. Processes of one that was killed may take a moment to go, and it does not start beside them."""
        options = ("-k", str(self.place), "-c", "listen_addresses=", "-c", "fsync=off")

        def is_there() -> bool:
            if self.process is None or self.process.poll() is not None:
                self.process = _run(self.place, "postgres", "-D", f"{self.place}/data", *options)
            return _answers(self.url)

        wait_until(is_there, "PostgreSQL to start")

    def processes(self) -> list[int]:
        """Those that serve connections, and its own others; none while it is not there."""
        if self.process is None or self.process.poll() is not None:
            return []
        file = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in file.read_text().split()]


@contextmanager
def server() -> Iterator[Server]:
    """A running server."""
    place, owner = Path(tempfile.mkdtemp(prefix="lv-pg-")), _owner()
    assert owner is not None
    if os.geteuid() == 0:
        shutil.chown(place, owner)
    place.chmod(0o755)  # other users of the machine may connect
    options = ("-U", "leaven", "--auth=trust", "-E", "UTF8", "--no-sync")
    assert _run(place, "initdb", "-D", f"{place}/data", *options).wait(120) == 0, (place / "log").read_text()
    found = Server(place)
    try:
        found.start()
        yield found
    finally:
        if found.process is not None:
            found.process.send_signal(signal.SIGQUIT)  # at once: nothing is kept
            found.process.wait(30)
        shutil.rmtree(place, ignore_errors=True)


def _run(place: Path, program: str, *words: str) -> "subprocess.Popen[bytes]":
    bin, owner = programs(), _owner()
    assert bin is not None
    user: dict[str, Any] = {"user": owner, "group": owner, "extra_groups": []} if os.geteuid() == 0 else {}
    with (place / "log").open("ab") as log:
        return subprocess.Popen([str(bin / program), *words], stdout=log, stderr=log, cwd=place, **user)


def _answers(url: str) -> bool:
    import psycopg

    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def new_schema(url: str, name: str) -> str:
    """A new, empty schema, which takes a fraction of the time of a database."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}&options=-csearch_path%3D{name}"


def new_team(url: str, name: str, roles: Sequence[str]) -> dict[str, str]:
    """A new schema that some roles use; the address of each, and of `leaven`, to whom it belongs."""
    import psycopg

    whole = new_schema(url, name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA {name} TO PUBLIC")
        for role in roles:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
                connection.execute(f"CREATE ROLE {role} LOGIN")
    return {role: whole.replace("leaven@", f"{role}@", 1) for role in (*roles, "leaven")}
