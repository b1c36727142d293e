"""Runs a program of `leaven.survey`, which may import torch, in a subprocess.

Decides how the subprocess is started and how its failure is described in a sentence.
"""

import os
import sys
from pathlib import Path

from leaven.language.record import Record

_SOURCES = Path(__file__).parent.parent.parent


class Finished(Record):
    """How a process ended. `reason` says why it failed; empty where it did not."""

    output: str = ""
    reason: str = ""


def run(module: str, *arguments: str, text: str = "", seconds: float) -> Finished:
    """Runs a module with a string as its input, for at most that long."""
    import subprocess

    if not sys.executable:
        return Finished(reason="sys.executable is not set, so no subprocess can be started")
    command = [sys.executable, "-P", "-m", module, *arguments]  # -P: a `random.py` in the current folder is not ours
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, encoding="utf-8", timeout=seconds, env=_environment(), check=False
        )
    except subprocess.TimeoutExpired:
        return Finished(reason=f"the subprocess took longer than {seconds:g} seconds")
    except (OSError, ValueError) as error:
        return Finished(reason=f"the subprocess could not be started: {error}")
    return Finished(done.stdout) if done.returncode == 0 else Finished(reason=_reason(done.returncode, done.stderr))


def search_path() -> list[str]:
    """Where the subprocess looks for modules before the installed ones."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _SOURCES.name not in ("site-packages", "dist-packages"):
        places.insert(0, str(_SOURCES))
    return [_absolute(place) for place in places if place]  # an empty one is the current folder


def _absolute(place: str) -> str:
    try:
        return os.path.abspath(place)
    except OSError:  # the current folder was removed
        return place


def _environment() -> dict[str, str]:
    """This process's environment, with Leaven on the path and without downloads."""
    path = os.pathsep.join(search_path())
    return {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": path}


def _reason(code: int, errors: str) -> str:
    if code < 0:
        return f"the subprocess was ended by signal {-code}"
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"the subprocess ended with code {code}"
