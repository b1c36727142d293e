"""Notices that another process of a run is gone which trains on several devices, and says so.

Without it, those that are left wait for each other, or fail with what their connections say, until Fabric, which has
started them, kills them all without a word. Where torchrun has started them, torchrun watches.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from leaven.formats.machine import signal_name
from leaven.runtime.failures import Failure
from leaven.terminal.commands import to_resume

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_FIRST = "LEAVEN_FIRST_RANK"  # the environment variable with the process that has started the others
_LOOK = 0.2  # seconds
_LEAVING = 30.0  # seconds that a process may take longer than the first one
_NOTICING = 1.0  # seconds until it is known that a process has ended whose connections are closed
_STOPS = (signal.SIGTERM, signal.SIGINT)


class RankWatch:
    """The processes that must live as long as this one; `folder` is that of the run, once it is known."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._fabric: Fabric | None = None
        self._parent = 0  # the process that has started this one, if it is another rank
        self._is_watching = False

    def begin(self, fabric: "Fabric", end: Callable[[Failure | None], object]) -> None:
        """Watch, from before the processes are started; `end` ends this one, for a failure or because all stop."""
        if fabric.world_size == 1:
            return
        self._fabric = fabric
        if not os.environ.get("LOCAL_RANK"):
            os.environ[_FIRST] = str(os.getpid())
        elif _FIRST in os.environ:
            self._parent = int(os.environ[_FIRST])
        else:
            return  # others have started it
        self._is_watching = True
        threading.Thread(target=self._watch, args=(end,), daemon=True, name="rank-watch").start()

    def _watch(self, end: Callable[[Failure | None], object]) -> None:
        while not self._killed() and not self._is_parent_gone():
            time.sleep(_LOOK)
        is_early = self._parent != 0 and self.folder is None
        time.sleep(_LEAVING if self._parent and not is_early else _LOOK)  # by now it may have said why it ends
        end(None if is_early else self.failure())

    def failure_of_another(self) -> Failure | None:
        """What to say in place of an error that this process has, if that is only because another is gone."""
        until = time.monotonic() + (_NOTICING if self._is_watching else 0.0)
        while (found := self.failure()) is None and time.monotonic() < until:
            time.sleep(0.02)
        return found

    def failure(self) -> Failure | None:
        """What to say if another process is gone; None if none is, or was only asked to stop."""
        found = [(rank, number) for rank, number in self._killed() if number not in _STOPS]
        if found:
            rank, number = found[0]
            headline = f"rank {rank} was ended by {signal_name(number)}"
        elif self._is_parent_gone():
            headline = "rank 0 has ended, or was killed"
        else:
            return None
        return Failure(headline, "" if self.folder is None else f"to resume: {to_resume(self.folder)}")

    def _is_parent_gone(self) -> bool:
        return self._parent != 0 and os.getppid() != self._parent

    def _killed(self) -> list[tuple[int, int]]:
        """The ranks that were ended by a signal, with its number."""
        launcher = getattr(self._fabric.strategy, "launcher", None) if self._fabric is not None else None
        codes = [process.poll() or 0 for process in getattr(launcher, "procs", ())]
        return [(rank, -code) for rank, code in enumerate(codes, 1) if code < 0]


RANKS = RankWatch()
