"""Training that runs the frozen layers once ends with the same weights, bit for bit, as any other."""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchmetrics import Accuracy
from torchvision.transforms import v2

from leaven import runtime
from leaven.tasks import classification

SIZE, SAMPLES, BATCH = 32, 26, 8  # the last batch has 2 samples
BRIGHT = 0.32  # images of the first epoch's last batch are darker, one of the second's is not


class Own(nn.Module):
    """A net with a branch, a parameter of its own, and functional dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.left = nn.Conv2d(8, 8, 3, 1, 1)
        self.right = nn.Conv2d(8, 8, 1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)

    def forward(self, images: Tensor) -> Tensor:
        features = self.stem(images * self.scale)
        features = self.norm(self.left(features) + functional.relu(self.right(features)))
        count = features.shape[0]
        features = functional.dropout(features.mean((2, 3)).reshape(count, -1), 0.2, self.training)
        return self.head(features)


class RoundsInSmallBatches(Own):
    """A net that is not quite the same for some images of batches that are not full, as libraries' kernels are."""

    def forward(self, images: Tensor) -> Tensor:
        features = self.stem(images * self.scale)
        is_small = features.new_ones(features.shape[0]).sum() < BATCH
        is_bright = images.mean((1, 2, 3), keepdim=True) > BRIGHT
        features = features * torch.where(is_small & is_bright, 1 + 1e-3, 1.0)
        return self.head(self.norm(self.left(features)).mean((2, 3)))


def timm_model(name: str, **arguments: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import timm

        return timm.create_model(name, num_classes=10, **arguments)

    return build


def vgg() -> nn.Module:
    import torchvision

    return torchvision.models.vgg11_bn(num_classes=10)


MODELS: dict[str, tuple[Callable[[], nn.Module], Sequence[Sequence[str]]]] = {
    "efficientnet_lite0": (
        timm_model("tf_efficientnet_lite0", drop_rate=0.2, drop_path_rate=0.1),
        (["classifier"], ["classifier", "conv_head", "bn2", "blocks.6"], ["classifier", "blocks.5.1.bn2"]),
    ),
    "resnet18": (timm_model("resnet18", drop_rate=0.1), (["fc"], ["fc", "layer4"], ["fc", "layer2.1.conv2"])),
    "resnet50": (timm_model("resnet50", drop_path_rate=0.1), (["fc"], ["fc", "layer4"], ["fc", "layer3.5"])),
    "mobilenetv3_small": (
        timm_model("mobilenetv3_small_100", drop_rate=0.2),
        (["classifier"], ["classifier", "conv_head", "blocks.5"], ["classifier", "blocks.4.1.se"]),
    ),
    "convnext_atto": (
        timm_model("convnext_atto", drop_path_rate=0.1),
        (["head.fc"], ["head", "stages.3"], ["head.fc", "stages.2.blocks.3"]),
    ),
    "vit_tiny": (
        timm_model("vit_tiny_patch16_224", img_size=SIZE, proj_drop_rate=0.1),
        (["head"], ["head", "norm", "blocks.11"], ["head", "blocks.6.attn.qkv"]),
    ),
    "vgg": (vgg, (["classifier.6"], ["classifier"], ["classifier", "features.25"])),
    "own": (Own, (["head"], ["head", "norm"], ["head", "left"])),
    "rounds_in_small_batches": (RoundsInSmallBatches, (["head"], ["head", "norm"], ["head", "left"])),
}


QUICK = (
    "rounds_in_small_batches-0",
    "own-0",
    "own-1",
    "own-2",
    "efficientnet_lite0-1",
    "vit_tiny-2",
)  # a branch, dropped paths, part of a layer


def digits() -> runtime.Data:
    transform = v2.Compose([v2.RGB(), v2.Resize(SIZE), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    dataset = runtime.digits()
    count = runtime.Count(SAMPLES)
    split = runtime.split(dataset, train=count, val=runtime.Count(20), test=runtime.Count(10), seed=0)
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=BATCH)


def trained(
    build: Callable[[], nn.Module], all_but: Sequence[str], folder: Path, *, stores: bool
) -> tuple[dict[str, Tensor], list[dict[str, Any]], bool]:
    """The weights and scores after two epochs, and whether outputs were stored."""
    args = runtime.parse(argparse.ArgumentParser(), output=str(folder))
    run = runtime.Run(args, seed=0, monitor="val.accuracy")
    data = digits()
    torch.manual_seed(0)
    model = build()
    phase = run.phase("one", model, data, epochs=2)
    runtime.freeze(model, all_but=all_but)
    rest, features = phase.frozen_once(model, data) if stores else (model, data)
    criterion = nn.CrossEntropyLoss()
    rest, optimizer = phase.setup(
        rest,
        given := torch.optim.AdamW(runtime.trainable(model), lr=1e-3),
        torch.optim.lr_scheduler.ConstantLR(given),
    )
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=10)}
    for _ in phase.epochs():
        for inputs, targets in phase.batches(features.train):
            loss = criterion(rest(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)
        phase.end_epoch(classification.evaluate(run, rest, features.val, metrics, criterion))
    is_stored = features.train is not data.train
    phase.finish()
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in run.scores.rows]
    return model.state_dict(), rows, is_stored


def cases() -> Iterator[Any]:
    for name, depth in itertools.product(MODELS, range(3)):
        id = f"{name}-{depth}"
        yield pytest.param(name, depth, marks=[] if id in QUICK else [pytest.mark.slow], id=id)


@pytest.mark.parametrize(("name", "depth"), list(cases()))
def test_stored_outputs_change_no_bit(name: str, depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program.py"])
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
    build, depths = MODELS[name]
    plain, plain_rows, _ = trained(build, depths[depth], tmp_path / "plain", stores=False)
    planned, planned_rows, is_stored = trained(build, depths[depth], tmp_path / "planned", stores=True)
    assert is_stored
    assert plain_rows == planned_rows
    assert all(torch.equal(plain[key], planned[key]) for key in plain)
