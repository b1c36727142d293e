"""Notifications of how jobs ended: by a webhook or a command that sends mail, as in `leaven.toml` of the project.

    [notify]
    webhook = "https://chat.example.org/hooks/…"        # gets a POST with JSON
    mail = ["mail", "-s", "{subject}", "me@example.org"]  # gets the text
    on = ["failed", "lost"]                              # [every way to end]

What is sent follows from the events of jobs. Sending happens beside the loop, with time-outs: what can't be sent is
written to the log, and nothing else depends on it.
"""

import json
import logging
import queue
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaven.files.atomic_files import write_text
from leaven.jobs.settings import Settings, load_settings
from leaven.jobs.states import ENDED
from leaven.jobs.store.for_loop import LoopStore
from leaven.jobs.store.records import Event, Job
from leaven.terminal.problem import Problem
from leaven.terminal.visible import visible

_FILE = "notified"  # the file in the folder of jobs with the number of the last event that was looked at
_SECONDS = 10.0  # for one message
_MOST = 200  # messages that wait to be sent

_log = logging.getLogger(__name__)


class Notifier:
    """Looks for endings of jobs, and lets a thread send messages about them."""

    def __init__(self, store: LoopStore, settings: Settings) -> None:
        self._store = store
        self._file = settings.folder / _FILE
        self._last: int | None = None
        self._messages: queue.Queue[tuple[Mapping[str, Any], Event, Job]] = queue.Queue(_MOST)
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Send what has to be sent of what has happened since the last look."""
        if self._last is None:
            try:
                self._last = int(self._file.read_text())
            except (OSError, ValueError):  # nobody is told of what was before the first look
                self._last = self._store.last_event()
        endings = self._store.endings(self._last)
        for event, job in endings:
            self._add(event, job)
            self._last = event.id
        if endings:
            write_text(self._file, str(self._last))

    def _add(self, event: Event, job: Job) -> None:
        try:
            notify = load_settings(Path(job.project or "/")).notify
        except (Problem, OSError) as problem:
            _log.warning("nobody is told of %s: %s", job.name, problem)
            return
        if not notify or event.what not in notify.get("on", [state.value for state in ENDED]):
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_all, daemon=True)
            self._thread.start()
        try:
            self._messages.put_nowait((notify, event, job))
        except queue.Full:
            _log.warning("nobody is told of %s: too many messages wait", job.name)

    def _send_all(self) -> None:
        while True:
            given, event, job = self._messages.get()
            for name, send in (("webhook", _post), ("mail", _mail)):
                if name in given:
                    try:
                        send(given[name], event, job)
                    except Exception as problem:
                        _log.warning("the %s for %s failed: %s", name, job.name, problem)


def _subject(event: Event, job: Job) -> str:
    return visible(f"job {job.id} ({job.name}) {event.what}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Only the configured address is asked."""


def _post(address: str, event: Event, job: Job) -> None:
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ValueError("its address must begin with http:// or https://")
    body = {"job": job.id, "name": job.name, "state": event.what, "reason": job.reason}
    body |= {"owner": job.owner, "environment": job.environment, "run": job.run, "at": event.at}
    body["text"] = _subject(event, job) + (f": {job.reason}" if job.reason else "")
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_SECONDS) as answer:
        answer.read(10_000)


def _mail(command: Sequence[str], event: Event, job: Job) -> None:
    lines = [_subject(event, job), job.reason, "", f"run: {job.run}", f"leaven jobs show {job.id}", ""]
    words = [word.replace("{subject}", lines[0]) for word in command]
    text = "\n".join(map(visible, lines))
    done = subprocess.run(words, input=text, text=True, capture_output=True, timeout=3 * _SECONDS, check=False)
    if done.returncode:
        raise OSError(f"{words[0]} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
