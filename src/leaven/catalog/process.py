"""Runs a program of `leaven.survey`, which may import torch, in a subprocess.

Decides how the subprocess is started and how its failure is described in a sentence.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from leaven.language.record import Record

if TYPE_CHECKING:
    import subprocess

_SOURCES = Path(__file__).parent.parent.parent
_SOMETIMES = 0.1  # seconds


class ProcessResult(Record):
    """The output of a process, or the reason why it failed."""

    output: str = ""
    reason: str = ""


def run(
    module: str, *arguments: str, text: str = "", seconds: float, meanwhile: Callable[[], None] | None = None
) -> ProcessResult:
    """Runs a module with a string as its input, for at most that long; `meanwhile` is called every now and then."""
    import subprocess

    if not sys.executable:
        return ProcessResult(reason="sys.executable is not set, so no subprocess can be started")
    command = [sys.executable, "-P", "-m", module, *arguments]  # -P: a `random.py` in the current folder is not ours
    path = os.pathsep.join(search_path())
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": path}
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", env=environment
        ) as process:
            try:
                output, errors = _communicate(process, text, seconds, meanwhile)
            except BaseException:  # such as Ctrl-C
                process.kill()
                raise
    except subprocess.TimeoutExpired:
        return ProcessResult(reason=f"the subprocess took longer than {seconds:g} seconds")
    except (OSError, ValueError) as error:
        return ProcessResult(reason=f"the subprocess could not be started: {error}")
    if process.returncode < 0:
        return ProcessResult(reason=f"the subprocess was ended by signal {-process.returncode}")
    if process.returncode > 0:
        last = errors.strip().splitlines()[-1:] or [f"the subprocess ended with code {process.returncode}"]
        return ProcessResult(reason=last[0])
    return ProcessResult(output)


def _communicate(
    process: "subprocess.Popen[str]", text: str, seconds: float, meanwhile: Callable[[], None] | None
) -> tuple[str, str]:
    """The output of a process on stdout and stderr."""
    import subprocess

    deadline = time.monotonic() + seconds
    while meanwhile is not None and time.monotonic() + _SOMETIMES < deadline:
        try:
            return process.communicate(text, timeout=_SOMETIMES)
        except subprocess.TimeoutExpired:
            meanwhile()
    return process.communicate(text, timeout=max(0.0, deadline - time.monotonic()))


def search_path() -> list[str]:
    """Where the subprocess looks for modules before the installed ones."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _SOURCES.name not in ("site-packages", "dist-packages"):
        places.insert(0, str(_SOURCES))
    try:
        return [os.path.abspath(place) for place in places if place]  # an empty one is the current folder
    except OSError:  # the current folder was removed
        return [place for place in places if place]
