"""The processes of models: killed, hanging, filling memory, waiting for each other, and left by their clients."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.served_lab import PREFIX, ServedLab, serving_lab
from tests.unit.jobs.plain_jobs import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wild(folder: Path, wild_file: Path) -> Iterator[ServedLab]:
    words = (".", "--run-code", "--timeout", "30", "--memory", "1500MB", "--models", "2")
    with serving_lab(folder, *words) as served:
        served.post("/models/open", {"model": "wild.bundle"})
        yield served


def predict(lab: ServedLab, colour: str, model: str = "wild.bundle", **headers: str) -> tuple[int, Any]:
    """What the model answers; the edit changes nothing, but makes it answer again."""
    body = {"models": [model], "input": {"file": f"{colour}.png"}, "edits": [{"edit": "rotate", "degrees": 0}]}
    return lab.ask("POST", f"{PREFIX}/predict", body, **headers)


def pid_of(lab: ServedLab, model: str = "wild.bundle") -> int:
    return int(next(one["pid"] for one in lab.get("/models")["loaded"] if one["models"] == [model]))


def test_the_code_of_a_bundle_runs_only_where_the_lab_was_started_so(lab: ServedLab, wild_file: Path) -> None:
    code, found = predict(lab, "red")
    assert (code, "needs code that comes with it" in found["error"]) == (400, True)


@pytest.mark.parametrize(
    ("colour", "code", "headline"),
    [
        ("magenta", 502, "its process has ended by signal 9 (SIGKILL)"),
        ("green", 504, "there was no answer within 30 seconds"),
        ("blue", 507, "its process needed more than the 1.5 GB of memory that it may have, and was ended"),
    ],
)
def test_a_process_that_ends_is_reported_and_started_again(
    wild: ServedLab, colour: str, code: int, headline: str
) -> None:
    assert predict(wild, "red")[0] == 200
    before = pid_of(wild)
    found = predict(wild, colour)
    assert (found[0], found[1]["error"]) == (code, headline)
    (loaded,) = (one for one in wild.get("/models")["loaded"] if one["models"] == ["wild.bundle"])
    assert (loaded["state"], loaded["problem"]) == ("ended", headline)
    assert predict(wild, "red")[0] == 200
    assert pid_of(wild) != before


def test_a_process_that_was_killed_while_nobody_asked_starts_again(wild: ServedLab) -> None:
    predict(wild, "red")
    os.kill(pid_of(wild), signal.SIGKILL)
    wait_until(lambda: wild.get("/models")["loaded"][-1]["state"] == "ended", "the process to end")
    assert predict(wild, "red")[0] == 200


def test_of_one_slot_only_the_newest_request_is_answered(wild: ServedLab) -> None:
    predict(wild, "yellow")
    with ThreadPoolExecutor(8) as pool:
        asked = []
        for _ in range(6):  # each takes a second
            asked.append(pool.submit(predict, wild, "yellow", X_Slot="slider"))
            time.sleep(0.1)
        other = pool.submit(predict, wild, "red", X_Slot="another")
        codes = [one.result()[0] for one in asked]
        assert other.result()[0] == 200
    assert codes[-1] == 200
    assert codes[1:-1] == [409] * 4


def test_two_clients_are_both_answered(wild: ServedLab) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: predict(wild, ("red", "yellow")[at % 2]), range(8)))
    assert {code for code, _ in found} == {200}
    answers = [answer["answers"][0]["after"] for _, answer in found]
    assert answers[0::2] == [answers[0]] * 4
    assert answers[1::2] == [answers[1]] * 4


def test_the_least_recently_used_model_makes_room(wild: ServedLab) -> None:
    for model in ("wild.bundle", "colours.bundle", "others.bundle"):
        assert predict(wild, "red", model)[0] == 200
    assert [one["models"][0] for one in wild.get("/models")["loaded"]] == ["colours.bundle", "others.bundle"]
    assert wild.post("/models/close", {"model": "others.bundle"}) == {"closed": True}
    assert [one["models"][0] for one in wild.get("/models")["loaded"]] == ["colours.bundle"]


def test_a_stream_that_is_left_is_cancelled(wild: ServedLab) -> None:
    """An occlusion of the slow image would take a minute and more."""
    body = {"model": "wild.bundle", "input": {"file": "yellow.png"}}
    predict(wild, "red")
    with wild.open("POST", f"{PREFIX}/attribute", body) as stream:
        assert b'"final": false' in stream.readline()
    began = time.monotonic()
    assert predict(wild, "red")[0] == 200
    assert time.monotonic() - began < 15


def test_a_run_is_started_followed_and_stopped(wild: ServedLab) -> None:
    text = wild.get("/recipes/file?file=small.leaven")["text"].replace("epochs=2", "epochs=100000")
    started = wild.post("/runs", {"text": text, "file": "small.leaven", "name": "long"})
    assert started["run"] == "runs/small/long"
    rows: list[Any] = []
    with wild.open("GET", f"{PREFIX}/runs/follow?run=runs/small/long") as stream:
        while len(rows) < 20:
            rows += json.loads(stream.readline())["rows"]
    assert [row["epoch"] for row in rows[:20]] == list(range(1, 21))
    assert wild.ask("POST", f"{PREFIX}/runs", {"text": text, "name": "long", "file": "small.leaven"})[0] == 400
    assert wild.post("/runs/stop", {"run": "runs/small/long"}) == {"stopped": True}
    wait_until(lambda: state(wild) == "stopped", "the run to stop")
    assert wild.get("/runs/metrics?run=runs/small/long&since=5&limit=2")["next"] == 7
    chart = wild.get("/runs/curve?run=runs/small/long&names=train.loss")
    assert len(chart["x"]) == len(chart["series"][0]["values"]) <= 1000
    assert "train 1/" in wild.get("/runs/printed?run=runs/small/long")["text"]
    resumed = wild.post("/runs/resume", {"run": "runs/small/long"})
    assert resumed["run"] == "runs/small/long"
    wait_until(lambda: state(wild) == "running", "the run to go on")
    wild.post("/runs/stop", {"run": "runs/small/long"})
    wait_until(lambda: state(wild) == "stopped", "the run to stop")


def state(lab: ServedLab) -> str:
    return str(next(one["state"] for one in lab.get("/runs")["items"] if one["run"] == "runs/small/long"))


def test_processes_end_with_their_server(folder: Path, wild_file: Path) -> None:
    with serving_lab(folder, ".", "--run-code") as served:
        assert predict(served, "red")[0] == 200
        pid = pid_of(served)
        hanging = threading.Thread(target=lambda: _unanswered(served))
        hanging.start()
        time.sleep(0.5)
        os.kill(served.pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the model to end")
        hanging.join(30)


def _unanswered(lab: ServedLab) -> None:
    try:
        predict(lab, "green")
    except OSError:
        return
