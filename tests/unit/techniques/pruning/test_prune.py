"""Pruning: what it takes out, what it leaves alone, and that what is out stays out."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import freeze
from leaven.runtime.model.masks import apply_masks, with_masks_applied
from leaven.tasks.classification import Classes
from leaven.techniques import Ema, Prune, Structured, Unstructured
from leaven.techniques.pruning.cost import cost_of, flops_of


@dataclass
class Told:
    """A run that only listens."""

    seed: int = 0
    is_quick: bool = False
    said: list[str] = field(default_factory=list)
    phases: int = 1
    figures: dict[str, bytes] = field(default_factory=dict)

    def print(self, text: str) -> None:
        self.said.append(text)

    def save_figure(self, name: str, draw: Callable[[], bytes]) -> None:
        self.figures[name] = draw()


class Some:
    """Data of random pictures."""

    def __init__(self, channels: int = 3, size: int = 8, classes: int = 5) -> None:
        chance = torch.Generator().manual_seed(1)
        self.example = torch.rand(channels, size, size, generator=chance)
        self.labels = torch.randint(classes, (4,), generator=chance)
        self.eval_transform: Callable[[Any], Any] | None = None
        self.target = Classes(tuple(map(str, range(classes))))
        self.train = self

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield self.example.expand(4, -1, -1, -1), self.labels


@dataclass
class Epoch:
    """Where a phase is."""

    epoch: int
    total_epochs: int = 10
    batch: int = 0
    can_be_best: bool = True


def pruned(net: nn.Module, method: Structured | Unstructured, amount: float, size: int = 8, **more: Any) -> Told:
    run = Told()
    Prune(run, Some(size=size), method, percent=amount, **more).on_model(net)  # type: ignore[arg-type]
    return run


def plain_net() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Conv2d(8, 12, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 5),
    )
    net[1].running_mean.normal_()
    return net


class Block(nn.Module):
    """A residual block whose shortcut pads channels: "option A" of the CIFAR ResNets."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.stride, self.added = stride, (out - channels) // 2

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x if not self.added else F.pad(x[:, :, :: self.stride, :: self.stride], (0,) * 4 + (self.added,) * 2)
        return F.relu(out + shortcut)


class PaddedNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layers = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1))
        self.linear = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(F.relu(self.bn1(self.conv1(x))))
        return self.linear(x.mean(dim=(2, 3)))


# -- whole channels


@pytest.mark.parametrize("by", ["l1", "l2", "taylor", "random"])
def test_the_share_of_channels_goes_and_the_head_stays(by: Any) -> None:
    net = plain_net()
    run = pruned(net, Structured(by=by), 50)
    assert [net[0].out_channels, net[3].groups, net[4].out_channels, net[8].in_features] == [4, 4, 6, 6]
    assert net[8].out_features == 5
    assert net(torch.rand(2, 3, 8, 8)).shape == (2, 5)
    assert "50.0 % of the channels" in run.said[0]
    assert all(word in run.said[0] for word in ("parameters", "FLOPs", "size", "time per image", "before", "after"))


def test_the_channels_of_each_layer_are_reported_and_drawn() -> None:
    net = plain_net()
    before = net[0].out_channels
    run = pruned(net, Structured(), 50)
    lines = [line.split() for line in run.said[0].splitlines()]
    assert ["channels", "before", "after"] in lines
    assert ["0", str(before), str(net[0].out_channels)] in lines
    assert net[0].out_channels < before
    assert run.figures["phase1-pruning.png"].startswith(b"\x89PNG")


def test_a_smoke_test_reports_no_times() -> None:
    run, net = Told(is_quick=True), plain_net()
    Prune(run, Some(), Structured(), percent=50).on_model(net)  # type: ignore[arg-type]
    assert "FLOPs" in run.said[0]
    assert "time per image" not in run.said[0]


def test_the_rest_has_the_outputs_of_the_whole_model_without_those_channels() -> None:
    net = plain_net().eval()
    whole = copy.deepcopy(net)
    pruned(net, Structured(by="l1"), 50)
    kept = [(whole[0].weight == row).flatten(1).all(1).nonzero().item() for row in net[0].weight[:, None]]
    read = [(whole[4].bias == bias).nonzero().item() for bias in net[4].bias]
    silent = torch.tensor([channel for channel in range(8) if channel not in kept])
    with torch.no_grad():
        whole[4].weight[:, silent] = 0  # nobody reads them
        whole[8].weight[:, [channel for channel in range(12) if channel not in read]] = 0
    pictures = torch.rand(4, 3, 8, 8)
    assert torch.allclose(net(pictures), whole(pictures), atol=1e-5)


def test_the_least_important_go() -> None:
    net = plain_net()
    with torch.no_grad():
        for layer in (net[0], net[1], net[3]):
            layer.weight[[1, 6]] *= 1e-4
        net[4].weight[:, [1, 6]] *= 1e-4
    kept = net[0].bias[[0, 2, 3, 4, 5, 7]].tolist()
    pruned(net, Structured(by="l1"), 25)
    assert net[0].bias.tolist() == kept


