"""A PostgreSQL server of the tests' own: as a user that is not root, in a temporary folder, on a socket."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def server() -> Iterator[str]:
    """A running server; the URL of its database."""
    place, owner, bin = Path(tempfile.mkdtemp(prefix="lv-pg-")), _owner(), programs()
    assert bin is not None
    assert owner is not None
    if os.geteuid() == 0:
        shutil.chown(place, owner)
    user = {"user": owner, "group": owner, "extra_groups": []} if os.geteuid() == 0 else {}
    words = [str(bin / "initdb"), "-D", f"{place}/data", "-U", "leaven", "--auth=trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(words, check=True, capture_output=True, cwd=place, **user)  # type: ignore[call-overload]
    words = [
        str(bin / "postgres"),
        "-D",
        f"{place}/data",
        "-k",
        str(place),
        "-c",
        "listen_addresses=",
        "-c",
        "fsync=off",
    ]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=place, **user)  # type: ignore[call-overload]
    url = f"postgresql://leaven@/postgres?host={place}"
    try:
        wait_until(lambda: _answers(url), "PostgreSQL to start")
        yield url
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nothing is kept
        process.wait(30)
        shutil.rmtree(place, ignore_errors=True)


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
