"""What the HTTP API answers to odd and hostile requests, by a real server on a free port of this machine."""

import contextlib
import io
import json
import re
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.unit.jobs.plain_jobs import plain, sweep, wait_until

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.unit.jobs.served_api import Api, listening, project

from leaven.formats.run_folder import PROGRAM
from leaven.formats.sweep_folder import TRIALS
from leaven.jobs import requests
from leaven.jobs.settings import load_settings

MOST_BYTES = 200_000_000  # of memory, whatever is asked


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with project(tmp_path_factory.mktemp("served")) as folder, listening(folder) as found:
        yield found
        assert found.peak() < MOST_BYTES


def archive(compression: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", compression) as found:
        for name, content in members.items():
            found.writestr(name, content)
    return written.getvalue()


def manifest(**changes: Any) -> bytes:
    """The manifest of a package, changed."""
    with zipfile.ZipFile(io.BytesIO(plain("pass").content)) as found:
        return json.dumps({**json.loads(found.read("job.json")), **changes}).encode()


def packed(job: bytes, **members: bytes) -> bytes:
    return archive(**{"job.json": job, PROGRAM: b"pass", **members})


def damaged(compression: int) -> bytes:
    """An archive whose contents were changed, but not what it says of them."""
    found = bytearray(archive(compression, **{PROGRAM: bytes(range(256)) * 20, "job.json": manifest()}))
    start = found.index(PROGRAM.encode()) + len(PROGRAM)
    found[start : start + 12] = b"\xff" * 12
    return bytes(found)


HOSTILE = {
    "nothing": b"",
    "text": b"hello",
    "the end of an archive alone": b"PK\x05\x06" + bytes(18),
    "cut off": plain("pass").content[:-30],
    "damaged": damaged(zipfile.ZIP_STORED),
    "damaged, deflate": damaged(zipfile.ZIP_DEFLATED),
    "damaged, bzip2": damaged(zipfile.ZIP_BZIP2),
    "damaged, LZMA": damaged(zipfile.ZIP_LZMA),
    "a bomb": archive(zipfile.ZIP_DEFLATED, **{"job.json": manifest(), PROGRAM: bytes(500_000_000 // 8)}),
    "many members": archive(**{f"{number}": b"" for number in range(50_000)}),
    "no manifest": archive(**{PROGRAM: b"pass"}),
    "no program": archive(**{"job.json": manifest()}),
    "outside": packed(manifest(), **{"../../outside": b"x"}),
    "deep JSON": packed(b'{"a":' * 100_000),
    "JSON that takes much memory": packed(b"[" + b"[]," * 5_000_000 + b"[]]"),
    "a list": packed(b"[]"),
    "a huge integer": packed(b'{"format": ' + b"9" * 5000 + b"}"),
    "another format": packed(manifest(format=10**100)),
    "a version with surrogates": packed(manifest(leaven="\ud800")),
    "a version with NUL": packed(manifest(leaven="\0")),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_a_package_is_refused_with_a_report(api: Api, body: bytes) -> None:
    code, found = api("POST", "/jobs", body, Content_Type="application/octet-stream")
    assert code == 400
    assert found["error"].startswith(("the package ", "package "))


def test_a_gpu_brings_as_many_cores_as_the_settings_say(tmp_path: Path) -> None:
    with project(tmp_path) as folder:
        with (folder / "leaven.toml").open("a") as file:
            file.write('[environments.cluster]\nkind = "ray"\naddress = "http://127.0.0.1:1"\ncores_per_gpu = 6\n')
        with listening(folder) as api:
            package, kind = plain("pass").content, "application/octet-stream"
            code, (job,) = api("POST", "/jobs?environment=cluster&gpus=2", package, Content_Type=kind)
    assert (code, job["cpus"], job["gpus"]) == (201, 12, 2)


@pytest.mark.parametrize("trials", [b"", b"[]", b"{}", b'{"trials": 3}', b"[" * 100_000, b'{"by": "\\ud800"}'])
def test_a_sweep_whose_trials_are_damaged_is_refused(api: Api, trials: bytes) -> None:
    files = {**sweep("pass").members, TRIALS: trials, "job.json": manifest(entry="sweep")}
    code, _ = api("POST", "/jobs?sweep=true", archive(**files), Content_Type="application/octet-stream")
    assert code == 400


@pytest.mark.parametrize("entry", ["name", "arguments", "monitor", "project", "output"])
@pytest.mark.parametrize("text", ["\0", "\ud800", "a\x1b[31m", "../" * 500])
def test_odd_texts_in_a_manifest_are_no_failure_of_the_server(api: Api, entry: str, text: str) -> None:
    value = [text] if entry == "arguments" else text
    code, _ = api("POST", "/jobs?cpus=1", packed(manifest(**{entry: value})), Content_Type="application/octet-stream")
    assert code in (201, 400)


@pytest.mark.parametrize(
    "query",
    [
        "priority=99999999999999999999",
        "priority=" + "9" * 5000,
        "retries=99999999999",
        "cpus=99999999999",
        "gpus=-1",
        "memory=99999999999999999999GB",
        "memory=%00",
        "time=99999999999999999999d",
        "time=" + "9" * 180 + "m",
        "name=%00",
        "name=%ed%a0%80",
        "name=" + "a" * 150,
        "name=" + "a" * 1000,
        "after=%00",
        "after=" + quote("'; DROP TABLE jobs; --"),
        "environment=%00",
        "prority=5",
        "cpu=1&cpus=1",
    ],
)
def test_odd_parameters_are_answered_with_a_report(api: Api, query: str) -> None:
    code, found = api("POST", f"/jobs?{query}", plain("pass").content, Content_Type="application/octet-stream")
    assert code in (201, 400, 422)
    assert code == 201 or found["error"]


@pytest.mark.parametrize("job", ["%00", "%ed%a0%80", "%ff", "9" * 30, "a" * 5000, "..%2f..", "%0a"])
def test_odd_names_of_jobs_are_not_found(api: Api, job: str) -> None:
    for method, path in (("GET", ""), ("GET", "/logs"), ("POST", "/cancel"), ("DELETE", "")):
        assert api(method, f"/jobs/{job}{path}")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[" * 60_000,
        b'{"priority": ' + b"9" * 6000 + b"}",
        b'{"priority": 99999999999}',
        b'{"priority": NaN}',
        b'{"priority": true}',
        b'{"priority": "\\ud800"}',
        b'{"priority": 1.5}',
        b"\xff\xfe",
        b"\0",
    ],
)
def test_a_priority_that_is_none_is_refused(api: Api, body: bytes) -> None:
    if api("GET", "/jobs/ranked")[0] == 404:
        api.submit("pass", "name=ranked")
    assert api("PUT", "/jobs/ranked/priority", body) == (422, {"error": 'expected {"priority": 5}', "help": ""})


def test_a_parameter_that_is_misspelt_is_reported(api: Api) -> None:
    code, found = api("GET", "/jobs?limi=5")
    assert (code, found["error"]) == (422, "there is no parameter `limi`; there are: state, limit, before")
    assert api("POST", "/jobs/x/cancel?force=1")[0] in (404, 422)


def test_a_name_that_is_taken_is_a_conflict(api: Api) -> None:
    assert api.submit("pass", "name=taken")[0] == 201
    code, found = api.submit("pass", "name=taken")
    assert (code, found["error"]) == (409, "a job named `taken` exists already")


def test_jobs_are_listed_page_by_page(api: Api) -> None:
    for _ in range(3):
        api.submit("pass")
    newest = api("GET", "/jobs?limit=2")[1]
    before = api("GET", f"/jobs?limit=2&before={newest[0]['id']}")[1]
    ids = [job["id"] for job in [*before, *newest]]
    assert (len(ids), ids) == (4, sorted(set(ids)))
    assert api("GET", "/jobs?limit=100000")[0] == 422


def test_numbers_that_json_has_not_are_null(api: Api) -> None:
    _, (job,) = api.submit("pass", "name=diverges")
    api.wait("diverges", "succeeded")
    store = requests.open_store(load_settings(api.folder))
    with store.writing() as connection:
        connection.exec_driver_sql(
            "UPDATE jobs SET progress = ? WHERE id = ?", ('{"epoch": 1, "epochs": 2, "loss": NaN}', job["id"])
        )
    store.close()
    code, found = api("GET", "/jobs/diverges")
    assert (code, found["progress"]["epoch"], found["progress"]["loss"]) == (200, 1, None)


def test_the_health_needs_no_token_and_metrics_do(api: Api) -> None:
    stranger = Api(api.address, None, api.folder)
    assert stranger("GET", "/health") == (200, {"status": "ok"})
    assert stranger("GET", "/metrics")[0] == 401
    stranger("ODD", "/metrics")
    code, found = api("GET", "/metrics")
    assert code == 200
    assert re.search(r'^leaven_jobs\{state="succeeded"\} [1-9]', found, re.M)
    assert 'leaven_http_requests_total{method="other",status="401"}' in found
    assert 'leaven_environment_reachable{environment="local"} 1.0' in found
    assert re.search(r"^process_resident_memory_bytes \d", found, re.M)


def test_the_page_of_routes_loads_nothing_from_elsewhere(api: Api) -> None:
    code, found = Api(api.address, None, api.folder)("GET", "/")
    assert code == 200
    assert "/jobs/{job}/logs" in found
    assert "//" not in found
    assert "<script" not in found


def test_every_answer_of_every_route_is_described(api: Api) -> None:
    described = api("GET", "/openapi.json")[1]
    for path, routes in described["paths"].items():
        for method, route in routes.items():
            known = set(route["responses"])
            assert {"400", "401", "403", "421", "422", "503"} <= known, (method, path)
            assert ("{" not in path) or "404" in known
            good = [answer for code, answer in route["responses"].items() if code.startswith("2")]
            assert all(answer.get("content") for answer in good), (method, path)
    fields = described["components"]["schemas"]["Job"]["properties"]
    assert "paused" in fields["state"]["enum"]
    assert fields["arguments"]["type"] == "array"


def test_a_page_elsewhere_can_neither_ask_nor_send(api: Api) -> None:
    assert api("POST", "/coordinator/start", b"", Origin="http://evil.example", Content_Type="text/plain")[0] == 403
    assert api("GET", "/jobs", None, Host="evil.example")[0] == 421


def test_a_browser_exchanges_the_token_in_a_link_for_a_cookie(api: Api) -> None:
    with socket.create_connection(("127.0.0.1", int(api.address.rpartition(":")[2])), timeout=30) as connection:
        connection.sendall(f"GET /?token={api.token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = connection.recv(10_000).decode()
    assert head.startswith("HTTP/1.1 303 ")
    assert "\r\nlocation: /\r\n" in head
    found = re.search(r"\r\nset-cookie: (.*?); Path=/; HttpOnly; SameSite=Strict\r\n", head)
    assert found is not None
    assert Api(api.address, None, api.folder)("GET", "/jobs?limit=1", Cookie=found[1])[0] == 200


def test_what_is_sent_without_the_token_takes_no_memory(api: Api) -> None:
    before = api.peak()
    host, port = api.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(f"POST /jobs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1500000000\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 401"
        try:
            for _ in range(200):
                connection.sendall(bytes(1_000_000))
        except OSError:
            pass  # the server has had enough
    assert api.peak() - before < 20_000_000


def test_what_is_too_long_is_refused_however_it_is_sent(api: Api) -> None:
    before = api.peak()
    assert api("POST", "/jobs", bytes(17_000_000))[0] == 413
    host, port = api.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = f"POST /jobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {api.token}\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(17):
            connection.sendall(b"F4240\r\n" + bytes(1_000_000) + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 413"
    assert api.peak() - before < 60_000_000
    assert api("PUT", "/jobs/x/priority", bytes(100_000))[0] == 413


def test_many_followers_hold_no_thread(api: Api) -> None:
    api.submit("import time\nprint('begun', flush=True)\ntime.sleep(600)", "name=followed")
    following = [api.open("GET", "/jobs/followed/logs?follow=true") for _ in range(60)]
    assert [one.readline() for one in following] == [b"begun\n"] * 60
    assert api("GET", "/jobs?limit=1")[0] == 200
    assert api("POST", "/jobs/followed/cancel")[0] == 200
    assert [one.read() for one in following] == [b""] * 60
    for one in following:
        one.close()


def test_a_long_log_is_read_in_pieces(api: Api, tmp_path: Path) -> None:
    api.submit("print('begun')", "name=prints")
    api.wait("prints", "succeeded")
    attempt = api("GET", "/jobs/prints")[1]["tries"][0]["id"]
    with (api.folder / "jobs" / "attempts" / attempt / "log").open("r+b") as log:
        log.truncate(300_000_000)
    before = api.peak()
    for query in ("", "?follow=true", "?attempt=1"):
        with api.open("GET", f"/jobs/prints/logs{query}") as answer:
            count = 0
            while piece := answer.read(1_000_000):
                count += len(piece)
        assert count == 300_000_000
    assert api.peak() - before < 50_000_000
    assert api("GET", "/jobs/prints/logs?attempt=2")[0] == 404


@pytest.mark.slow
def test_nothing_that_the_description_allows_or_forbids_is_a_failure(api: Api) -> None:
    """Schemathesis makes requests of the description, right and wrong ones, and compares the answers with it."""
    schemathesis = pytest.importorskip("schemathesis")
    hypothesis = pytest.importorskip("hypothesis")
    made_up = schemathesis.checks.positive_data_acceptance  # jobs and packages are not those that there are
    token = schemathesis.checks.negative_data_rejection  # it leaves the token out, which is sent nevertheless
    headers = {"Authorization": f"Bearer {api.token}"}
    schema = schemathesis.openapi.from_url(f"{api.address}/openapi.json")
    quick = schema.exclude(path_regex="/check$|/coordinator/(start|stop)$")
    for found in quick.get_all_operations():
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @hypothesis.settings(max_examples=30, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
            @hypothesis.given(case=found.ok().as_strategy(mode))
            def asked(case: Any) -> None:
                framing = {"transfer-encoding", "content-length"}  # what is no HTTP gets no answer of the API's
                hypothesis.assume(framing.isdisjoint(name.lower() for name in case.headers or {}))
                case.call_and_validate(headers=headers, excluded_checks=[made_up, token])

            with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # what has no parameters can't be asked wrongly
                asked()


def test_all_that_was_asked_left_the_server_as_it_was(api: Api) -> None:
    api("DELETE", "/jobs")
    wait_until(lambda: api("GET", "/health")[0] == 200)
