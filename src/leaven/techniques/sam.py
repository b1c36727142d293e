"""Steps towards weights whose whole neighbourhood has a low loss."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Sam:
    """Has the gradient computed twice: where the weights are, and where within `rho` of them the loss is worst.

    The second one stays. The weights are put back, and so are the statistics, which count the first pass alone.
    """

    def __init__(self, optimizer: Optimizer, rho: float = 0.05, *, adaptive: bool = False) -> None:
        self.optimizer = optimizer
        self.rho = rho
        self.adaptive = adaptive

    def around_step(self, model: nn.Module) -> Iterator[None]:
        yield
        # weights are copied, since what was added to a float can't be taken away again to the last bit
        kept: list[tuple[Tensor, Tensor]] = [(weight, weight.detach().clone()) for weight in self._moving()]
        kept += [(buffer, buffer.clone()) for buffer in model.buffers()]
        self._climb()
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, before in kept:
                    tensor.copy_(before)

    def _moving(self) -> list[Tensor]:
        """The weights that have a gradient."""
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        return [weight for weight in weights if weight.grad is not None]

    @torch.no_grad()
    def _climb(self) -> None:
        """Go `rho` far up the slope, and forget the gradient that led there."""
        slopes = [(weight, self._scaled(weight.grad, weight)) for weight in self._moving() if weight.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(slope) for _, slope in slopes]))
        for weight, slope in slopes:
            weight.add_(self._scaled(slope, weight) * (self.rho / (norm + 1e-12)))
            weight.grad = None

    def _scaled(self, slope: Tensor, weight: Tensor) -> Tensor:
        return weight.abs() * slope if self.adaptive else slope
