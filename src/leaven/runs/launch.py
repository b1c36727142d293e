"""Runs a program as `python program.py` would. Ctrl-C before the program handles it ends the process silently.

This file is run, not imported. It does not import Leaven, so that the program's own imports come first. Those take
seconds: in a terminal, a line says so until the program erases it.
"""

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
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    _say(f"{ERASE}importing PyTorch…")
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException:
        _say(ERASE)  # before a traceback
        raise
