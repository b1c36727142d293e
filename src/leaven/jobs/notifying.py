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
from leaven.jobs.store.for_loop import Ending, LoopStore
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
        self._messages: queue.Queue[tuple[Mapping[str, Any], Ending]] = queue.Queue(_MOST)
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Send what has to be sent of what has happened since the last look."""
        if self._last is None:
            try:
                self._last = int(self._file.read_text())
            except (OSError, ValueError):  # nobody is told of what was before the first look
                self._last = self._store.last_event()
        endings = self._store.endings(self._last)
        for ending in endings:
            self._add(ending)
        if endings:
            self._last = endings[-1].event
            write_text(self._file, str(self._last))

    def _add(self, ending: Ending) -> None:
        try:
            notify = load_settings(Path(ending.project or "/")).notify
        except (Problem, OSError) as problem:
            _log.warning("nobody is told of %s: %s", ending.name, problem)
            return
        if not notify or ending.what not in notify.get("on", [state.value for state in ENDED]):
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_all, daemon=True)
            self._thread.start()
        try:
            self._messages.put_nowait((notify, ending))
        except queue.Full:
            _log.warning("nobody is told of %s: too many messages wait", ending.name)

    def _send_all(self) -> None:
        while True:
            given, ending = self._messages.get()
            for name, send in (("webhook", _post), ("mail", _mail)):
                if name in given:
                    try:
                        send(given[name], ending)
                    except Exception as problem:
                        _log.warning("the %s for %s failed: %s", name, ending.name, problem)


def _subject(ending: Ending) -> str:
    return visible(f"job {ending.job} ({ending.name}) {ending.what}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Only the configured address is asked."""


def _post(address: str, ending: Ending) -> None:
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ValueError("its address must begin with http:// or https://")
    body = {"job": ending.job, "name": ending.name, "state": ending.what, "reason": ending.reason}
    body |= {"owner": ending.owner, "environment": ending.environment, "run": ending.run, "at": ending.at}
    body["text"] = _subject(ending) + (f": {ending.reason}" if ending.reason else "")
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_SECONDS) as answer:
        answer.read(10_000)


def _mail(command: Sequence[str], ending: Ending) -> None:
    lines = [_subject(ending), ending.reason, "", f"run: {ending.run}", f"leaven jobs show {ending.job}", ""]
    words = [word.replace("{subject}", _subject(ending)) for word in command]
    text = "\n".join(map(visible, lines))
    done = subprocess.run(words, input=text, text=True, capture_output=True, timeout=3 * _SECONDS, check=False)
    if done.returncode:
        raise OSError(f"{words[0]} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
