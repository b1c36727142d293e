"""Every component builds, gives the shape that its card promises, and takes the parameters that its card names."""

import importlib
import inspect
from math import ceil
from typing import Any

import pytest
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock

from leaven.catalog import own
from leaven.catalog.card import Card

NAMES = own.names("component")
Shape = tuple[int, ...]  # (channels, height, width) of an image, (channels,) of a vector

IMAGES: list[Shape] = [(3, 32, 32), (16, 7, 12), (1, 5, 5), (8, 1, 1)]
VECTORS: list[Shape] = [(10,), (1,), (64,)]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "conv": [
        {"channels": 4},
        {"channels": 1, "kernel": 1},
        {"channels": 6, "stride": 2},
        {"channels": 6, "kernel": 5, "stride": 3, "norm": False},
        {"channels": 4, "kernel": 4, "stride": 2, "activation": None},
        {"channels": 4, "kernel": 2, "activation": "gelu"},
        {"channels": 4, "activation": "silu"},
    ],
    "res_block": [{"channels": 3}, {"channels": 16}, {"channels": 8, "stride": 2}, {"channels": 1, "stride": 3}],
    "squeeze_excite": [{}, {"reduction": 1}, {"reduction": 4}],
    "linear": [{"features": 1}, {"features": 10}],
    "max_pool": [{}, {"size": 3}, {"size": 1}],
    "avg_pool": [{}, {"size": 3}, {"size": 1}],
    "dropout": [{}, {"probability": 0.0}, {"probability": 1.0}],
}


def card_of(name: str) -> Card:
    card = own.read("component", name)
    assert card is not None
    return card


def class_of(card: Card) -> type[nn.Module]:
    module, _, name = card.target.rpartition(".")
    found: type[nn.Module] = getattr(importlib.import_module(module), name)
    return found


def promised(card: Card, shape: Shape, settings: dict[str, Any]) -> Shape:
    """The shape that comes out, by the rule in the card."""
    chosen = {parameter.name: parameter.default for parameter in card.parameters} | settings
    channels, *size = shape
    if card.component.flattens:
        return (torch.Size(shape).numel(),)
    if card.component.out_channels:
        channels = chosen[card.component.out_channels]
    stride = chosen[card.component.downsamples_by] if card.component.downsamples_by else 1
    size = [ceil(side / stride) for side in size]
    return (channels,) if card.component.output_form == "vector" else (channels, *size)


def cases() -> list[Any]:
    found = []
    for name in NAMES:
        takes = card_of(name).component.input_form
        shapes = {"image": IMAGES, "vector": VECTORS, "any": [*IMAGES, *VECTORS]}[takes]
        for settings in SETTINGS.get(name, [{}]):
            for shape in shapes:
                given = ",".join(f"{key}={value}" for key, value in settings.items())
                found.append(pytest.param(name, settings, shape, id=f"{name}({given})-{shape}"))
    return found


@pytest.mark.parametrize(("name", "settings", "shape"), cases())
def test_the_real_shape_is_the_one_the_card_promises(name: str, settings: dict[str, Any], shape: Shape) -> None:
    card = card_of(name)
    channels = {"in_channels": shape[0]} if card.component.takes_in_channels else {}
    component = class_of(card)(**channels, **settings).eval()
    output = component(torch.randn(2, *shape))
    expected = promised(card, shape, settings)
    assert output.shape == (2, *expected)
    if card.component.out_channels:
        assert component.out_channels == expected[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_class_is_named_after_its_card_and_takes_its_parameters(name: str) -> None:
    card = card_of(name)
    assert card.target == f"leaven.components.{name}.{name.title().replace('_', '')}"
    signature = list(inspect.signature(class_of(card)).parameters.values())
    if card.component.takes_in_channels:
        assert signature.pop(0).name == "in_channels"
    written = [(each.name, None if each.required else each.default, each.required) for each in card.parameters]
    empty = inspect.Parameter.empty
    real = [(each.name, None if each.default is empty else each.default, each.default is empty) for each in signature]
    assert written == real


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_the_input_and_every_weight(name: str) -> None:
    card = card_of(name)
    shape = (6, 8, 8) if card.component.input_form in ("image", "any") else (6,)
    channels = {"in_channels": 6} if card.component.takes_in_channels else {}
    component = class_of(card)(**channels, **SETTINGS.get(name, [{}])[0])
    values = torch.randn(4, *shape, requires_grad=True)
    component(values).square().sum().backward()
    assert all(weight.grad is not None for weight in (values, *component.parameters()))


def test_an_even_window_sees_each_pixel() -> None:
    """A picture of one bright pixel in a corner leaves a trace, whichever corner it is."""
    conv = class_of(card_of("conv"))(1, 1, kernel=2, stride=2, norm=False, activation=None)
    for row, column in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        images = torch.zeros(1, 1, 5, 5)
        images[0, 0, row, column] = 1
        assert not torch.equal(conv(images), conv(torch.zeros(1, 1, 5, 5)))


def test_a_residual_block_that_adds_nothing_lets_the_picture_pass() -> None:
    block = class_of(card_of("res_block"))(4, 4).eval()
    nn.init.zeros_(block.get_parameter("conv2.weight"))
    images = torch.rand(2, 4, 6, 6)
    assert torch.equal(block(images), images)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_residual_block_is_the_basic_block_of_a_resnet(stride: int) -> None:
    projection = nn.Sequential(nn.Conv2d(4, 8, 1, stride=stride, bias=False), nn.BatchNorm2d(8))
    theirs = BasicBlock(4, 8, stride=stride, downsample=projection)
    ours = class_of(card_of("res_block"))(4, 8, stride=stride)
    ours.load_state_dict(dict(zip(ours.state_dict(), theirs.state_dict().values(), strict=True)))
    images = torch.randn(2, 4, 9, 9)
    assert torch.equal(ours(images), theirs(images))


def test_squeeze_excite_turns_whole_channels_down() -> None:
    images = torch.rand(2, 6, 5, 5) + 0.1
    share = class_of(card_of("squeeze_excite"))(6)(images) / images
    assert share.min() > 0
    assert share.max() < 1
    assert torch.allclose(share, share[:, :, :1, :1].expand_as(share))


def test_the_average_at_the_edge_counts_only_real_pixels() -> None:
    pool = class_of(card_of("avg_pool"))(2)
    assert torch.equal(pool(torch.ones(1, 1, 3, 3)), torch.ones(1, 1, 2, 2))


def test_batch_norm_normalises_vectors_like_images_of_one_pixel() -> None:
    norm = class_of(card_of("batch_norm"))(3).train()
    vectors = torch.randn(64, 3) * 5 + 2
    output = norm(vectors)
    assert torch.allclose(output.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(output.var(0, correction=0), torch.ones(3), atol=1e-3)
