"""What every hand-written program and every trainer shares: arguments, photos, the model, its frozen layers."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import timm
import torch
from torch import nn
from torchvision import datasets
from torchvision import transforms as T

MEAN, STD = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]  # the model's own
BICUBIC = T.InterpolationMode.BICUBIC
RATE = 3e-3
BATCH = 32
WORKERS = os.cpu_count() or 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", type=Path, help="a folder with train/ and val/")
    parser.add_argument("weights", type=Path, help="those of efficientnet_lite0")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--augment", action="store_true", help="with the tutorial's random crop and flip")
    parser.add_argument("--trainable", nargs="+", default=["classifier"], help="the layers that are not frozen")
    return parser.parse_args()


def folders(args: argparse.Namespace) -> dict[str, datasets.ImageFolder]:
    """The photos of training and of validation."""
    ends = [T.ToTensor(), T.Normalize(MEAN, STD)]
    fixed = [T.Resize(256, BICUBIC), T.CenterCrop(224)]
    augmented = [T.RandomResizedCrop(224, interpolation=BICUBIC), T.RandomHorizontalFlip()]
    first = augmented if args.augment else fixed
    return {
        "train": datasets.ImageFolder(args.photos / "train", T.Compose([*first, *ends])),
        "val": datasets.ImageFolder(args.photos / "val", T.Compose([*fixed, *ends])),
    }


def model_of(args: argparse.Namespace, classes: int) -> nn.Module:
    """The pretrained model with a new head, and all frozen but some layers."""
    torch.manual_seed(0)
    model = timm.create_model("tf_efficientnet_lite0")
    model.load_state_dict(torch.load(args.weights, weights_only=True))
    model.classifier = nn.Linear(model.classifier.in_features, classes)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = any(name.startswith(f"{layer}.") for layer in args.trainable)
    return model


def trainable(model: nn.Module) -> Iterator[nn.Parameter]:
    return (parameter for parameter in model.parameters() if parameter.requires_grad)
