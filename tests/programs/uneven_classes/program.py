"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Birds at a feeder, most of them sparrows: a table of files, and losses that care about the rare ones.

Every choice cites the line of the recipe that it comes from, or says that it is a default.

    python program.py                            train
    python program.py --resume RUN               go on with a run that was interrupted
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import timm
import torch
from lightning.fabric import Fabric
from torch import nn
from torchmetrics import Accuracy, Recall
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Birds at a feeder, most of them sparrows: a table of files, and losses that care about the rare ones."
        ),
    )
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.Resize([64, 64]),  # line 5
            T.RandomHorizontalFlip(),  # line 5
            T.ColorJitter(brightness=0.2, contrast=0.2),  # line 5
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as resnet18 was trained
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize([64, 64]),  # line 6
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as resnet18 was trained
        ]
    )
    dataset = runtime.table("birds.csv", image="file", target=task.Label("bird"))  # line 3
    split = runtime.split(dataset, train=70, val=30, seed=7, resplit=True)  # line 4
    return runtime.Data(  # lines 7, 8
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=32,
        seed=0,
        workers=0,
        on_bad_file="skip",
    )


def build_model(classes: int) -> nn.Module:
    model = timm.create_model("resnet18")  # line 2
    runtime.load_weights(model, "resnet18.pth", new=["fc"])  # line 2
    runtime.replace_head(model, "fc", classes)  # default: the head is fitted to the data
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {  # line 11
        "accuracy": Accuracy(task="multiclass", num_classes=classes),
        "recall": Recall(task="multiclass", num_classes=classes, average="macro"),
    }


def train_head(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "head", line 12: 3 epochs; 1,539 of 11,178,051 parameters trainable."""
    fabric = run.fabric
    runtime.freeze(module, all_but=["fc"])  # line 13
    criterion = nn.CrossEntropyLoss(weight=runtime.balanced_weights(data.train)).to(fabric.device)  # line 14
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("head", epochs=3, data=data)  # line 12
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
    phase.finish(module)


def train_last_stage(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "last stage", line 16: 5 epochs; 8,395,267 of 11,178,051 parameters trainable."""
    fabric = run.fabric
    runtime.freeze(module, all_but=["layer4", "fc"])  # line 17
    criterion = runtime.FocalLoss(gamma=1.5)  # line 18
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("last stage", epochs=5, data=data, is_last=True)  # line 16
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)


def main() -> None:
    args = parse_args()
    run = build_run(args)
    with run.fabric.rank_zero_first():  # what must be downloaded is, once
        data = build_data()
        module = build_model(len(data.classes))
    metrics = build_metrics(len(data.classes))

    train_head(run, module, data, metrics)
    train_last_stage(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Timm("resnet18", num_classes=len(data.classes)),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
