"""Layers of two models side by side, and how far their weights are apart."""

import numpy as np
import pytest
import torch
from torch import nn

from leaven.lab.comparison.layers import aligned_layers, layers_of


def net(width: int, classes: int, *, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.Linear(width, classes))


def test_layers_are_aligned_by_name_and_their_shapes_compared() -> None:
    pairs = aligned_layers(layers_of(net(4, 2), {}), layers_of(net(4, 5), {}))
    assert [(one.name, one.is_same) for one in pairs] == [("0", True), ("1", True), ("3", False)]
    assert pairs[2].distance is None


def test_layers_of_other_names_are_aligned_by_type_and_shape() -> None:
    named = nn.ModuleDict({"stem": nn.Conv2d(3, 4, 3), "more": nn.Linear(7, 7), "head": nn.Linear(4, 2)})
    pairs = aligned_layers(layers_of(net(4, 2), {}), layers_of(named, {}))
    assert [one.name for one in pairs] == ["0 / stem", "1", "3 / head", "more"]
    assert [one.is_same for one in pairs] == [True, False, True, False]
    assert pairs[0].distance is None  # weights of other layers have nothing in common


def test_the_weights_are_compared_as_numpy_does() -> None:
    first, second = net(4, 2), net(4, 2, seed=1)
    (conv, norm, _) = aligned_layers(layers_of(first, {}), layers_of(second, {}))
    a, b = (
        np.concatenate([w.detach().double().numpy().ravel() for w in one[0].parameters()]) for one in (first, second)
    )
    assert conv.distance == pytest.approx(np.linalg.norm(b - a) / np.linalg.norm(a))
    assert conv.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert (norm.distance, norm.cosine) == (0.0, pytest.approx(1.0))
