"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Birds at a feeder, most of them sparrows: a table of files, and losses that care about the rare ones.

`# line N` is the line of recipe.leaven that a value comes from; values without one are defaults (`leaven plan
recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run; RUN is its folder
    python program.py --resume RUN --finish      stop training, and save the best epoch so far
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import timm
import torch
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
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.Resize([64, 64], interpolation="bicubic"),  # line 5
            T.RandomHorizontalFlip(),  # line 5
            T.ColorJitter(brightness=0.2, contrast=0.2),  # line 5
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize([64, 64], interpolation="bicubic"),  # line 6
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = runtime.table(  # line 3
        "birds.csv",
        image="file",
        target=task.Label("bird"),
        on_bad_file="skip",  # line 7
    )
    split = runtime.split(dataset, train=70, val=30, seed=7, resplit=True)  # line 4
    return runtime.Data(
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=32,
        seed=0,
        workers=0,  # line 8
        on_bad_file="skip",  # line 7; when images are read
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("resnet18")  # line 2
    runtime.load_weights(model, "resnet18.pth", new=["fc"])  # line 2
    runtime.replace_head(model, "fc", num_classes)
    return model


def train(
    phase: runtime.Phase,
    model: nn.Module,
    data: runtime.Data,
    criterion: runtime.Criterion,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    metrics: task.Metrics,
) -> None:
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("layer1", "layer2", "layer4", "fc", every=50)  # recorded in training.jsonl
    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(phase.run, model, data.val, metrics, criterion))  # logs, keeps the best weights
    phase.finish()  # the next phase starts from the last epoch's weights


def train_head(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "head" (line 12): 3 epochs; 1,539 of 11,178,051 parameters trainable."""
    phase = run.phase("head", model, data, epochs=3)  # line 12
    runtime.freeze(model, all_but=["fc"])  # line 13
    # the frozen layers run once per validation image: `features` are their stored outputs, `rest` the layers after them
    rest, features = phase.frozen_once(model, data, only="val")
    criterion = nn.CrossEntropyLoss(weight=runtime.balanced_weights(data.train)).to(run.device)  # line 14
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-3)  # default: for new layers
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, rest, features, criterion, optimizer, schedule, metrics)


def train_last_stage(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "last stage" (line 16): 5 epochs; 8,395,267 of 11,178,051 parameters trainable."""
    phase = run.phase("last stage", model, data, epochs=5)  # line 16
    runtime.freeze(model, all_but=["layer4", "fc"])  # line 17
    rest, features = phase.frozen_once(model, data, only="val")  # the frozen layers run once per validation image
    criterion = runtime.FocalLoss(gamma=1.5)  # line 18
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-4)  # default: for reused layers
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, rest, features, criterion, optimizer, schedule, metrics)


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy", epochs=8)  # of all phases; only to estimate the time left
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {  # line 11
        "accuracy": Accuracy(task="multiclass", num_classes=len(data.classes)),
        "recall": Recall(task="multiclass", num_classes=len(data.classes), average="macro"),
    }
    run.store_decoded(data.train, transforms=1)  # images are decoded and resized once

    with run.training("head", "last stage"):  # with --finish, phases after the best epoch so far are skipped
        train_head(run, model, data, metrics)
        train_last_stage(run, model, data, metrics)

    run.load_best(model)  # the best epoch of the last phase, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
