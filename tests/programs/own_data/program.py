"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

A data set, an optimizer and a schedule from one's own file.

Every choice cites the line of the recipe that it comes from, or says that it is a default.

    python program.py                            train
    python program.py --resume RUN               go on with a run that was interrupted
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import torch
from lightning.fabric import Fabric
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task

mine = runtime.import_file("spirals.py", "mine")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A data set, an optimizer and a schedule from one's own file.")
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
        ]
    )
    dataset = runtime.user_dataset(mine.Spirals(count=400))  # line 5
    split = runtime.split(dataset, train=60, val=20, test=20, seed=0, resplit=True)  # line 5
    # line 9
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=20, seed=0)


def build_model(classes: int) -> nn.Module:
    model = mine.Perceptron(hidden=32, num_classes=classes)  # line 4
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 8 epochs."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = mine.Calm(runtime.trainable(module), lr=0.01)  # line 6
    phase = run.phase("train", epochs=8, data=data, is_last=True)  # line 9
    schedule = mine.breathe(optimizer, period=4)  # line 7
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
        schedule.step()
        mine.tell(phase, module, scores)  # line 8


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
            built_by=bundle.Own("spirals.py", "Perceptron", {"hidden": 32, "num_classes": len(data.classes)}),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved, trust_code=True)


if __name__ == "__main__":
    runtime.guard(main)
