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


class DiceLoss(nn.Module):
    """One minus the overlap of predicted and actual areas (Milletari et al., 2016), and the cross-entropy of pixels.

    Pixels below 0 have no class, and are ignored; classes that are not in the batch don't count.
    """

    def __init__(self, cross_entropy: float = 1.0) -> None:
        super().__init__()
        self.cross_entropy = cross_entropy

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        is_known = targets >= 0
        actual = F.one_hot(targets.clamp(min=0), logits.shape[1]).movedim(-1, 1) * is_known[:, None]
        predicted = logits.float().softmax(dim=1) * is_known[:, None]
        over = [0, *range(2, logits.ndim)]
        overlap, areas = (predicted * actual).sum(over), predicted.sum(over) + actual.sum(over)
        is_there = actual.sum(over) > 0
        loss = ((1 - (2 * overlap + 1) / (areas + 1)) * is_there).sum() / is_there.sum().clamp(min=1)
        if self.cross_entropy:
            loss = loss + self.cross_entropy * F.cross_entropy(logits, targets)
        return loss


def balanced_weights(split: Split) -> Tensor:
    """One weight per class, larger for rarer classes; the mean over the samples is 1."""
    counts = torch.tensor(split.class_counts(), dtype=torch.float32)
    if not counts.sum():
        raise Failure("the number of samples per class is not known before training", "write the weights as a list")
    present = counts.clamp(min=1)
    return torch.where(counts > 0, counts.sum() / (present * (counts > 0).sum()), 0.0)