@pytest.mark.parametrize("of", ["flops", "parameters"])
def test_a_share_of_the_cost_is_reached_and_reported(of: Any) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 5)
    )
    picture = torch.rand(1, 3, 8, 8)
    before = cost_of(net, picture)
    run = pruned(net, Structured(of=of), 40)
    after = cost_of(net, picture)
    saved = 1 - getattr(after, of) / getattr(before, of)
    assert 0.4 <= saved < 0.45
    assert f"{100 * saved:.1f} % of the " in run.said[0]


def test_more_than_can_be_saved_is_refused_with_what_can() -> None:
    net = plain_net()
    with pytest.raises(Failure, match=r"no more than \d+ % of the FLOPs"):
        pruned(net, Structured(of="flops"), 99.9)
    assert net[0].out_channels == 8


def test_shortcuts_that_pad_channels_keep_them() -> None:
    net = PaddedNet()
    run = pruned(net, Structured(), 50)
    assert [block.conv1.out_channels for block in net.layers] == [4, 8, 8]
    assert [block.conv2.out_channels for block in net.layers] == [8, 16, 16]
    assert net.conv1.out_channels == 8
    assert "the net can't do with fewer channels of conv1" in run.said[0]
    assert net(torch.rand(2, 3, 8, 8)).shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "saves"),
    [("test_resnet", 0.5), ("test_convnext", 0.5), ("test_vit", 0.3), ("mobilenetv2_035", 0.4), ("lcnet_035", 0.4)],
)
def test_nets_of_all_kinds(name: str, saves: float) -> None:
    net = timm.create_model(name, num_classes=5)
    size = 160 if "test" in name else 32
    picture = torch.rand(1, 3, size, size)
    before = flops_of(net, picture)
    pruned(net, Structured(), 50, size=size)
    assert net(picture.expand(2, -1, -1, -1)).shape == (2, 5)
    assert flops_of(net, picture) < (1 - saves) * before


def test_only_the_chosen_layers_lose_channels() -> None:
    net = plain_net()
    pruned(net, Structured(), 50, on=["4"])
    assert [net[0].out_channels, net[4].in_channels, net[4].out_channels] == [8, 8, 6]


def test_channels_that_are_added_to_those_of_other_layers_stay() -> None:
    net = timm.create_model("test_resnet", num_classes=5)
    with pytest.raises(Failure, match="none of the chosen layers can lose channels"):
        pruned(net, Structured(), 50, size=64, on=["layer1.0.conv2"])


class Shuffled(nn.Module):
    """A net whose channels change places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        mixed = x.view(len(x), 2, x.shape[1] // 2, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
        return self.head(self.second(mixed).mean(dim=(2, 3)))


def test_channels_that_change_places_are_not_mistaken_for_others() -> None:
    net = Shuffled()
    run = pruned(net, Structured(), 50)
    assert [net.first.out_channels, net.second.out_channels] == [8, 4]
    assert "can't do with fewer channels of first" in run.said[0]


def test_whole_channels_after_single_weights_are_refused() -> None:
    net = plain_net()
    pruned(net, Unstructured(), 50)
    with pytest.raises(Failure, match="follow unstructured pruning"):
        pruned(net, Structured(), 50)


def test_modes_and_stillness_stay_as_they_were() -> None:
    net = plain_net().train()
    freeze(net, only=["0"])
    pruned(net, Structured(), 50)
    assert net.training
    assert net[4].training
    assert not net[0].training
    assert [name for name, weight in net.named_parameters() if not weight.requires_grad] == ["0.weight", "0.bias"]
    assert all(weight.grad is None for weight in net.parameters())


def test_the_same_model_loses_the_same_channels() -> None:
    one, other = plain_net(), plain_net()
    pruned(one, Structured(by="random"), 50)
    torch.rand(17)  # what chance did meanwhile
    pruned(other, Structured(by="random"), 50)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


CALLS: list[int] = []  # a variable of the user's file


class Odd(nn.Module):
    """Counts its calls, here and outside, draws from a generator of its own, takes its scales from its first batch, and
    builds a part when it is first needed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.generator = torch.Generator().manual_seed(3)
        self.built: nn.Module | None = None
        self.register_buffer("scale", torch.zeros(()))
        self.spread: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        CALLS.append(self.calls)
        if self.spread is None:
            self.scale.fill_(x.shape[-1])
            self.spread = x.detach().std(dim=(0, 2, 3)).view(1, -1, 1, 1) + 1
            self.built = nn.Identity()
        noise = 1 + 0.0 * torch.rand(1, generator=self.generator) + 0.0 * torch.rand(1)
        return x * noise / self.scale / self.spread


def odd_net() -> nn.Sequential:
    net = plain_net()
    net.insert(3, Odd())
    return net


