"""The linear layer with the lowest loss on some features, for a strength of L2 regularisation.

Decides how it is found: with L-BFGS, in 64 bits. Features are standardised and rotated to their principal axes. That
leaves the solution as it is and tells how much the loss bends along each axis, so that a step is as long as it should
be: a squared loss takes about ten steps, other losses some dozen, however much the features are alike.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.runtime.seeding import generator

Loss = Callable[[Tensor, Tensor], Tensor]

_MOST_STEPS = 1000
_REMEMBERED = 30  # steps, from which L-BFGS learns how the loss bends
_CONSTANT = 1e-12  # of the largest deviation: a feature that varies less is constant


@dataclass(frozen=True, eq=False)
class Solution:
    """The weights of a layer for standardised features, along their principal axes."""

    weight: Tensor
    bias: Tensor

    def continued(self, before: "Solution", part: float) -> "Solution":
        """Where the way from another solution to this one leads, so many times further."""
        return Solution(torch.lerp(before.weight, self.weight, 1 + part), torch.lerp(before.bias, self.bias, 1 + part))


class LinearProblem:
    """Features and targets, a row per sample, and the loss of a linear layer's outputs: a mean over the samples."""

    def __init__(self, features: Tensor, targets: Tensor, loss: Loss, outputs: int, *, has_bias: bool = True) -> None:
        inputs = features.double()
        self._targets = targets.double() if targets.is_floating_point() else targets
        self._loss: Loss = deepcopy(loss).cpu().double() if isinstance(loss, nn.Module) else loss
        self._outputs = outputs
        self._has_bias = has_bias
        self._mean = inputs.mean(0) if has_bias else inputs.new_zeros(inputs.shape[1])  # what is taken away goes there
        inputs = inputs - self._mean
        deviation = inputs.square().mean(0).sqrt()
        self._scale = torch.where(deviation > _CONSTANT * deviation.max(), deviation, 1.0)
        inputs /= self._scale
        self._axes, self._variances = _principal_axes(inputs)
        self._inputs = inputs @ self._axes

    @property
    def zero(self) -> Solution:
        """That of infinitely strong regularisation, but for the bias."""
        weight = self._inputs.new_zeros(self._outputs, self._inputs.shape[1])
        return Solution(weight, weight.new_zeros(self._outputs))

    def solve(self, strength: float, start: Solution, tolerance: float) -> Solution:
        """The weights with the lowest loss + strength / 2 * their squared sum, found from those at the start.

        The sum is that of the weights for standardised features; the bias is not regularised.
        """
        lengths = (self._curvature(start) * self._variances + strength).rsqrt()
        steps = (start.weight / lengths).requires_grad_()
        bias = start.bias.clone().requires_grad_(self._has_bias)
        lbfgs = torch.optim.LBFGS(
            [steps, bias] if self._has_bias else [steps],
            max_iter=_MOST_STEPS,
            tolerance_grad=tolerance,
            tolerance_change=0.0,
            history_size=_REMEMBERED,
            line_search_fn="strong_wolfe",
        )

        def objective() -> Tensor:
            lbfgs.zero_grad()
            weight = steps * lengths
            found = self.objective(Solution(weight, bias), strength)
            found.backward()
            return found

        with torch.enable_grad():
            lbfgs.step(objective)
        found = Solution((steps * lengths).detach(), bias.detach())
        if not bool(torch.isfinite(self.loss_of(found))):
            raise Failure("the loss of the head is not a number", "train it with an optimizer: remove `solver`")
        return found

    def objective(self, solution: Solution, strength: float) -> Tensor:
        """The loss with regularisation."""
        return self.loss_of(solution) + strength / 2 * solution.weight.square().sum()

    def loss_of(self, solution: Solution) -> Tensor:
        """The loss without regularisation."""
        return self._loss(self._inputs @ solution.weight.T + solution.bias, self._targets)

    def layer(self, solution: Solution) -> tuple[Tensor, Tensor]:
        """Weight and bias for the features as they are."""
        weight = solution.weight @ self._axes.T / self._scale
        return weight, solution.bias - weight @ self._mean

    def _curvature(self, at: Solution) -> float:
        """How much the loss bends with an output, in the mean over outputs: estimated along a random direction."""
        with torch.enable_grad():
            outputs = (self._inputs @ at.weight.T + at.bias).requires_grad_()
            (slope,) = torch.autograd.grad(self._loss(outputs, self._targets), outputs, create_graph=True)
            if not slope.requires_grad:  # it does not bend anywhere
                return 0.0
            signs = torch.randint(2, outputs.shape, generator=generator(0)).double() * 2 - 1
            (change,) = torch.autograd.grad((slope * signs).sum(), outputs)
        return max(0.0, float((signs * change).sum()) / self._outputs)


def _principal_axes(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal axes as columns, and the variance of the inputs along each; of fewer samples than features, no more
    axes than samples: along all others nothing varies, and weights are zero."""
    count, features = inputs.shape
    if count < features:
        basis = torch.linalg.qr(inputs.T).Q
        axes, variances = _principal_axes(inputs @ basis)
        return basis @ axes, variances
    variances, axes = torch.linalg.eigh(inputs.T @ inputs / count)
    return axes, variances.clamp(min=0)
