"""Which branches are left out how often, in whose nets, and that it ends with the phase."""

import pytest
import timm
import torch
import torchvision
from torch import nn
from torchvision.ops import StochasticDepth as Skip

from leaven.components.res_block import ResBlock
from leaven.runtime import Failure
from leaven.techniques import StochasticDepth

NETS = {
    "timm, empty places": lambda: timm.create_model("resnet10t", num_classes=2),
    "timm, identities": lambda: timm.create_model("convnext_atto", num_classes=2),
    "torchvision": lambda: torchvision.models.efficientnet_b0(num_classes=2),
    "components": lambda: nn.Sequential(ResBlock(3, 4), ResBlock(4, 4)),
}


def rates(module: nn.Module) -> list[float]:
    return [inner.p for inner in module.modules() if isinstance(inner, Skip)]


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_rates_grow_with_depth_and_end_with_the_phase(make: object) -> None:
    module = make()  # type: ignore[operator]
    keys, images = list(module.state_dict()), torch.rand(2, 3, 64, 64)
    module.eval()
    answer, before = module(images), rates(module)
    technique = StochasticDepth(0.3)
    technique.on_model(module)
    module.eval()
    assert torch.equal(module(images), answer), "whoever uses the model notices nothing"
    found = rates(module)
    assert found == sorted(found)
    assert found[0] > 0
    assert found[-1] == pytest.approx(0.3)
    assert list(module.state_dict()) == keys
    technique.at_end(module)
    assert rates(module) == before
    again = StochasticDepth(0.2)
    again.on_model(module)
    assert rates(module)[-1] == pytest.approx(0.2), "a later phase finds the places again"


def test_a_branch_that_is_always_left_out_leaves_the_shortcut() -> None:
    block = ResBlock(4, 4).train()
    StochasticDepth(1 - 1e-7).on_model(block)
    images = torch.rand(2, 4, 5, 5)
    assert torch.equal(block(images), images)


def test_a_model_without_branches_is_refused() -> None:
    with pytest.raises(Failure, match="no residual branches"):
        StochasticDepth().on_model(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()))
