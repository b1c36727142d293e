"""The linear layer with the lowest loss on some features, for a strength of L2 regularisation.

Decides how it is found: with L-BFGS. Features are standardised and rotated to their principal axes. That leaves the
solution as it is and tells how much the loss bends along each axis, so that a step is as long as it should be: a
squared loss takes about ten steps, other losses some dozen, however much the features are alike. First, the change of
the outputs since the start is computed in 32 bits, in half the time; the last steps are in 64 bits, if any is left.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.runtime.seeding import generator

Loss = Callable[[Tensor, Tensor], Tensor]

_MOST_STEPS = 1000
_REMEMBERED = 30  # steps, from which L-BFGS learns how the loss bends
_ROUNDED = 1e-5  # how close to the solution 32 bits lead without steps that rounding misleads
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
        self._count = outputs
        self._has_bias = has_bias
        self._mean = inputs.mean(0) if has_bias else inputs.new_zeros(inputs.shape[1])  # what is taken away goes there
        inputs = inputs - self._mean
        deviation = inputs.square().mean(0).sqrt()
        self._scale = torch.where(deviation > _CONSTANT * deviation.max(), deviation, 1.0)
        inputs /= self._scale
        self._axes, self._variances = _principal_axes(inputs)
        self._inputs = inputs @ self._axes
        self._rounded = self._inputs.float()

    @property
    def zero(self) -> Solution:
        """That of infinitely strong regularisation, but for the bias."""
        weight = self._inputs.new_zeros(self._count, self._inputs.shape[1])
        return Solution(weight, weight.new_zeros(self._count))

    def solve(self, strength: float, start: Solution, tolerance: float) -> Solution:
        """The weights with the lowest loss + strength / 2 * their squared sum, found from those at the start.

        The sum is that of the weights for standardised features; the bias is not regularised.
        """
        outputs = self._outputs(start, self._inputs)
        lengths = (self._curvature(outputs) * self._variances + strength).rsqrt()
        steps = torch.zeros_like(start.weight, requires_grad=True)
        shift = torch.zeros_like(start.bias, requires_grad=self._has_bias)
        lbfgs = torch.optim.LBFGS(
            [steps, shift] if self._has_bias else [steps],
            max_iter=_MOST_STEPS,
            tolerance_change=0.0,
            history_size=_REMEMBERED,
            line_search_fn="strong_wolfe",
        )

        def objective(inputs: Tensor) -> Tensor:
            lbfgs.zero_grad()
            change = Solution(steps * lengths, shift)
            loss = self._loss(outputs + self._outputs(change, inputs), self._targets)
            found = loss + strength / 2 * (start.weight + change.weight).square().sum()
            found.backward()
            return found

        with torch.enable_grad():
            for inputs, close in ((self._rounded, max(tolerance, _ROUNDED)), (self._inputs, tolerance)):
                lbfgs.param_groups[0]["tolerance_grad"] = close
                lbfgs.step(partial(objective, inputs))
        found = Solution(start.weight + (steps * lengths).detach(), start.bias + shift.detach())
        if not bool(torch.isfinite(self.loss_of(found))):
            raise Failure("the loss of the head is NaN", "train it with an optimizer: remove `solver`")
        return found

    def objective(self, solution: Solution, strength: float) -> Tensor:
        """The loss with regularisation."""
        return self.loss_of(solution) + strength / 2 * solution.weight.square().sum()

    def loss_of(self, solution: Solution) -> Tensor:
        """The loss without regularisation."""
        return self._loss(self._outputs(solution, self._inputs), self._targets)

    def layer(self, solution: Solution) -> tuple[Tensor, Tensor]:
        """Weight and bias for the features as they are."""
        weight = solution.weight @ self._axes.T / self._scale
        return weight, solution.bias - weight @ self._mean

    @staticmethod
    def _outputs(solution: Solution, inputs: Tensor) -> Tensor:
        """A row per sample, in 64 bits."""
        columns = solution.weight.to(inputs.dtype) @ inputs.T  # in half the time of rows
        return columns.T.contiguous().double() + solution.bias

    def _curvature(self, outputs: Tensor) -> float:
        """How much the loss bends with an output, in the mean over outputs: estimated along a random direction."""
        with torch.enable_grad():
            outputs = outputs.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self._loss(outputs, self._targets), outputs, create_graph=True)
            if not slope.requires_grad:  # it does not bend anywhere
                return 0.0
            signs = torch.randint(2, outputs.shape, generator=generator(0)).double() * 2 - 1
            (change,) = torch.autograd.grad((slope * signs).sum(), outputs)
        return max(0.0, float((signs * change).sum()) / self._count)


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
