"""The process in which a recipe is examined: it is forked where torch is loaded already."""

import os
import traceback
from pathlib import Path

from tests import at_work


def examine_in_child(seed: int, folder: Path, log: Path) -> None:
    """Examine the recipe of a seed; what is wrong goes to the log, and the exit code says whether it holds."""
    at_work.become_a_process(log)
    from tests.odd.examining import Differs, examine

    try:
        print(examine(seed, folder), flush=True)
    except Differs as differs:
        print(differs, flush=True)
        os._exit(1)
    except BaseException:  # the child ends here, whatever it was
        traceback.print_exc()
        os._exit(1)
