"""Losses that torch does not have, and the weights of classes."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.runtime.data.batches import Split
from leaven.runtime.failures import Failure

Criterion = Callable[[Tensor, Tensor], Tensor]


class FocalLoss(nn.Module):
    """Cross entropy that gives less weight to what is already right (Lin et al., 2017)."""

    alpha: Tensor | None

    def __init__(self, gamma: float = 2.0, alpha: Sequence[float] | None = None) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("alpha", None if alpha is None else torch.tensor(alpha))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        cross_entropy = F.cross_entropy(logits, targets, reduction="none")
        loss = (1 - torch.exp(-cross_entropy)) ** self.gamma * cross_entropy
        return loss.mean() if self.alpha is None else (self.alpha[targets] * loss).sum() / self.alpha[targets].sum()


def balanced_weights(split: Split) -> Tensor:
    """One weight per class, larger for rarer classes; the mean over the samples is 1."""
    counts = torch.tensor(split.class_counts(), dtype=torch.float32)
    if not counts.sum():
        raise Failure("the number of samples per class is not known before training", "write the weights as a list")
    present = counts.clamp(min=1)
    return torch.where(counts > 0, counts.sum() / (present * (counts > 0).sum()), 0.0)
