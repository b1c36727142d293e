"""Frozen means still: after any training, a frozen layer's parameters and buffers are byte for byte what they were."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric
from timm.layers.norm_act import BatchNormAct2d
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import freeze, set_training, trainable, unfreeze, unfreeze_by_epoch


def state(module: nn.Module) -> dict[str, bytes]:
    return {name: value.detach().numpy().tobytes() for name, value in module.state_dict().items()}


def changed(module: nn.Module, before: dict[str, bytes]) -> set[str]:
    return {name for name, value in state(module).items() if value != before[name]}


def train(module: nn.Module, images: Tensor, steps: int = 3, called: Any = None) -> None:
    """Some steps of training, by an optimizer that holds what moves, each in training mode."""
    called = module if called is None else called
    optimizer = torch.optim.AdamW(trainable(module), lr=0.1, weight_decay=0.1)
    for _ in range(steps):
        set_training(module)
        called(images).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


NORMS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm2d": lambda: nn.BatchNorm2d(4),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "LayerNorm": lambda: nn.LayerNorm([4, 8, 8]),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "BatchNorm2d without parameters": lambda: nn.BatchNorm2d(4, affine=False),
    "SyncBatchNorm": lambda: nn.SyncBatchNorm(4),
    "BatchNormAct2d": lambda: BatchNormAct2d(4),
}


class Net(nn.Module):
    """A stem with a normalisation and dropout, and a head."""

    def __init__(self, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), norm or nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(256, 5))

    def forward(self, images: Tensor) -> Tensor:
        hidden: Tensor = self.head(self.stem(images))
        return hidden


IMAGES = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


# -- stillness


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_a_frozen_stem_stays_as_it_is_to_the_byte(norm: Callable[[], nn.Module]) -> None:
    net = Net(norm())
    freeze(net, all_but=["head"])
    before = state(net)
    train(net, IMAGES)
    assert changed(net, before) == {"head.2.weight", "head.2.bias"}


NETS: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "resnet": (lambda: timm.create_model("resnet18", num_classes=5, drop_path_rate=0.5, drop_rate=0.5), "fc", "layer4"),
    "efficientnet": (
        lambda: timm.create_model("tf_efficientnet_lite0", num_classes=5, drop_path_rate=0.5, drop_rate=0.5),
        "classifier",
        "blocks.6",
    ),
    "convnext": (lambda: timm.create_model("convnext_atto", num_classes=5, drop_path_rate=0.5), "head.fc", "stages.3"),
    "vit": (
        lambda: timm.create_model(
            "vit_tiny_patch16_224",
            img_size=32,
            num_classes=5,
            drop_path_rate=0.5,
            attn_drop_rate=0.5,
            proj_drop_rate=0.5,
        ),
        "head",
        "blocks.11",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("make", "head", "stage"), NETS.values(), ids=NETS)
def test_real_nets_keep_still_but_for_what_moves(make: Callable[[], nn.Module], head: str, stage: str) -> None:
    net = make()
    images = torch.rand(3, 3, 32, 32)
    freeze(net, all_but=[head])
    before = state(net)
    train(net, images, steps=2)
    assert changed(net, before) == {f"{head}.weight", f"{head}.bias"}
    freeze(net, all_but=[head, stage])
    before = state(net)
    train(net, images, steps=2)
    after = changed(net, before)
    assert {name for name in after if not name.startswith((f"{head}.", f"{stage}."))} == set()
    assert any(name.startswith(f"{stage}.") for name in after)


@pytest.mark.parametrize("name", NETS)
def test_chance_is_off_in_what_is_frozen(name: str) -> None:
    make, head, _ = NETS[name]
    net = make()
    freeze(net)
    images = torch.rand(2, 3, 32, 32)
    set_training(net)
    assert torch.equal(net(images), net(images))
    assert not any(module.training for module in net.modules())
    unfreeze(net)
    set_training(net)
    assert not torch.equal(net(images), net(images))
    assert head


class Functional(nn.Module):
    """Dropout as a function, by its module's own mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, values: Tensor) -> Tensor:
        return F.dropout(self.first(values), 0.5, self.training)


