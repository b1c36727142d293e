"""The solution is that of scikit-learn, on the same features."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.runtime.solving.linear import LinearProblem, Solution

STRENGTHS = (1.0, 0.1, 0.01)


def features(samples: int = 200, count: int = 30, rank: int = 8) -> Tensor:
    """Features that are much alike, on scales of their own, as those of a model are; one of them is constant."""
    rng = torch.Generator().manual_seed(0)
    made = torch.randn(samples, rank, generator=rng) @ torch.randn(rank, count, generator=rng)
    made = made + 0.1 * torch.randn(samples, count, generator=rng)
    made = (made * torch.logspace(-1, 2, count) + torch.randn(count, generator=rng)).relu()
    made[:, 0] = 3.0
    return made


def classes(given: Tensor, count: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    standard = (given - given.mean(0)) / given.std(0).clamp(min=1e-6)
    return (standard @ torch.randn(given.shape[1], count, generator=rng)).argmax(1)


def solve(problem: LinearProblem, strengths: tuple[float, ...] = STRENGTHS) -> tuple[Tensor, Tensor]:
    """Weight and bias of the last strength, found along the path of all."""
    found: Solution = problem.zero
    for strength in strengths:
        found = problem.solve(strength, found, 1e-6)
    return problem.layer(found)


def standardised(given: Tensor) -> np.ndarray:
    values = given.double().numpy()
    deviation = values.std(0)
    return np.asarray((values - values.mean(0)) / np.where(deviation > 1e-9, deviation, 1))


@pytest.mark.parametrize(("samples", "count"), [(200, 30), (40, 90)], ids=["many samples", "many features"])
def test_classes_are_those_of_multinomial_logistic_regression(samples: int, count: int) -> None:
    given = features(samples, count)
    targets = classes(given, 4)
    weight, bias = solve(LinearProblem(given, targets, nn.CrossEntropyLoss(), 4))
    theirs = LogisticRegression(C=1 / (STRENGTHS[-1] * samples), tol=1e-10, max_iter=10_000)
    theirs.fit(standardised(given), targets.numpy())
    ours = F.linear(given.double(), weight, bias).softmax(1).numpy()
    np.testing.assert_allclose(ours, theirs.predict_proba(standardised(given)), atol=1e-4)
    deviation = given.double().std(0, correction=0)
    np.testing.assert_allclose((weight * deviation).numpy(), theirs.coef_, atol=1e-3)


def test_labels_are_those_of_a_logistic_regression_each() -> None:
    given = features()
    targets = torch.stack([classes(given, 2), classes(given.flip(1), 2)], dim=1).float()
    weight, bias = solve(LinearProblem(given, targets, nn.BCEWithLogitsLoss(), 2))
    for label in range(2):
        theirs = LogisticRegression(C=1 / (STRENGTHS[-1] * 2 * len(given)), tol=1e-10, max_iter=10_000)
        theirs.fit(standardised(given), targets[:, label].numpy())
        ours = F.linear(given.double(), weight, bias)[:, label].sigmoid().numpy()
        np.testing.assert_allclose(ours, theirs.predict_proba(standardised(given))[:, 1], atol=1e-4)


@pytest.mark.parametrize(("samples", "count"), [(200, 30), (40, 90)], ids=["many samples", "many features"])
def test_numbers_are_those_of_ridge_regression(samples: int, count: int) -> None:
    given = features(samples, count)
    targets = torch.stack([given[:, 3] * 2 - given[:, 5], given.mean(1)], dim=1)
    targets = (targets - targets.mean(0)) / targets.std(0) + 7  # which the bias has to find
    weight, bias = solve(LinearProblem(given, targets, nn.MSELoss(), 2))
    theirs = Ridge(alpha=STRENGTHS[-1] * samples).fit(standardised(given), targets.numpy())
    ours = F.linear(given.double(), weight, bias).numpy()
    np.testing.assert_allclose(ours, theirs.predict(standardised(given)), atol=1e-4)


def test_any_other_loss_gets_as_low_as_it_can() -> None:
    given = features()
    targets = classes(given, 3)
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.2]), label_smoothing=0.1)
    weight, bias = solve(LinearProblem(given, targets, loss, 3))
    scale = given.double().std(0, correction=0).clamp(min=1e-9)
    weight, bias = weight.requires_grad_(), bias.requires_grad_()
    penalty = STRENGTHS[-1] / 2 * (weight * scale).square().sum()
    (loss.double()(F.linear(given.double(), weight, bias), targets) + penalty).backward()
    assert weight.grad is not None
    assert bias.grad is not None
    assert float((weight.grad / scale)[:, 1:].abs().max()) < 1e-5  # the first feature is constant
    assert float(bias.grad.abs().max()) < 1e-5


def test_a_layer_without_bias_gets_none() -> None:
    given = features()
    targets = classes(given, 3)
    problem = LinearProblem(given, targets, nn.CrossEntropyLoss(), 3, has_bias=False)
    weight, bias = solve(problem)
    assert not bias.any()
    assert float((F.linear(given.double(), weight).argmax(1) == targets).double().mean()) > 0.8


def test_less_regularisation_fits_better() -> None:
    given = features()
    problem = LinearProblem(given, classes(given, 3), nn.CrossEntropyLoss(), 3)
    strong = problem.solve(1.0, problem.zero, 1e-6)
    weak = problem.solve(0.01, strong, 1e-6)
    assert problem.loss_of(weak) < problem.loss_of(strong)
    again = problem.solve(0.01, problem.zero, 1e-6)
    torch.testing.assert_close(problem.layer(again), problem.layer(weak), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("far", [1.0, 1e3], ids=["near", "far away"])
def test_a_head_is_solved_in_64_bits_from_wherever_it_starts(far: float) -> None:
    """Far from the start, what is computed in 32 bits is too coarse for the last steps."""
    given = features(count=60, rank=40)
    targets = classes(given, 4)
    problem = LinearProblem(given, targets, nn.CrossEntropyLoss(), 4)
    start = Solution(torch.full_like(problem.zero.weight, far), problem.zero.bias)
    found = problem.solve(0.01, start, 1e-7)
    leaves = Solution(found.weight.clone().requires_grad_(), found.bias.clone().requires_grad_())
    problem.objective(leaves, 0.01).backward()
    assert leaves.weight.grad is not None
    assert leaves.bias.grad is not None
    assert float(leaves.weight.grad.abs().max()) < 1e-6
    assert float(leaves.bias.grad.abs().max()) < 1e-6


def test_a_loss_gets_outputs_that_it_can_view_as_a_row() -> None:
    given = features()
    targets = torch.stack([classes(given, 2), classes(given.flip(1), 2)], dim=1).float()

    def flat(outputs: Tensor, expected: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs.view(-1), expected.view(-1))

    ours = solve(LinearProblem(given, targets, flat, 2))
    torch.testing.assert_close(ours, solve(LinearProblem(given, targets, nn.BCEWithLogitsLoss(), 2)))
