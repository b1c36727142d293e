"""Where jobs are kept and which environments there are: `leaven.toml` of the project, and the user's configuration.

    [jobs]
    folder = "~/jobs"                       # packages, logs and the store; LEAVEN_JOBS overrides it
    store = "postgresql://team@db/leaven"   # else an SQLite file in the folder

    [environments.local]
    cores = 8

The project's file is the nearest `leaven.toml` in the current folder or above it; what it says wins.
"""

import os
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from leaven.jobs.environments.keys import Form, is_of
from leaven.jobs.resources import minutes_of
from leaven.jobs.store.connection import is_sqlite, lock_file, sqlite_url
from leaven.terminal.byte_sizes import parse_bytes
from leaven.terminal.problem import Problem

PROJECT_FILE = "leaven.toml"
FOLDER = "LEAVEN_JOBS"  # the environment variable with the folder of jobs
CONFIG = "LEAVEN_CONFIG"  # that with the user's configuration file
_JOBS_KEYS = {
    "folder": Form.STRING,
    "store": Form.STRING,
    "host": Form.STRING,
    "keep": Form.STRING,
    "backoff": Form.NUMBER,
}
_SECTIONS = ("jobs", "notify", "environments")
_NOTIFY_KEYS = {"webhook": Form.STRING, "mail": Form.STRINGS, "on": Form.STRINGS}
_OF_ALL = {"kind": Form.STRING, "cores_per_gpu": Form.COUNT}  # keys of environments of all kinds
_OF_KIND = {"local": {"preemptible": Form.SWITCH}}  # what is decided here, and not by the environment
_BACKOFF = 10.0


class SettingsError(Problem):
    """A configuration file is wrong."""


@dataclass(frozen=True)
class Settings:
    """Where jobs are kept; `backoff` is the wait in seconds before the first retry, which doubles with each."""

    folder: Path
    store: str
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    backoff: float = _BACKOFF
    host: str = field(default_factory=socket.gethostname)  # what this machine is called
    notify: Mapping[str, Any] = field(default_factory=dict)  # who is told how jobs ended
    keep: float | None = None  # minutes after which a job that has ended is forgotten

    @property
    def packages(self) -> Path:
        return self.folder / "packages"

    @property
    def attempts(self) -> Path:
        return self.folder / "attempts"

    @property
    def runs(self) -> Path:
        """Where packages run that don't say where."""
        return self.folder / "runs"

    @property
    def wake(self) -> Path:
        """The pipe by which the coordinator is woken."""
        return self.folder / "wake"

    @property
    def lock(self) -> Path:
        """Held by the coordinator of this folder, and with a store in PostgreSQL, of this machine."""
        if is_sqlite(self.store):
            return lock_file(self.folder)
        return self.folder / f"coordinator-{re.sub(r'[^A-Za-z0-9.-]', '_', self.host)}.lock"

    @property
    def stop(self) -> Path:
        """The file that asks that coordinator to end."""
        return self.lock.with_suffix(".stop")

    @property
    def log(self) -> Path:
        return self.folder / "coordinator.log"


def load_settings(start: Path | None = None) -> Settings:
    """The settings that hold in a folder, by default the current one."""
    files = [file for file in (user_file(), project_file(start or Path.cwd())) if file is not None and file.is_file()]
    jobs: dict[str, Any] = {}
    notify: dict[str, Any] = {}
    environments: dict[str, Mapping[str, Any]] = {"local": {"kind": "local"}}
    for file in files:
        sections = _read(file)
        notify |= _checked(sections.get("notify", {}), _NOTIFY_KEYS, "[notify]", file)
        jobs |= _checked(sections.get("jobs", {}), _JOBS_KEYS, "[jobs]", file)
        for name, given in sections.get("environments", {}).items():
            environments[name] = _environment(name, given, file)
    folder, kept = _folder(jobs), jobs.get("keep")
    keep = None if kept is None else minutes_of(kept)
    if kept is not None and keep is None:
        raise SettingsError(f"`keep` in [jobs] is `{kept}`, and must be a length of time, such as 30d")
    return Settings(
        folder,
        str(jobs.get("store") or sqlite_url(folder / "jobs.sqlite")),
        environments,
        float(jobs.get("backoff", _BACKOFF)),
        str(jobs.get("host") or socket.gethostname()),
        notify,
        keep,
    )


