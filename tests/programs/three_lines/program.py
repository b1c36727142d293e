"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

`# line N` cites the recipe; code without one is a default (`leaven plan recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import timm
import torch
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="recipe.leaven")
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomResizedCrop(224, scale=[0.35, 1.0], interpolation="bicubic"),
            T.RandomHorizontalFlip(),
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize(235, interpolation="bicubic"),
            T.CenterCrop(224),
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = runtime.image_folder("photos")  # line 2
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=32,
        seed=0,
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("resnet18", pretrained=True)  # line 1
    runtime.replace_head(model, "fc", num_classes)
    return model


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 10 epochs; 11,168,451 of 11,178,051 parameters trainable."""
    phase = run.phase("train", model, data, epochs=10)  # line 3
    # default: 24 training samples are too few for batch norms
    runtime.freeze(model, only=["bn1", "layer*.*.bn*", "layer*.0.downsample.1"])
    criterion = nn.CrossEntropyLoss()
    # default: reused layers are trainable; new layers learn faster
    optimizer = torch.optim.AdamW(runtime.parameter_groups(model, (["fc"], {"lr": 3e-3})), lr=3e-4)
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup=0.05)
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy")
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}
    run.store_decoded(data.train)  # images are decoded once
    run.store_decoded(data.val, transforms=2)  # images are decoded, resized and cropped once

    train(run, model, data, metrics)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
