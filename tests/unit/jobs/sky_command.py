"""A command that plays `sky`, for tests: it runs the task of a managed job as a process of this machine.

When a file `preempt` is there, the machine of a running job is lost, and another one is found for it, as SkyPilot does.
It is run as a script, with the folder of its state in SKY_STATE.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import yaml

STATE = Path(os.environ.get("SKY_STATE", ""))


def main(words: list[str]) -> None:
    if (STATE / "down").exists():
        sys.exit("sky.exceptions.ApiServerConnectionError: could not connect")
    if words == ["check"]:
        print("AWS: enabled [compute, storage]")
    elif words[:2] == ["jobs", "launch"]:
        given = [words[place + 1] for place, word in enumerate(words) if word == "--secret"]
        launch(Path(words[-1]), given)
    elif words[:2] == ["jobs", "queue"]:
        print("[info] Fetching managed job statuses...")
        rows = [row(number, file) for number, file in enumerate(sorted(STATE.glob("*.job")), 1)]
        hidden = {} if "--verbose" in words else {"details": None, "failure_reason": None}
        text = json.dumps([{**one, **hidden} for one in rows], indent=2)
        print((STATE / "garbage").read_text() if (STATE / "garbage").exists() else text)
    elif words[:2] == ["jobs", "cancel"]:
        file = STATE / f"{words[words.index('--name') + 1]}.job"
        kill(file)
        file.write_text(json.dumps({**json.loads(file.read_text()), "status": "CANCELLED"}))
    else:
        sys.exit(f"Error: No such option {words}")


def launch(file: Path, secrets: list[str]) -> None:
    task = yaml.safe_load(file.read_text())
    made = STATE / f"{task['name']}.job"
    made.write_text(json.dumps({"name": task["name"], "status": "PENDING", "task": task, "secrets": secrets}))
    if not (STATE / "full").exists():
        start(made)


def start(file: Path) -> None:
    found = json.loads(file.read_text())
    code = file.with_suffix(".code")
    code.unlink(missing_ok=True)
    script = f"({found['task']['run']})\necho $? > {code}"
    variables = {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "127.0.0.1"}
    process = subprocess.Popen(
        ["bash", "-c", script],
        env={**os.environ, **variables},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    file.write_text(json.dumps({**found, "status": "RUNNING", "pid": process.pid}))


def kill(file: Path) -> None:
    pid = json.loads(file.read_text()).get("pid")
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def row(number: int, file: Path) -> dict[str, object]:
    found = json.loads(file.read_text())
    code = file.with_suffix(".code")
    if found["status"] == "RUNNING" and (STATE / "preempt").exists():
        (STATE / "preempt").unlink()
        kill(file)
        found["status"] = "RECOVERING"
        file.write_text(json.dumps(found))
    elif found["status"] == "RECOVERING":
        start(file)
        found["status"] = "RUNNING"
    elif found["status"] == "RUNNING" and code.exists() and code.read_text().strip():
        found["status"] = "SUCCEEDED" if code.read_text().strip() == "0" else "FAILED"
        file.write_text(json.dumps(found))
    details = "In backoff, waiting for resources" if found["status"] == "PENDING" else None
    known = {"job_id": number, "job_name": found["name"], "status": found["status"]}
    return {**known, "failure_reason": None, "details": details}


if __name__ == "__main__":
    main(sys.argv[1:])
