"""The losses of the batches in an epoch; one that is not a number ends the run."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from leaven.formats.run_folder import LAST
from leaven.formats.sweep_folder import DIVERGED
from leaven.runtime.failures import Diverged
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.training_record import TrainingRecord, rounded

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_READ_EVERY = 20  # batches, where reading a loss waits for another device


class _Waiting(NamedTuple):
    """A loss that is not read yet, and what is told of the step that its batch completes."""

    number: int  # of the batch in its epoch
    loss: Tensor
    share: float
    step: int
    told: Mapping[str, Any] | None


class BatchLosses:
    """Running means, kept as sums and count so that they can be saved exactly; some losses are not read yet.

    `parts` are the losses by name that a loss is the sum of, where a model returns them. Each loss is weighted by the
    share of the batch that it is the mean of, so that sums and counts add up over the processes of `fabric`.
    """

    def __init__(self, phase: str, number: int, loop: Loop, record: TrainingRecord, fabric: "Fabric") -> None:
        self._phase = phase
        self._number = number
        self._loop = loop
        self._fabric = fabric
        self._record = record
        self.last: float | None = None
        self._waiting: list[_Waiting] = []
        self._steps: list[tuple[float, float]] = []  # the losses of the current step and their shares
        self.clear()

    def clear(self) -> None:
        """Begin an epoch; the last loss stays known."""
        self.total, self.count, self.parts = 0.0, 0.0, dict[str, float]()

    def add(self, loss: Tensor, parts: Mapping[str, Tensor], share: float = 1.0, **told: Any) -> None:
        """Add the loss of the current batch, or of a share of it; what is `told` of the step is recorded with it."""
        for name in parts:
            self.parts.setdefault(name, 0.0)
        named = [parts[name].detach() for name in self.parts]
        found = torch.stack([loss.detach(), *named]) if named else loss.detach()
        loop = self._loop
        self._waiting.append(_Waiting(loop.batch + 1, found, share, loop.step, told if loop.is_step else None))
        if loss.device.type == "cpu" or len(self._waiting) >= _READ_EVERY:
            self.read()

    def read(self) -> None:
        """Add up those that were waiting."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        losses, shares = [each.loss for each in waiting], [each.share for each in waiting]
        # stacked only where that saves reading each: a row of a batch has its loss, and then the parts
        rows: list[Any] = [losses[0].tolist()] if len(losses) == 1 else torch.stack(losses).tolist()
        values: list[float] = [row[0] for row in rows] if self.parts else rows
        for at, name in enumerate(self.parts, 1):
            self.parts[name] += sum(row[at] * share for row, share in zip(rows, shares, strict=True))
        self.total += sum(value * share for value, share in zip(values, shares, strict=True))
        self.count += sum(shares)
        self.last = values[-1]
        for each, value in zip(waiting, values, strict=True):
            self._record_step(each, value)
            if not math.isfinite(value):
                raise self._diverged(each.number, value)

    def _record_step(self, batch: "_Waiting", value: float) -> None:
        """Record the step that a batch completes, with the mean over its batches; of several processes, the first's."""
        self._steps.append((value * batch.share, batch.share))
        if batch.told is None and math.isfinite(value):
            return
        total, count = (sum(numbers) for numbers in zip(*self._steps, strict=True))
        self._steps.clear()
        told = {name: rounded(float(number)) for name, number in (batch.told or {}).items() if number is not None}
        where = {"epoch": self._loop.epoch + 1, "step": batch.step}
        if count:
            self._record.add("step", self._number, **where, loss=rounded(total / count), **told)

    def _diverged(self, number: int, value: float) -> Diverged:
        folder = self._record.folder
        where = f"; the last good weights are in {folder.named / LAST}" if folder.has(LAST) else ""
        headline = f'the loss is {value} at batch {number} of epoch {self._loop.epoch + 1} in phase "{self._phase}"'
        self._record.flush()
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
