"""A fresh net made as small as a pruned one, from what a bundle says of it."""

from pathlib import Path

import pytest
import torch
from torch import nn

from leaven import bundle
from leaven.runtime.failures import Failure
from leaven.runtime.model.pruned_shapes import pruned_shapes, shrink
from leaven.runtime.model.weights import load_weights
from leaven.tasks.classification import Classes


def net(width: int = 8, classes: int = 4) -> nn.Sequential:
    """A net as torchvision would build it: the layers are all it has."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.GroupNorm(2, width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(width),
        nn.Linear(width, classes),
    )


def test_a_fresh_net_becomes_as_small() -> None:
    small, fresh = net(6), net(8)
    sizes = pruned_shapes(small, fresh)
    assert sizes == {
        "0": {"out_channels": 6},
        "1": {"num_channels": 6},
        "4": {"normalized_shape": [6]},
        "5": {"in_features": 6},
    }
    shrink(fresh, sizes, small.state_dict())
    fresh.load_state_dict(small.state_dict())
    pictures = torch.rand(2, 3, 8, 8)
    assert torch.equal(fresh(pictures), small(pictures))


def test_what_has_the_same_shapes_has_no_sizes() -> None:
    assert pruned_shapes(net(), net()) == {}


@pytest.mark.parametrize(
    "sizes",
    [
        {"0": {"out_channels": 9}},
        {"0": {"out_channels": 0}},
        {"0": {"out_channels": -1}},
        {"0": {"out_channels": True}},
        {"0": {"out_channels": "6"}},
        {"0": {"kernel_size": [3]}},
        {"0": {"forward": 1}},
        {"0": {"padding_mode": 1}},
        {"0": {"training": 1}},
        {"7": {"out_channels": 6}},
    ],
)
def test_nothing_but_smaller_sizes_is_taken(sizes: dict[str, dict[str, int]]) -> None:
    with pytest.raises(ValueError, match=r"can't become|no layer"):
        shrink(net(), sizes, {})


def test_weights_never_grow() -> None:
    with pytest.raises(ValueError, match="can't become"):
        shrink(net(), {"0": {"out_channels": 6}}, {"0.bias": torch.zeros(9)})


def test_a_new_head_reads_less_and_has_its_own_classes(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\ndef net(width=8, classes=4):\n"
        "    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(2, width), nn.AdaptiveAvgPool2d(1),\n"
        "        nn.Flatten(), nn.LayerNorm(width), nn.Linear(width, classes))\n",
        encoding="utf-8",
    )
    small = net(6)
    file = bundle.save(
        tmp_path / "small.bundle",
        small,
        built_by=bundle.Own(tmp_path / "net.py", "net"),
        preprocess=None,
        target=Classes(tuple("abcd")),
        example=torch.rand(3, 8, 8),
    )
    fresh = net(8, classes=7)
    load_weights(fresh, file, new=["5"])
    assert torch.equal(fresh[0].weight, small[0].weight)
    assert fresh[5].weight.shape == (7, 6)
    assert fresh(torch.rand(2, 3, 8, 8)).shape == (2, 7)
    with pytest.raises(Failure, match="has a pruned model, which does not fit this one"):
        load_weights(net(4), file)
