"""Runs a program as `python program.py` would. Ctrl-C before the program handles it ends the process silently.

This file is run, not imported. It does not import Leaven, so that the program's own imports come first.
"""

import os
import runpy
import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
