"""Gradients without their mean."""

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class GradientCentralization:
    """Takes from the gradient of every output of a linear or convolutional layer its mean over the inputs."""

    @torch.no_grad()
    def on_gradients(self, model: nn.Module) -> None:
        for inner in model.modules():
            if not isinstance(inner, _WEIGHTED):
                continue
            # of a weight that is masked, or otherwise made of another, the optimizer moves that other
            weight = inner.get_parameter(
                "parametrizations.weight.original" if is_parametrized(inner, "weight") else "weight"
            )
            if weight.grad is not None:
                weight.grad -= weight.grad.mean(dim=tuple(range(1, weight.dim())), keepdim=True)