def _folder(jobs: Mapping[str, Any]) -> Path:
    """Where jobs are kept; a variable is named where it leads nowhere."""
    variable = os.environ.get(FOLDER)
    fact = f"{FOLDER} is `{variable}`" if variable else f"`folder` in [jobs] is `{jobs.get('folder')}`"
    try:
        folder = Path(variable or jobs.get("folder") or _data_folder() / "jobs").expanduser().absolute()
    except RuntimeError:
        raise SettingsError(f"{fact}, and there is no such user") from None
    if os.path.lexists(folder) and not folder.is_dir():
        raise SettingsError(f"{fact}, which is not a folder")
    return folder


def _read(file: Path) -> dict[str, Any]:
    try:
        sections = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise SettingsError(f"can't read {file}: {problem.strerror}") from None
    except ValueError as problem:
        raise SettingsError(f"{file}: {problem}") from None
    for name in sections:
        if name not in _SECTIONS:
            help = "there are [jobs], [notify] and [environments.NAME]"
            raise SettingsError(f"{file}: unknown section [{name}]", help)
    for name in _SECTIONS:
        if not isinstance(sections.get(name, {}), dict):
            raise SettingsError(f"{file}: [{name}] must be a section")
    return sections


def _checked(given: dict[str, Any], known: Mapping[str, Form], where: str, file: Path) -> dict[str, Any]:
    """The values of a section, whose keys are known and whose values have the right form."""
    for key, value in given.items():
        if key not in known:
            near = get_close_matches(key, known, 1)
            help = f"did you mean `{near[0]}`?" if near else f"it may have: {', '.join(known)}"
            raise SettingsError(f"{file}: {where} has no `{key}`", help)
        if not is_of(known[key], value):
            raise SettingsError(f"{file}: {where}: `{key}` must be {known[key].value}")
    return given


def _environment(name: str, given: Any, file: Path) -> dict[str, Any]:
    from leaven.jobs.environments.kinds import KINDS

    where = f"[environments.{name}]"
    if not isinstance(given, dict):
        raise SettingsError(f"{file}: {where} must be a section")
    kind = given.get("kind", name if name in KINDS else None)
    if not isinstance(kind, str) or kind not in KINDS:
        fault = f"unknown kind {kind!r}" if kind is not None else "`kind` is missing"
        raise SettingsError(f"{file}: {where}: {fault}", f"kinds: {', '.join(KINDS)}")
    values = {"kind": kind, **_checked(given, {**_OF_ALL, **KINDS[kind].keys, **_OF_KIND.get(kind, {})}, where, file)}
    sizes = [key for key, form in KINDS[kind].keys.items() if form is Form.SIZE]
    return values | {key: parse_bytes(values[key]) for key in sizes if isinstance(values.get(key), str)}


def project_file(start: Path) -> Path | None:
    """The nearest `leaven.toml`, from a folder upwards."""
    start = start.absolute()
    return next((file for place in (start, *start.parents) if (file := place / PROJECT_FILE).is_file()), None)


def user_file() -> Path:
    """The user's configuration."""
    if given := os.environ.get(CONFIG):
        file = Path(os.path.expanduser(given))
        if not file.exists() or file.is_dir():
            raise SettingsError(f"{CONFIG} is `{given}`, which is not a file")
        return file
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".config") / "leaven" / "config.toml"


def _data_folder() -> Path:
    xdg = os.environ.get("XDG_DATA_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".local" / "share") / "leaven"
