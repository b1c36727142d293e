"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Custom code for everything: net, transform, loss, metric, technique and training step.

`# line N` cites the recipe; code without one is a default (`leaven plan recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse
from functools import partial

import torch
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task

mine = runtime.import_file("mine.py", "mine")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Custom code for everything: net, transform, loss, metric, technique and training step.",
    )
    parser.add_argument("--width", type=int, default=16, help="how many channels the convolutions have")  # line 4
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            partial(mine.shift, most=1),  # line 8
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5], [0.5]),  # line 8
        ]
    )
    eval_transform = T.Compose(
        [
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5], [0.5]),  # line 9
        ]
    )
    dataset = runtime.digits()  # line 7
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
def build_model(num_classes: int, args: argparse.Namespace) -> nn.Module:
    return mine.Net(width=args.width, classes=num_classes)  # line 6


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 5 epochs."""
    phase = run.phase("train", model, data, epochs=5)  # line 16
    smooth = mine.Smooth(beta=1.5)  # line 14
    smooth.on_model(model)
    bundle.note_change(model, smooth, beta=1.5)  # the bundle repeats it; fails here if it can't
    criterion = partial(mine.poly_loss, epsilon=2.0)  # line 12
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: trained from scratch
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup=0.05)
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(data.train):
            loss = mine.train_step(model, (inputs, targets), criterion)  # line 15
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy", threads=1)
    data = build_data()
    model = build_model(len(data.classes), args)
    metrics = {  # line 13
        "accuracy": Accuracy(task="multiclass", num_classes=len(data.classes)),
        "f1_8": task.F1Of("8", data.classes),
        "surprise": task.Mean(mine.surprise),
    }

    train(run, model, data, metrics)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
