"""Who is told how jobs ended, and what happens when that fails."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, plain, settings_in, wait_until

from leaven.jobs.manifest import Manifest
from leaven.jobs.notifying import Notifier
from leaven.jobs.package import make_package
from leaven.jobs.requests import Order
from leaven.jobs.resources import Resources


class Hook(BaseHTTPRequestHandler):
    got: list[dict[str, object]]

    def do_POST(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/")
            self.end_headers()
            return
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, object]]]]:
    Hook.got = []
    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", Hook.got
    server.shutdown()
    server.server_close()


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    monkeypatch.setenv("LEAVEN_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").touch()
    found = Queue(settings_in(tmp_path / "jobs"))
    yield found
    found.close()


def in_project(text: str, project: Path) -> Order:
    whole = plain(text)
    manifest = Manifest(**{**vars(whole.manifest), "project": str(project)})
    return Order(make_package(manifest, whole.members), resources=Resources(cpus=1), retries=0)


def test_a_webhook_and_a_mail_command_get_how_jobs_of_a_project_ended(
    queue: Queue, hook: tuple[str, list[dict[str, object]]], tmp_path: Path
) -> None:
    address, got = hook
    project, mail = tmp_path / "project", tmp_path / "mail"
    project.mkdir()
    sends = f"import sys; open({str(mail)!r}, 'w').write(sys.argv[1] + chr(10) + sys.stdin.read())"
    words = json.dumps([sys.executable, "-c", sends, "{subject}"])
    (project / "leaven.toml").write_text(f'[notify]\nwebhook = "{address}"\nmail = {words}\non = ["failed"]\n')
    notifier = Notifier(queue.loop._store, queue.settings)
    notifier.look()
    bad, good, other = queue.submit(in_project("exit(3)", project), in_project("", project), order("exit(1)"))
    queue.finish(bad, good, other)
    notifier.look()
    wait_until(lambda: got and mail.exists() and mail.read_text().endswith("\n"), "both to be told")
    (said,) = got
    assert (said["job"], said["state"]) == (bad, "failed")
    assert said["text"] == f"job {bad} (plain-{bad}) failed: the program ended with exit code 3"
    assert mail.read_text().startswith(f"job {bad} (plain-{bad}) failed\njob {bad}")
    Notifier(queue.loop._store, queue.settings).look()  # a new coordinator tells nothing twice
    assert len(got) == 1


@pytest.mark.parametrize("address", ["/elsewhere", "file:///etc/passwd", "http://127.0.0.1:1/"])
def test_a_message_that_fails_stops_nothing(
    queue: Queue,
    hook: tuple[str, list[dict[str, object]]],
    tmp_path: Path,
    address: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = hook[0] + address if address.startswith("/") else address
    (tmp_path / "config.toml").write_text(f'[notify]\nwebhook = "{whole}"\n')
    notifier = Notifier(queue.loop._store, queue.settings)
    notifier.look()
    queue.finish(*queue.submit(order("")))
    notifier.look()
    wait_until(lambda: "the webhook for plain-1 failed" in caplog.text)
    assert hook[1] == []
