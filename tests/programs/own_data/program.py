"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

A data set, an optimizer and a schedule from one's own file.

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

mine = runtime.import_file("spirals.py", "mine")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A data set, an optimizer and a schedule from one's own file.")
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    dataset = runtime.user_dataset(partial(mine.Spirals, count=400))  # line 5
    split = runtime.split(dataset, train=60, val=20, test=20, seed=0, resplit=True)  # line 5
    # line 9
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=20, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return mine.Perceptron(hidden=32, num_classes=num_classes)  # line 4


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 8 epochs."""
    phase = run.phase("train", model, data, epochs=8)  # line 9
    criterion = nn.CrossEntropyLoss()
    optimizer = mine.Calm(runtime.trainable(model), lr=0.01)  # line 6
    schedule = mine.breathe(optimizer, period=4)  # line 7
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)
        scores = task.evaluate(run, model, data.val, metrics, criterion)
        phase.end_epoch(scores)
        schedule.step()
        mine.tell(phase, model, scores)  # line 8
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy")
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    train(run, model, data, metrics)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