@pytest.mark.parametrize("of", ["channels", "flops"])
@pytest.mark.parametrize("by", ["l1", "taylor"])
def test_but_for_its_channels_a_model_is_as_if_nobody_had_looked(by: Any, of: Any) -> None:
    CALLS.clear()
    net, plain = odd_net(), plain_net()
    torch.manual_seed(1)
    pruned(net, Structured(by=by, of=of), 50)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1)), "nothing was drawn"
    assert CALLS == []
    odd = net[3]
    assert isinstance(odd, Odd)
    assert (odd.calls, odd.built, odd.spread, float(odd.scale)) == (0, None, None, 0.0)
    assert torch.equal(odd.generator.get_state(), torch.Generator().manual_seed(3).get_state())
    pruned(plain, Structured(by=by, of=of), 50)
    del net[3]
    shapes = [weight.shape for weight in net.parameters()]
    assert shapes == [weight.shape for weight in plain.parameters()]
    assert all(weight.grad is None for weight in net.parameters())


def test_channels_of_a_model_that_can_not_be_copied_are_not_searched() -> None:
    net, seen = plain_net(), []
    net[2].register_forward_hook(lambda *given: seen.append(1))
    with pytest.raises(Failure, match=r"found on a copy of the model: Sequential can't be copied: 2\..*seen"):
        pruned(net, Structured(), 50)
    assert seen == []
    assert net[0].out_channels == 8


# -- single weights


def zeros(weight: Tensor) -> float:
    return float((weight == 0).float().mean())


@pytest.mark.parametrize("by", ["l1", "random"])
def test_the_share_of_weights_is_out_and_stays_out(by: Any) -> None:
    net = plain_net()
    before = {name: value.clone() for name, value in net.named_parameters()}
    run = pruned(net, Unstructured(by=by), 75, on=["0", "4"])
    assert "75.0 %" in run.said[0]
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.rand(4, 3, 8, 8)).square().sum().backward()
        optimizer.step()
        assert zeros(net[0].weight) == pytest.approx(0.75, abs=0.01)
    state = net.state_dict()
    apply_masks(net)
    assert net.state_dict().keys() == plain_net().state_dict().keys()
    assert zeros(net[0].weight) == pytest.approx(0.75, abs=0.01)
    assert zeros(net[4].weight) == pytest.approx(0.75, abs=0.01)
    assert zeros(net[3].weight) == 0
    assert not torch.equal(net[0].weight, before["0.weight"])
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in with_masks_applied(state).items())


def test_the_smallest_go() -> None:
    net = plain_net()
    before = net[0].weight.detach().abs()
    pruned(net, Unstructured(), 50, on=["0"])
    out = net[0].weight == 0
    assert before[out].max() <= before[~out].min()


def test_a_second_pruning_continues_from_the_first() -> None:
    net = plain_net()
    pruned(net, Unstructured(), 50, on=["0"])
    first = net[0].weight == 0
    pruned(net, Unstructured(by="random"), 75, on=["0"])
    second = net[0].weight == 0
    assert (second | ~first).all()
    assert zeros(net[0].weight) == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("by", ["l1", "random"])
def test_little_by_little_as_zhu_and_gupta_say(by: Any) -> None:
    net = plain_net()
    prune = Prune(Told(), Some(), Unstructured(by=by), percent=80, on=["0", "4"], over_epochs=4)  # type: ignore[arg-type]
    prune.on_model(net)
    assert zeros(net[0].weight) == 0
    ema = Ema(net, 0.9)
    shares, can_be_best, out = [], [], net[0].weight != net[0].weight
    for number in range(6):
        epoch = Epoch(number)
        prune.before_epoch(epoch)  # type: ignore[arg-type]
        ema.after_step(net)
        shares.append(zeros(net[0].weight))
        can_be_best.append(epoch.can_be_best)
        assert (net[0].weight[out] == 0).all()
        out = net[0].weight == 0
        assert zeros(ema.average.module[0].weight) == shares[-1]
    expected = [0.8 * (1 - (1 - t / 4) ** 3) for t in (1, 2, 3, 4, 4, 4)]
    assert shares == pytest.approx(expected, abs=0.01)
    assert can_be_best == [False, False, False, True, True, True]


def test_in_the_middle_of_an_epoch_nothing_more_goes() -> None:
    net = plain_net()
    prune = Prune(Told(), Some(), Unstructured(), percent=80, on=["0"], over_epochs=4)  # type: ignore[arg-type]
    prune.on_model(net)
    prune.before_epoch(Epoch(2, batch=3))  # type: ignore[arg-type]
    assert zeros(net[0].weight) == 0


def test_a_phase_that_was_cut_short_reaches_the_amount() -> None:
    net = plain_net()
    prune = Prune(Told(), Some(), Unstructured(), percent=80, on=["0"], over_epochs=4)  # type: ignore[arg-type]
    prune.on_model(net)
    epoch = Epoch(0, total_epochs=1)
    prune.before_epoch(epoch)  # type: ignore[arg-type]
    assert zeros(net[0].weight) == pytest.approx(0.8, abs=0.01)
    assert epoch.can_be_best


def test_layers_without_a_matrix_are_refused() -> None:
    with pytest.raises(Failure, match="none of the chosen layers has weights that can be pruned"):
        pruned(plain_net(), Unstructured(), 50, on=["1"])
