"""Losses that torch does not have, and the weights of classes."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.runtime.data.batches import Split
from leaven.runtime.failures import Failure


class FocalLoss(nn.Module):
    """Cross entropy that cares less about what is already right (Lin et al., 2017)."""

    alpha: Tensor | None

    def __init__(self, gamma: float = 2.0, alpha: Sequence[float] | None = None) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("alpha", None if alpha is None else torch.tensor(alpha))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        surprise = F.cross_entropy(logits, labels, reduction="none")
        loss = (1 - torch.exp(-surprise)) ** self.gamma * surprise
        return loss.mean() if self.alpha is None else (self.alpha[labels] * loss).sum() / self.alpha[labels].sum()


def balanced_weights(part: Split) -> Tensor:
    """One weight per class, the larger the rarer it is; items weigh 1 in the mean."""
    counts = torch.tensor(part.class_counts(), dtype=torch.float32)
    if not counts.sum():
        raise Failure("nobody knows how often each class comes before the data is read", "write the weights as a list")
    present = counts.clamp(min=1)
    return torch.where(counts > 0, counts.sum() / (present * (counts > 0).sum()), 0.0)
