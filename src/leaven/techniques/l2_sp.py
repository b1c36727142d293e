"""A pull back to the weights that a phase began with."""

from collections.abc import Sequence

from torch import Tensor, nn

from leaven.runtime.model.freezing import parameters_under


class L2Sp:
    """Adds to the loss how far the reused weights have gone, and how large the new ones are."""

    def __init__(self, model: nn.Module, alpha: float = 0.1, beta: float = 0.01, *, new: Sequence[str]) -> None:
        fresh = parameters_under(model, new)
        self.new = [weight for weight in model.parameters() if weight in fresh]
        reused = [weight for weight in model.parameters() if weight not in fresh]
        self.reused = [(weight, weight.detach().clone()) for weight in reused]
        self.alpha = alpha
        self.beta = beta

    def on_loss(self, loss: Tensor, images: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
        for weight, start in self.reused:
            if weight.requires_grad:
                loss = loss + self.alpha / 2 * (weight - start).square().sum()
        for weight in self.new:
            if weight.requires_grad:
                loss = loss + self.beta / 2 * weight.square().sum()
        return loss
