"""The gradients of layers lose their mean, and nothing else loses anything."""

import torch
from tests.unit.techniques.at_hand import net, random_batch, state_of
from torch.nn import functional as F

from leaven.techniques import GradientCentralization


def test_weights_of_layers_lose_the_mean_over_their_inputs() -> None:
    module = net()
    images, labels = random_batch()
    F.cross_entropy(module(images), labels).backward()
    weights = state_of(module)
    before = {name: weight.grad.clone() for name, weight in module.named_parameters() if weight.grad is not None}
    GradientCentralization().on_gradients(module)
    for name, weight in module.named_parameters():
        assert weight.grad is not None
        if weight.dim() > 1:
            assert torch.allclose(weight.grad.flatten(1).mean(1), torch.zeros(len(weight)), atol=1e-7)
            shift = (before[name] - weight.grad).flatten(1)
            assert torch.allclose(shift, shift[:, :1].expand_as(shift), atol=1e-7)
        else:
            assert torch.equal(weight.grad, before[name]), "norms and biases are left alone"
        assert torch.equal(weight.detach(), weights[name])


def test_what_is_frozen_has_no_gradient_to_change() -> None:
    module = net()
    module[0].requires_grad_(False)
    images, labels = random_batch()
    F.cross_entropy(module(images), labels).backward()
    GradientCentralization().on_gradients(module)
    assert module[0].weight.grad is None
