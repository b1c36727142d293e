"""The coordinator: the one process that runs the reconcile loop of a store.

It starts by itself when something is submitted, and ends when there has been nothing to do for a while, unless it was
started to stay. Jobs don't depend on it: it may end or be killed at any time, and the next one takes them over. It
never imports torch.
"""

import argparse
import contextlib
import fcntl
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

from sqlalchemy import Engine

from leaven.formats.installed_versions import leaven_version
from leaven.jobs.reconcile import Reconciler
from leaven.jobs.settings import Settings
from leaven.jobs.store.connection import AnotherLeads, StoreError, has_leader, leading, open_engine
from leaven.jobs.store.for_loop import LoopStore
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.supervisor import wake

IDLE_SECONDS = 600.0
_POLL = 1.0  # seconds between two looks at what users have written
_AFTER_FAILURE = 2.0
_COORDINATOR = "coordinator"  # the fact that says which one leads
_STOP = "stop"  # the fact that says which one should end
_STORE = "LEAVEN_JOBS_STORE"  # the environment variable with the address of the store
_LOG_BYTES = 1_000_000

_log = logging.getLogger(__name__)


class Coordinator:
    """Leads a store until it is told to stop, or has been idle for some seconds (None: never).

    `starting` is a descriptor that is closed when it leads.
    """

    def __init__(self, settings: Settings, idle_seconds: float | None, starting: int | None = None) -> None:
        self._starting = starting
        self._settings = settings
        self._idle_seconds = idle_seconds
        self._is_told_to_stop = False
        self._id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._pipe = open_pipe(settings.wake)

    def run(self) -> None:
        """Lead; what was submitted while this one was leaving is not left behind."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            with leading(self._settings.store, self._settings.folder) as engine:
                _log.info("leading %s", self._id)
                if self._starting is not None:
                    os.close(self._starting)
                    self._starting = None
                self._loop(engine)
            if self._is_told_to_stop or not self._has_work():
                _log.info("ended")
                return

    def _described(self) -> dict[str, object]:
        facts = {"id": self._id, "host": socket.gethostname(), "pid": os.getpid(), "version": leaven_version()}
        return {**facts, "since": time.time()}

    def _has_work(self) -> bool:
        engine = open_engine(self._settings.store)
        try:
            return not LoopStore(engine).is_idle()
        finally:
            engine.dispose()

    def _stop(self, *_: object) -> None:
        self._is_told_to_stop = True
        wake(str(self._settings.wake))

    def _loop(self, engine: Engine) -> None:
        store = LoopStore(engine)
        reconciler = Reconciler(store, self._settings)
        last_work = time.monotonic()
        is_known = False
        while not self._is_told_to_stop:
            try:
                if not is_known:
                    JobStore(engine).set_fact(_COORDINATOR, json.dumps(self._described()))
                    is_known = True
                if store.fact(_STOP) == self._id:
                    self._is_told_to_stop = True
                    return
                wait = reconciler.tick()
                if wait is not None:
                    last_work = time.monotonic()
                elif self._is_idle(time.monotonic() - last_work) and store.is_idle():
                    return
            except (StoreError, OSError) as problem:  # a full disk, a database that restarts: nothing is lost
                _log.warning("%s", problem)
                wait = _AFTER_FAILURE
            if not self._is_folder_there():
                self._is_told_to_stop = True
                return
            self._sleep(min(_POLL if wait is None else wait, _POLL))

    def _is_idle(self, seconds: float) -> bool:
        """Whether it ends, if there has been nothing to do for that long."""
        return self._idle_seconds is not None and seconds >= self._idle_seconds

    def _is_folder_there(self) -> bool:
        return self._settings.folder.is_dir() and os.fstat(self._pipe).st_nlink > 0

    def _sleep(self, seconds: float) -> None:
        """Sleep until somebody wakes it."""
        found, _, _ = select.select([self._pipe], [], [], max(0.0, seconds))
        if found:
            os.read(self._pipe, 65536)


def open_pipe(file: Path) -> int:
    """A pipe with a name, open for both directions so that it never ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkfifo(file, 0o600)
    return os.open(file, os.O_RDWR | os.O_NONBLOCK)


# -- from outside


def start(settings: Settings, *, stays: bool = False, idle_seconds: float = IDLE_SECONDS) -> bool:
    """Start a coordinator in the background if none leads the store; whether one was started."""
    wake(str(settings.wake))
    if has_leader(settings.store, settings.folder):
        return False
    settings.folder.mkdir(parents=True, exist_ok=True)
    starting = os.open(settings.folder / "starting.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(starting, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held by the new process until it leads
        _spawn(settings, starting, None if stays else idle_seconds)
    except BlockingIOError:
        return False
    finally:
        os.close(starting)
    return True


def _spawn(settings: Settings, starting: int, idle_seconds: float | None) -> None:
    words = [sys.executable, "-m", "leaven.jobs.coordinator", str(settings.folder), "--starting", str(starting)]
    words += ["--backoff", str(settings.backoff), *([] if idle_seconds is None else ["--idle", str(idle_seconds)])]
    with settings.log.open("ab") as log:
        subprocess.Popen(
            words,
            cwd="/",
            env={**os.environ, _STORE: settings.store},  # it may have a password in it, which others must not see
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(starting,),
            start_new_session=True,
        )


def stop(settings: Settings, store: JobStore, seconds: float = 15.0) -> bool:
    """End the coordinator; jobs that run go on. Whether there was one."""
    if not has_leader(settings.store, settings.folder):
        return False
    deadline = time.monotonic() + seconds
    asked = ""
    while has_leader(settings.store, settings.folder):
        found = json.loads(store.fact(_COORDINATOR) or "{}").get("id", "")
        if found != asked:  # one that has just begun to lead may not have said so yet
            store.set_fact(_STOP, asked := found)
        wake(str(settings.wake))
        if time.monotonic() > deadline:
            raise StoreError("the coordinator does not end", f"see {settings.log}")
        time.sleep(0.05)
    store.set_fact(_STOP, "")
    return True


def status(settings: Settings, store: JobStore) -> dict[str, object] | None:
    """What is known of the coordinator that leads; None where none does."""
    if not has_leader(settings.store, settings.folder):
        return None
    found = store.fact(_COORDINATOR)
    return dict(json.loads(found)) if found else {}


def main() -> None:
    """The process of a coordinator."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backoff", type=float, required=True)
    parser.add_argument("--idle", type=float)
    parser.add_argument("--starting", type=int)
    args = parser.parse_args()
    settings = Settings(args.folder, os.environ.pop(_STORE), backoff=args.backoff)
    args.folder.mkdir(parents=True, exist_ok=True)
    serve(settings, args.idle, args.starting)


def serve(settings: Settings, idle_seconds: float | None = None, starting: int | None = None) -> None:
    """Be the coordinator of a store; where another one leads it, step back."""
    handler = RotatingFileHandler(settings.log, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", handlers=[handler], force=True
    )
    try:
        Coordinator(settings, idle_seconds, starting).run()
    except AnotherLeads:
        _log.info("another coordinator leads this store")
    except StoreError as problem:
        _log.error("%s", problem)
        sys.exit(1)
    except Exception:
        _log.exception("the coordinator failed")
        raise


if __name__ == "__main__":
    main()
