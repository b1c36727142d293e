"""The loss grows with the way that reused weights have gone, and with the size of new ones."""

import pytest
import torch
from tests.unit.techniques.at_hand import net, random_batch

from leaven.techniques import L2Sp


def test_what_is_added_is_the_distance_to_the_start_and_the_size_of_what_is_new() -> None:
    module = net()
    images, labels = random_batch()
    l2_sp = L2Sp(module, new=["6"], alpha=0.2, beta=0.1)
    loss = torch.tensor(1.0)
    size = sum(float(weight.detach().square().sum()) for weight in module[6].parameters())
    assert l2_sp.on_loss(loss, images, images, labels).item() == pytest.approx(1 + 0.05 * size)
    with torch.no_grad():
        module[0].bias += 2.0  # four numbers, each gone by 2
    assert l2_sp.on_loss(loss, images, images, labels).item() == pytest.approx(1 + 0.05 * size + 0.1 * 16)


def test_the_pull_is_towards_the_start() -> None:
    module = net()
    images, labels = random_batch()
    l2_sp = L2Sp(module, new=["6"], alpha=0.2)
    with torch.no_grad():
        module[0].bias += 2.0
    l2_sp.on_loss(torch.tensor(0.0), images, images, labels).backward()
    assert torch.allclose(module[0].bias.grad, torch.full((4,), 0.4))
    assert not module[3].weight.grad.any()


def test_frozen_weights_add_nothing() -> None:
    module = net().requires_grad_(False)
    images, labels = random_batch()
    assert L2Sp(module, new=["6"]).on_loss(torch.tensor(1.0), images, images, labels) == 1.0
