"""The coordinator: the process that runs the reconcile loop for the jobs of one user, in one folder.

With a store in PostgreSQL, each user has one; one of them leads the store, and grants slots to all. If it ends, another
one leads.

It starts by itself when something is submitted, and ends when there has been nothing to do for a while, unless it was
started to stay. Jobs don't depend on it: it may end or be killed at any time, and the next one takes them over. It
never imports torch.
"""

import contextlib
import json
import logging
import math
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from logging.handlers import RotatingFileHandler
from pathlib import Path

from sqlalchemy import Engine

from leaven.files.atomic_files import PRIVATE
from leaven.jobs import requests
from leaven.jobs.granting import SILENT
from leaven.jobs.notifying import Notifier
from leaven.jobs.reconcile import Reconciler
from leaven.jobs.settings import Settings
from leaven.jobs.store.access import Access
from leaven.jobs.store.connection import AnotherLeads, has_leader, is_led, opened
from leaven.jobs.store.failures import StoreError
from leaven.jobs.store.for_loop import LoopStore
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.supervisor import is_taken, take, wake
from leaven.terminal.duration_text import duration_text

IDLE_SECONDS = 600.0
_POLL = 1.0  # seconds between two looks at what users have written
_AFTER_FAILURE = 2.0
LEADER = "coordinator"  # the fact that says which one leads
_TRY_TO_LEAD = 5.0  # seconds between two looks at whether another leads
_LOCK_TRIES = 10
_STORE = "LEAVEN_JOBS_STORE"  # the environment variable with the address of the store
_FORGET = 3600.0  # seconds between two looks at old jobs
_LOG_BYTES = 1_000_000

_log = logging.getLogger(__name__)


class Coordinator:
    """Runs the jobs of one user until it is told to stop, or has been idle for some seconds (None: never).

    It leads the store if no other does. `lock` is the descriptor of the folder's lock, which it holds.
    """

    def __init__(self, settings: Settings, idle_seconds: float | None, lock: int) -> None:
        self._lock = lock
        self._settings = settings
        self._idle_seconds = math.inf if idle_seconds is None else idle_seconds
        self._is_stopping = False
        self._has_begun = False
        self._day = time.time() - time.monotonic()
        self._forget_at = 0.0
        self._last_work = time.monotonic()
        self._pipe = open_pipe(settings.wake)

    def run(self) -> None:
        """Run; what was submitted while this one was leaving is not left behind."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            try:
                is_over = self._lead_or_follow()
            except StoreError as problem:  # the database is gone between two loops
                if not self._has_begun:
                    raise
                _log.warning("%s", problem)
                is_over = False
                self._sleep(_AFTER_FAILURE)
            if self._is_stopping or (is_over and self._is_idle()):
                _log.info("ended")
                return

    def _lead_or_follow(self) -> bool:
        """Lead the store, or if another does, only run the jobs of this user; whether there is nothing more to do."""
        try:
            with opened(self._settings.store, leads=True) as engine:
                return self._loop(engine, leads=True)
        except AnotherLeads:
            with opened(self._settings.store) as engine:
                return self._loop(engine, leads=False)

    def _is_idle(self) -> bool:
        with opened(self._settings.store) as engine:
            return self._store(engine).is_idle()

    def _store(self, engine: Engine, *, leads: bool = True) -> LoopStore:
        agent = Access(engine).agent_of(self._settings.host, self._settings.folder)
        return LoopStore(engine, agent, leads=leads)

    def _stop(self, *_: object) -> None:
        self._is_stopping = True
        wake(str(self._settings.wake))

    def _loop(self, engine: Engine, *, leads: bool) -> bool:
        """Turn the reconcile loop; whether there is nothing more to do. False: it may be the time to lead."""
        self._has_begun = True
        store = self._store(engine, leads=leads)
        _log.info("%s %s", "leading as" if leads else "following as", store.agent or self._settings.folder)
        reconciler, notifier = Reconciler(store, self._settings), Notifier(store, self._settings)
        try_to_lead = time.monotonic() + _TRY_TO_LEAD
        is_known, was_busy = not leads, True
        while not self._is_stopping and not self._settings.stop.exists():
            try:
                if not is_known:
                    store.set_fact(LEADER, json.dumps({"agent": store.agent}))
                    is_known = True
                wait = reconciler.tick()
                if wait is not None or was_busy:
                    notifier.look()
                was_busy = wait is not None
                if wait is not None:
                    self._last_work = time.monotonic()
                elif time.monotonic() >= self._last_work + self._idle_seconds and store.is_idle():
                    return True
                self._forget_old(store)
                if not leads and time.monotonic() >= try_to_lead:
                    try_to_lead = time.monotonic() + _TRY_TO_LEAD
                    if not is_led(engine):
                        return False
            except (StoreError, OSError) as problem:  # a full disk, a database that restarts: nothing is lost
                _log.warning("%s", problem)
                wait = _AFTER_FAILURE
            except AnotherLeads:
                raise
            except Exception:
                _log.exception("something unexpected; it is tried again")
                wait = _AFTER_FAILURE
            if not self._has_folder():
                _log.error("the folder %s was removed", self._settings.folder)
                self._is_stopping = True
                return True
            self._sleep(min(_POLL if wait is None else wait, _POLL))
        self._is_stopping = True
        return True

    def _has_folder(self) -> bool:
        """Whether the folder is there, and not another one in its place."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._lock), os.stat(self._settings.lock))
        return False

    def _forget_old(self, store: LoopStore) -> None:
        """Forget old events and jobs now and then; jobs unless the time of day has jumped since this process began."""
        now = time.monotonic()
        if now < self._forget_at:
            return
        self._forget_at = now + _FORGET
        store.forget_events()
        if self._settings.keep is None:
            return
        if abs(time.time() - now - self._day) > _FORGET:
            _log.warning("the clock has jumped: old jobs are kept until the coordinator is started again")
        elif count := requests.clean_all(JobStore(store.engine), self._settings, self._settings.keep):
            _log.info("forgot %s jobs that ended long ago", count)

    def _sleep(self, seconds: float) -> None:
        """Sleep until somebody wakes it."""
        if select.select([self._pipe], [], [], max(0.0, seconds))[0]:
            os.read(self._pipe, 65536)


