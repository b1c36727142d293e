"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Code of one's own for everything: data, net, transform, loss, metric, technique, optimizer, schedule and steps.

`# line N` is the line of recipe.leaven that a value comes from; values without one are defaults (`leaven plan
recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run; RUN is its folder
    python program.py --resume RUN --finish      stop training, and save the best epoch so far
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

mine = runtime.import_file("spirals.py", "mine")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Code of one's own for everything: data, net, transform, loss, metric, technique, optimizer, schedule and "
            "steps."
        ),
    )
    parser.add_argument("--width", type=int, default=16, help="how many channels the convolutions have")  # line 4
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            partial(mine.shift, most=1),  # line 9
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5], [0.5]),  # line 9
        ]
    )
    eval_transform = T.Compose(
        [
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5], [0.5]),  # line 10
        ]
    )
    dataset = runtime.user_dataset(partial(mine.Spirals, count=400))  # line 7
    split = runtime.split(dataset, train=60, val=20, test=20, seed=0, resplit=True)  # line 8
    return runtime.Data(  # line 17
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=20,
        seed=0,
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int, args: argparse.Namespace) -> nn.Module:
    return mine.Net(width=args.width, num_classes=num_classes)  # line 6


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 8 epochs."""
    phase = run.phase("train", model, data, epochs=8)  # line 17
    smooth = mine.Smooth(beta=1.5)  # line 19
    smooth.on_model(model)
    bundle.note_change(model, smooth, beta=1.5)  # the bundle repeats it; fails here if it can't
    criterion = partial(mine.poly_loss, epsilon=2.0)  # line 13
    optimizer = mine.Calm(runtime.trainable(model), lr=0.01)  # line 15
    schedule = mine.breathe(optimizer, period=4)  # line 16
    # devices, precision; an interrupted run resumes here; by name: what else has state to save
    model, optimizer = phase.setup(model, optimizer, schedule, smooth=smooth)
    phase.watch("features", "classify", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = mine.train_step(model, (inputs, targets), criterion)  # line 20
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)  # NaN ends the run
        scores = task.evaluate(run, model, data.val, metrics, criterion)
        phase.end_epoch(scores)  # logs, keeps the best weights
        schedule.step()
        mine.tell(phase, model, scores)  # line 21
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy")
    data = build_data()
    model = build_model(len(data.classes), args)
    metrics = {  # line 14
        "accuracy": Accuracy(task="multiclass", num_classes=len(data.classes)),
        "f1_right": task.F1Of("right", data.classes),
        "surprise": task.Mean(mine.surprise),
    }

    train(run, model, data, metrics)

    run.load_best(model)  # the best epoch, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
