"""Runs a program as `python program.py` would. Until the program minds Ctrl-C itself, that ends it without a word.

A file to be run, not imported: it knows nothing of Leaven, so that the program's own imports come first.
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
