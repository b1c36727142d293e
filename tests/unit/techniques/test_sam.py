"""Two gradients: the second is taken uphill and stays, everything else is as if there had been one."""

import pytest
import torch
from tests.unit.techniques.at_hand import net, random_batch, state_of
from torch import nn
from torch.nn import functional as F

from leaven.techniques import Sam


def test_the_gradient_is_that_of_the_worst_place_nearby() -> None:
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    sam = Sam(torch.optim.SGD([weight], lr=0.1), rho=0.5)
    for _ in sam.around_step(nn.Identity()):
        (weight**2).sum().backward()
    # uphill along (6, 8) by 0.5 is (3.3, 4.4)
    assert weight.grad is not None
    assert torch.allclose(weight.grad, torch.tensor([6.6, 8.8]))
    assert torch.equal(weight.detach(), torch.tensor([3.0, 4.0]))


def test_the_adaptive_way_measures_by_the_size_of_each_weight() -> None:
    weight = nn.Parameter(torch.tensor([3.0, 0.0]))
    sam = Sam(torch.optim.SGD([weight], lr=0.1), rho=0.5, adaptive=True)
    for _ in sam.around_step(nn.Identity()):
        (weight**2 + weight).sum().backward()
    # |w| * g is (21, 0), so that only the first goes uphill: by 0.5 * 9 * 7 / 21
    assert weight.grad is not None
    assert torch.allclose(weight.grad, torch.tensor([2 * 4.5 + 1, 1.0]))


def test_weights_come_back_to_the_last_bit_and_statistics_count_one_pass() -> None:
    module, once = net(), net()
    images, labels = random_batch()
    once(images)
    before = state_of(module)
    sam = Sam(torch.optim.SGD(module.parameters(), lr=0.1), rho=0.3)
    passes = 0
    for _ in sam.around_step(module):
        passes += 1
        F.cross_entropy(module(images), labels).backward()
    after = state_of(module)
    assert passes == 2
    for name, _ in module.named_parameters():
        assert torch.equal(before[name], after[name])
    for name, buffer in once.named_buffers():
        assert torch.equal(buffer, after[name])


def test_frozen_weights_are_left_alone() -> None:
    module = net()
    module[0].requires_grad_(False)
    images, labels = random_batch()
    sam = Sam(torch.optim.SGD(module.parameters(), lr=0.1))
    for _ in sam.around_step(module):
        F.cross_entropy(module(images), labels).backward()
    assert module[0].weight.grad is None


def test_weights_come_back_when_a_pass_fails() -> None:
    weight = nn.Parameter(torch.tensor([3.0]))
    sam = Sam(torch.optim.SGD([weight], lr=0.1), rho=0.5)
    passes = sam.around_step(nn.Identity())
    next(passes)
    (weight**2).sum().backward()
    next(passes)
    assert weight.item() == pytest.approx(3.5)
    passes.close()
    assert weight.item() == 3.0
