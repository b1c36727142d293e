"""Runs a program as `python program.py` would. Ctrl-C before the program handles it ends the process silently.

This file is run, not imported. The program's imports take seconds: in a terminal, a line says so until the program
erases it. What it does not use of the libraries is not imported (`lean_imports.py`).
"""

import gc
import os
import runpy
import signal
import sys

ERASE = "\r\x1b[K"


def _say(text: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(text)
        sys.stderr.flush()


def _stop(*_: object) -> None:
    _say(ERASE)
    os._exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _stop)
    # before torch loads OpenMP: threads that spin while they wait take the CPU from others, also from their own
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    del sys.argv[0]
    file = os.path.abspath(sys.argv[0])  # user code may change the working directory
    sys.path[0] = os.path.dirname(file)
    _say(f"{ERASE}importing PyTorch…")
    from leaven.runs import lean_imports, packed  # found as the program finds Leaven

    packed.refuse_other_version()
    lean_imports.install()
    gc.set_threshold(100_000)  # imports leave next to no garbage; `guard` sets it back
    try:
        runpy.run_path(file, run_name="__main__")
    except BaseException:
        _say(ERASE)  # before a traceback
        raise