def open_pipe(file: Path) -> int:
    """A pipe with a name, open for both directions so that it never ends."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(file, 0o600)
    return os.open(file, os.O_RDWR | os.O_NONBLOCK)


# -- from outside


def start(settings: Settings, *, stays: bool = False, idle_seconds: float = IDLE_SECONDS) -> bool:
    """Start a coordinator of this folder in the background if there is none; whether one was started."""
    wake(str(settings.wake))
    if is_running(settings):
        return False
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(settings.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not take(lock, _LOCK_TRIES):
            return False
        settings.stop.unlink(missing_ok=True)
        _spawn(settings, lock, None if stays else idle_seconds)
    finally:
        os.close(lock)
    return True


def is_running(settings: Settings) -> bool:
    """Whether this folder has a coordinator, or one is starting."""
    return is_taken(settings.lock)


def _spawn(settings: Settings, lock: int, idle_seconds: float | None) -> None:
    own = {"host": settings.host, "backoff": settings.backoff, "keep": settings.keep}
    serving = {"idle_seconds": idle_seconds, "lock": lock}
    with open(os.open(settings.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE), "ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "leaven.jobs.coordinator", str(settings.folder), json.dumps([own, serving])],
            cwd="/",
            env={**os.environ, _STORE: settings.store},  # it may have a password in it, which others must not see
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),  # which it so holds from now on
            start_new_session=True,
        )


def stop(settings: Settings, store: JobStore, seconds: float = 15.0) -> bool:
    """End the coordinator of this folder; jobs that run go on. Whether there was one."""
    if not is_running(settings):
        return False
    deadline = time.monotonic() + seconds
    try:
        while is_running(settings):
            settings.stop.touch(0o600)
            wake(str(settings.wake))
            if time.monotonic() > deadline:
                raise StoreError("the coordinator does not end", f"see {settings.log}")
            time.sleep(0.05)
    finally:
        settings.stop.unlink(missing_ok=True)
    return True


def status(settings: Settings, store: JobStore) -> dict[str, object] | None:
    """The record of the coordinator of this folder, and whether it leads; None where there is none."""
    if not is_running(settings):
        return None
    own = store.agent_of(settings.host, settings.folder)
    agent = store.agents().get(own)
    return {**(asdict(agent) if agent is not None else {}), "leads": _leader(store) == own}


def _leader(store: JobStore) -> str | None:
    agent = json.loads(store.fact(LEADER) or "{}").get("agent")
    return None if agent is None else str(agent)


def problems(settings: Settings, store: JobStore) -> list[str]:
    """Reasons why jobs are not run, in words for users: no coordinator, or one that hangs."""
    if not is_running(settings):
        return ["no coordinator is running: `leaven coordinator start`"]
    own, leader = store.agent_of(settings.host, settings.folder), _leader(store)
    now, reasons = store.now(), []
    for agent in store.agents().values():
        silence = now - agent.seen
        if silence <= SILENT or agent.id not in (own, leader):
            continue
        fact = f"has not been seen for {duration_text(silence)}"
        if agent.id == own:
            help = f"see {settings.log}; if it hangs, end it: kill -9 {agent.pid}"
            reasons.append(f"the coordinator (process {agent.pid}) {fact}: {help}")
        elif has_leader(settings.store, settings.folder):
            reasons.append(f"the coordinator of {agent.owner} on {agent.host}, which leads the store, {fact}")
    return reasons


def main() -> None:
    """The process of a coordinator, as `_spawn` starts it."""
    folder, (own, serving) = Path(sys.argv[1]), json.loads(sys.argv[2])
    serve(Settings(folder, os.environ.pop(_STORE), **own), **serving)


def serve(settings: Settings, idle_seconds: float | None = None, lock: int | None = None) -> None:
    """Be the coordinator of a folder of jobs, whose lock may be held already; where there is another, step back."""
    os.umask(0o077)  # what it writes is nobody else's business
    if lock is None:
        settings.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(settings.lock, os.O_RDWR | os.O_CREAT)
    handler = RotatingFileHandler(settings.log, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", handlers=[handler], force=True
    )
    try:
        if take(lock, _LOCK_TRIES):
            Coordinator(settings, idle_seconds, lock).run()
        else:
            _log.info("another coordinator runs these jobs")
    except StoreError as problem:
        _log.error("%s", problem)
        sys.exit(1)
    except Exception:
        _log.exception("the coordinator failed")
        raise


if __name__ == "__main__":
    main()
