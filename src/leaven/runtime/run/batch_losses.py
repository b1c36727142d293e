"""The losses of the batches in an epoch."""

import torch
from torch import Tensor


class BatchLosses:
    """A running mean, kept as sum and count so that it can be saved exactly; `waiting` are not read yet."""

    def __init__(self, total: float = 0.0, count: int = 0) -> None:
        self.total = total
        self.count = count
        self.last: float | None = None
        self.waiting: list[Tensor] = []

    def read(self) -> list[float]:
        """Those that were waiting, as numbers."""
        if not self.waiting:
            return []
        values: list[float] = torch.stack(self.waiting).tolist() if len(self.waiting) > 1 else [self.waiting[0].item()]
        self.waiting.clear()
        self.total += sum(values)
        self.count += len(values)
        self.last = values[-1]
        return values
