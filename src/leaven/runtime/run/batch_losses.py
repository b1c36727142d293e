"""The losses of the batches in an epoch."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class BatchLosses:
    """Running means, kept as sums and count so that they can be saved exactly; `waiting` are not read yet.

    `parts` are the losses by name that a loss is the sum of, where a model returns them. Each loss is weighted by the
    share of the batch that it is the mean of, so that sums and counts add up over processes.
    """

    def __init__(self, total: float = 0.0, count: float = 0, parts: Mapping[str, float] | None = None) -> None:
        self.total = total
        self.count = count
        self.parts = dict(parts or {})
        self.last: float | None = None
        self.waiting: list[Tensor] = []
        self._shares: list[float] = []  # of those that are waiting

    def add(self, loss: Tensor, parts: Mapping[str, Tensor], share: float = 1.0) -> None:
        """The loss of a batch, or of a share of it, which is not read yet."""
        for name in parts:
            self.parts.setdefault(name, 0.0)
        named = [parts[name].detach() for name in self.parts]
        self.waiting.append(torch.stack([loss.detach(), *named]) if named else loss.detach())
        self._shares.append(share)

    def read(self) -> list[float]:
        """Those that were waiting, as numbers."""
        if not self.waiting:
            return []
        # stacked only where that saves reading each: a row of a batch has its loss, and then the parts
        rows: list[Any] = [self.waiting[0].tolist()] if len(self.waiting) == 1 else torch.stack(self.waiting).tolist()
        shares, self._shares = self._shares, []
        self.waiting.clear()
        values: list[float] = [row[0] for row in rows] if self.parts else rows
        for at, name in enumerate(self.parts, 1):
            self.parts[name] += sum(row[at] * share for row, share in zip(rows, shares, strict=True))
        self.total += sum(value * share for value, share in zip(values, shares, strict=True))
        self.count += sum(shares)
        self.last = values[-1]
        return values