def test_functional_dropout_counts_by_its_module() -> None:
    net = nn.Sequential(Functional(), nn.Linear(8, 2))
    freeze(net, only=["0"])
    set_training(net)
    values = torch.rand(4, 8)
    assert torch.equal(net[0](values), net[0](values))
    assert net.training
    freeze(net, only=["0.first.bias"])  # its module still has something that moves
    set_training(net)
    assert not torch.equal(net[0](values), net[0](values))


def test_what_has_no_parameters_follows_its_parent() -> None:
    net = Net()
    freeze(net, all_but=["head"])
    set_training(net)
    assert [module.training for module in net.stem] == [False] * 4
    assert [module.training for module in net.head] == [True] * 3
    assert net.training


def test_a_module_in_two_places_keeps_still_only_where_both_do() -> None:
    dropout = nn.Dropout(0.5)
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), dropout), nn.Sequential(nn.Linear(4, 4), dropout))
    freeze(net, only=["0"])
    set_training(net)
    assert dropout.training
    freeze(net)
    set_training(net)
    assert not dropout.training


def test_statistics_may_be_let_free() -> None:
    net = Net(BatchNormAct2d(4))
    freeze(net, all_but=["head"], norms="train")
    before = state(net)
    train(net, IMAGES)
    assert {name for name in changed(net, before) if name.startswith("stem")} == {
        "stem.1.running_mean",
        "stem.1.running_var",
        "stem.1.num_batches_tracked",
    }
    assert not net.stem[3].training
    net.eval()
    assert not net.stem[1].training


def test_statistics_are_updated_only_in_the_named_layers() -> None:
    net = nn.Sequential(nn.BatchNorm2d(4), nn.BatchNorm2d(4), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))
    freeze(net, only=["0", "1"], norms=["1"])
    assert [part.training for part in net] == [False, True, True, True]
    unfreeze_by_epoch(net, 0, (1, ["2"]))
    assert [part.training for part in net] == [False, True, False, True]
    unfreeze_by_epoch(net, 0, (1, ["2"]), norms="train")
    assert [part.training for part in net] == [False, True, True, True]
    unfreeze_by_epoch(net, 1, (1, ["2"]), norms="train")
    assert [part.training for part in net] == [False, True, True, True]
    assert net[2].weight.requires_grad


def test_dropout_of_layers_that_wait_is_off_whatever_it_is_in_others() -> None:
    net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)) for _ in range(3)))
    freeze(net, only=["0"], keep_dropout=True)
    unfreeze_by_epoch(net, 0, (1, ["1"]))
    assert [part[1].training for part in net] == [True, False, True]
    unfreeze_by_epoch(net, 1, (1, ["1"]))
    assert [part[1].training for part in net] == [True, True, True]


# -- wrapped, copied, saved


def test_stillness_survives_fabric() -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    net = Net()
    freeze(net, all_but=["head"])
    before = state(net)
    model, optimizer = fabric.setup(net, torch.optim.SGD(trainable(net), lr=0.1))
    for _ in range(3):
        set_training(net)
        fabric.backward(model(IMAGES).square().mean())
        optimizer.step()
    assert changed(net, before) == {"head.2.weight", "head.2.bias"}


