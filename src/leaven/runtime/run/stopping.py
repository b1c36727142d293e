"""How a run is asked to stop: by Ctrl-C, or by a cluster's SIGTERM."""

import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leaven.terminal import status_line

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class StopSignal:
    """The first signal asks the run to save and stop, the second stops it at once. `fabric` connects processes."""

    def __init__(self, fabric: "Fabric | None" = None) -> None:
        self._fabric = fabric
        self.is_pressed_here = False
        if threading.current_thread() is threading.main_thread():  # signals can only be caught there
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._press)

    def _press(self, number: int, _frame: FrameType | None) -> None:
        if self.is_pressed_here:
            os._exit(128 + number)
        self.is_pressed_here = True
        if self._fabric is None or self._fabric.is_global_zero:
            start = status_line.ERASE.encode() if status_line.is_watched() else b"\n"
            again = b"; press Ctrl-C again to quit" if number == signal.SIGINT else b""
            os.write(2, start + b"stopping after this step" + again + b"\n")  # `print` could be running

    def is_pressed(self) -> bool:
        """Whether any process was asked to stop: they must agree, or one would wait for the others forever."""
        if self._fabric is None or self._fabric.world_size == 1:
            return self.is_pressed_here
        agreed = self._fabric.all_reduce(torch.tensor(float(self.is_pressed_here)), reduce_op="sum")
        return isinstance(agreed, Tensor) and bool(agreed.item() > 0)
