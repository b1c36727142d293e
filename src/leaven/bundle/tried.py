"""Bundles of strangers are first used in a subprocess with limits of memory and time, then here.

Decides how the subprocess is started, how its end is told, and which bundles were tried before. What is tried is
decided in `tokenizer_trial.py` and `trial.py`.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leaven.bundle import tokenizer_trial
from leaven.bundle.archive import CHECKSUMS
from leaven.bundle.manifest import versions
from leaven.bundle.tokenizer_trial import Limits
from leaven.cache import location
from leaven.formats.out_of_memory import says_out_of_memory
from leaven.runtime.failures import Failure
from leaven.terminal import status_line
from leaven.terminal.visible import visible

_BUSY = 6  # seconds that may pass on a busy machine for one of CPU time
_KEPT = 1000
_OUT_OF_TIME = [getattr(signal, name, None) for name in ("SIGXCPU", "SIGKILL")]  # how the system ends it
NOT_LOADED = "the bundle was not loaded"


def try_tokenizer(folder: Path, bundle: str) -> None:
    """A failure where the tokenizer in a folder takes too much memory or time, or can't be used."""
    limits = tokenizer_trial.LIMITS
    output, ended = run_limited([str(tokenizer_trial.__file__), str(folder)], limits, "to split a few sentences")
    if reason := output or ended:
        raise Failure(f"the tokenizer of {os.path.basename(bundle)} {reason}", NOT_LOADED)


def try_bundle(path: Path, limits: Limits) -> None:
    """A failure where building the model in a bundle and running it takes too much memory or time, or goes wrong."""
    with status_line.doing(f"trying {path.name}…"):
        words = ["-m", "leaven.bundle.trial", str(path), *map(str, limits)]
        output, ended = run_limited(words, limits, "to be built and to compute a few outputs")
    if output:
        headline, help = json.loads(output.splitlines()[-1])  # a library may print, too
        raise Failure(str(headline), str(help))
    if ended:
        raise Failure(f"the model in {path} {ended}", NOT_LOADED)


def run_limited(words: Sequence[str], limits: Limits, to_do: str) -> tuple[str, str]:
    """The output of a program, and how it ended, as a clause, if not well."""
    command = [sys.executable, "-P", *words]
    too_slow = f"takes more than {limits.seconds} seconds {to_do}"
    # it finds the libraries where this process does, downloads nothing, and has one thread
    path = os.pathsep.join(os.path.abspath(place) for place in sys.path if place and os.path.exists(place))
    alone = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    quiet = {"RUST_BACKTRACE": "0", "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    env = {**os.environ, **alone, **quiet, "PYTHONPATH": path}
    try:
        ended = subprocess.run(  # which ends the subprocess whatever happens here
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_BUSY * limits.seconds, env=env
        )
    except subprocess.TimeoutExpired:
        return "", too_slow
    except (OSError, ValueError) as problem:
        return "", f"can't be tried out: {problem}"
    if ended.returncode == 0:
        return ended.stdout.decode(errors="replace").strip(), ""
    if says_out_of_memory(ended.stderr.decode(errors="replace")):
        return "", limits.too_large()
    if -ended.returncode in _OUT_OF_TIME:
        return "", too_slow
    last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return "", f"can't be used: it ends the process that tries it{f' ({visible(last)[:200]})' if last else ''}"


# -- what was tried before


def key_of(members: Mapping[str, bytes]) -> str:
    """The key by which a bundle is remembered: a hash of all of its members, and the libraries that load them."""
    loaded_by = json.dumps(versions(), sort_keys=True).encode()
    return hashlib.sha256(members[CHECKSUMS] + loaded_by).hexdigest()


def is_known(key: str) -> bool:
    """Whether a bundle was saved here, or tried before and ended well."""
    return any((folder / "tried" / key).is_file() for folder in location.folders())


def remember(key: str) -> None:
    """Remember that a bundle may be loaded; where nothing is writable, it will be tried again."""
    for folder in (location.user_folder, location.temporary_folder):
        with suppress(OSError):
            place = folder() / "tried"
            place.mkdir(parents=True, exist_ok=True)
            (place / key).touch()
            return location.keep_newest(place, "*", _KEPT)