def test_stillness_survives_distribution(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        net = Net()
        freeze(net, all_but=["head"])
        before = state(net)
        train(net, IMAGES, called=nn.parallel.DistributedDataParallel(net))
        assert changed(net, before) == {"head.2.weight", "head.2.bias"}
    finally:
        torch.distributed.destroy_process_group()


def test_stillness_survives_compilation() -> None:
    net = Net()
    freeze(net, all_but=["head"])
    before = state(net)
    train(net, IMAGES, called=torch.compile(net, backend="eager"))
    assert changed(net, before) == {"head.2.weight", "head.2.bias"}


def test_a_copy_has_the_same_layers_frozen() -> None:
    net = Net()
    freeze(net, all_but=["head"])
    other = copy.deepcopy(net)
    unfreeze(net)
    assert [module.training for module in other.stem] == [False] * 4
    assert [module.training for module in other.head] == [True] * 3
    assert len(trainable(other)) == 2


def test_the_state_dict_knows_nothing_of_it() -> None:
    net, plain = Net(), Net()
    freeze(net, all_but=["head"])
    assert net.state_dict().keys() == plain.state_dict().keys()
    plain.load_state_dict(net.state_dict())


# -- what moves


def test_freezing_ends_with_the_next() -> None:
    net = Net()
    freeze(net, all_but=["head"])
    freeze(net, only=["head"])
    set_training(net)
    assert [name for name, parameter in net.named_parameters() if parameter.requires_grad] == [
        "stem.0.weight", "stem.0.bias", "stem.1.weight", "stem.1.bias",
    ]  # fmt: skip
    assert net.stem[1].training
    assert not net.head[1].training
    freeze(net, only=[])
    assert len(trainable(net)) == 6


def test_what_stood_still_before_a_freeze_does_so_after_it() -> None:
    net = Net()
    net.stem[0].bias.requires_grad_(False)
    freeze(net, all_but=["head"])
    unfreeze(net)
    assert [name for name, parameter in net.named_parameters() if not parameter.requires_grad] == ["stem.0.bias"]
    freeze(net, all_but=["head"])
    assert not net.stem.training


def test_layers_can_be_woken_one_by_one() -> None:
    net = Net()
    freeze(net, all_but=["head"])
    unfreeze(net, ["stem.1"])
    set_training(net)
    assert [module.training for module in net.stem] == [False, True, True, True]
    before = state(net)
    train(net, IMAGES)
    assert {name.rpartition(".")[0] for name in changed(net, before)} == {"stem.1", "head.2"}
    freeze(net, only=[])
    assert len(trainable(net)) == 6


def test_unfreeze_needs_no_freeze_before() -> None:
    net = Net()
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    unfreeze(net, ["head"])
    assert len(trainable(net)) == 2


def test_single_parameters_can_be_frozen_by_name() -> None:
    net = Net()
    freeze(net, only=["stem.1.bias", "head.2.bias"])
    set_training(net)
    assert len(trainable(net)) == 4
    assert net.stem[1].training


@pytest.mark.parametrize(
    ("paths", "but", "expected"),
    [
        (None, (), 4),
        (["head"], (), 2),
        (None, ["head"], 2),
        (["stem", "head"], ["stem.1", "head.2.bias"], 1),
        (["stem.0"], (), 0),
    ],
)
def test_groups_never_hold_what_is_frozen(paths: Sequence[str] | None, but: Sequence[str], expected: int) -> None:
    net = Net()
    freeze(net, only=["stem.0"])
    chosen = trainable(net, paths, but)
    assert len(chosen) == expected
    assert all(parameter.requires_grad for parameter in chosen)


def test_shared_parameters_are_one() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    freeze(net, all_but=["1"])
    assert net[0].weight.requires_grad
    assert not net[0].bias.requires_grad
    assert len(trainable(net)) == 2
    freeze(net, only=["1"])
    assert [name for name, parameter in net.named_parameters() if parameter.requires_grad] == ["0.bias"]


def test_a_frozen_weight_keeps_no_gradient() -> None:
    net = Net()
    net(IMAGES).sum().backward()
    freeze(net, all_but=["head"])
    assert all(parameter.grad is None for parameter in net.stem.parameters())


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(Failure, match="no parameter or layer named hed"):
        freeze(Net(), all_but=["hed"])
    with pytest.raises(ValueError, match="either"):
        freeze(Net(), all_but=["head"], only=["stem"])
