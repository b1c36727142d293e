"""The tokenizer of a bundle, which a stranger wrote: it is first tried out in a subprocess, then loaded here.

Decides how the subprocess is started, and how its end is told. What it tries is decided in `tokenizer_trial.py`.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from leaven.bundle import tokenizer_trial
from leaven.runtime.failures import Failure

WALL_SECONDS = 120  # on a machine that is busy; of CPU time, it gets fewer
_OUT_OF_TIME = [getattr(signal, name, None) for name in ("SIGXCPU", "SIGKILL")]  # how the system ends it


def try_tokenizer(folder: Path, bundle: str) -> None:
    """A failure where the tokenizer in a folder takes too much memory or time, or can't be used."""
    if reason := _refused(folder):
        raise Failure(f"the tokenizer of {os.path.basename(bundle)} {reason}", "the bundle was not loaded")


def _refused(folder: Path) -> str:
    command = [sys.executable, "-P", str(tokenizer_trial.__file__), str(folder)]
    try:
        ended = subprocess.run(  # which ends the subprocess whatever happens here
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WALL_SECONDS, env=_environment()
        )
    except subprocess.TimeoutExpired:
        return _too_slow()
    except (OSError, ValueError) as problem:
        return f"can't be tried out: {problem}"
    said = ended.stdout.decode(errors="replace").strip()
    if said or ended.returncode == 0:
        return said
    if b"memory allocation of" in ended.stderr or b"MemoryError" in ended.stderr:
        return tokenizer_trial.too_large()
    if -ended.returncode in _OUT_OF_TIME:
        return _too_slow()
    return "can't be used: it ends the process that tries it"


def _too_slow() -> str:
    return f"takes more than {tokenizer_trial.SECONDS} seconds for a few sentences"


def _environment() -> dict[str, str]:
    """The subprocess finds the libraries where this process does. It downloads nothing, and has one thread."""
    path = os.pathsep.join(os.path.abspath(place) for place in sys.path if place and os.path.exists(place))
    alone = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    quiet = {"RUST_BACKTRACE": "0", "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    return {**os.environ, **alone, **quiet, "PYTHONPATH": path}
