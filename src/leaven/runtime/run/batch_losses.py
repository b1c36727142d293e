"""The losses of the batches in an epoch; one that is not a number ends the run."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leaven.formats.run_folder import LAST
from leaven.formats.sweep_folder import DIVERGED
from leaven.runtime.failures import Diverged
from leaven.runtime.run.folder import RunFolder
from leaven.runtime.run.loop import Loop

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_READ_EVERY = 20  # batches, where reading a loss waits for another device


class BatchLosses:
    """Running means, kept as sums and count so that they can be saved exactly; some losses are not read yet.

    `parts` are the losses by name that a loss is the sum of, where a model returns them. Each loss is weighted by the
    share of the batch that it is the mean of, so that sums and counts add up over the processes of `fabric`.
    """

    def __init__(self, phase: str, loop: Loop, folder: RunFolder, fabric: "Fabric") -> None:
        self._phase = phase
        self._loop = loop
        self._folder = folder
        self._fabric = fabric
        self.last: float | None = None
        self._waiting: list[tuple[int, Tensor, float]] = []  # the number of each batch, its loss and its share
        self.clear()

    def clear(self) -> None:
        """Begin an epoch; the last loss stays known."""
        self.total, self.count, self.parts = 0.0, 0.0, dict[str, float]()

    def add(self, loss: Tensor, parts: Mapping[str, Tensor], share: float = 1.0) -> None:
        """Add the loss of the current batch, or of a share of it."""
        for name in parts:
            self.parts.setdefault(name, 0.0)
        named = [parts[name].detach() for name in self.parts]
        found = torch.stack([loss.detach(), *named]) if named else loss.detach()
        self._waiting.append((self._loop.batch + 1, found, share))
        if loss.device.type == "cpu" or len(self._waiting) >= _READ_EVERY:
            self.read()

    def read(self) -> None:
        """Add up those that were waiting."""
        if not self._waiting:
            return
        numbers, losses, shares = zip(*self._waiting, strict=True)
        self._waiting.clear()
        # stacked only where that saves reading each: a row of a batch has its loss, and then the parts
        rows: list[Any] = [losses[0].tolist()] if len(losses) == 1 else torch.stack(losses).tolist()
        values: list[float] = [row[0] for row in rows] if self.parts else rows
        for at, name in enumerate(self.parts, 1):
            self.parts[name] += sum(row[at] * share for row, share in zip(rows, shares, strict=True))
        self.total += sum(value * share for value, share in zip(values, shares, strict=True))
        self.count += sum(shares)
        self.last = values[-1]
        for number, value in zip(numbers, values, strict=True):
            if not math.isfinite(value):
                raise self._diverged(number, value)

    def _diverged(self, number: int, value: float) -> Diverged:
        folder = self._folder
        where = f"; the last good weights are in {folder.named / LAST}" if folder.has(LAST) else ""
        headline = f'the loss is {value} at batch {number} of epoch {self._loop.epoch + 1} in phase "{self._phase}"'
        folder.note(**{DIVERGED: headline})  # of a sweep, the other trials go on
        return Diverged(headline, f"try a smaller learning rate{where}", about="optimizer")

    def means(self) -> tuple[float, dict[str, float]]:
        """The means over the batches of all processes: of the loss, and of those that it is the sum of."""
        total, count, parts = self.state()
        if not count:
            return math.nan, {}
        return total / count, {name: value / count for name, value in parts.items()}

    def state(self) -> tuple[float, float, dict[str, float]]:
        """The sum of the losses in all processes, their number, and the sums of their parts."""
        self.read()
        if self._fabric.world_size == 1:
            return self.total, self.count, self.parts
        sums = torch.tensor([self.total, self.count, *self.parts.values()], dtype=torch.float64)
        found = self._fabric.all_reduce(self._fabric.to_device(sums), reduce_op="sum")
        total, count, *parts = found.tolist()  # type: ignore[union-attr]
        return total, count, dict(zip(self.parts, parts, strict=True))

    def load_state(self, saved: Sequence[Any]) -> None:
        """Go on with what all processes had: in the first, as it is added up again."""
        total, count, parts = saved
        is_first = self._fabric.is_global_zero
        self.total, self.count = (total, count) if is_first else (0.0, 0.0)
        self.parts = dict(parts) if is_first else dict.fromkeys(parts, 0.0)
