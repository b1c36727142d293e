"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Half the work of a small net, with the whole one as its teacher; then most of what is left set to zero.

`# line N` cites the recipe; code without one is a default (`leaven plan recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import torch
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.components.res_block import ResBlock
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Half the work of a small net, with the whole one as its teacher; then most of what is left set to zero."
        ),
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    dataset = runtime.digits()  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return nn.Sequential(  # line 2
        Conv(1, 16),
        Conv(16, 32, stride=2),
        ResBlock(32, 32),
        GlobalPool(),
        Linear(32, num_classes),
    )


def train_learn(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "learn" (line 5): 4 epochs."""
    phase = run.phase("learn", model, data, epochs=4)  # line 5
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: trained from scratch
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


def train_shrink(
    run: runtime.Run,
    model: nn.Module,
    data: runtime.Data,
    metrics: task.Metrics,
    model_before_shrink: nn.Module,
) -> None:
    """Phase "shrink" (line 7): 3 epochs."""
    phase = run.phase("shrink", model, data, epochs=3)  # line 7
    techniques.Prune(  # line 8
        run=run,
        data=data,
        method=techniques.Structured(by="l2", of="flops"),
        amount=50,
        on=["0", "1", "2"],
    ).on_model(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: trained from scratch
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup=0.05)
    distill = techniques.Distill(  # line 9
        data=data,
        fabric=run.fabric,
        criterion=criterion,
        teacher=model_before_shrink,
        temperature=2,
        weight=0.5,
    )
    taught = phase.teacher_once(distill.teacher, data)  # the teacher runs once per image; batches have its outputs
    model, optimizer = phase.setup(model, optimizer, schedule, distill=distill)

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(taught.train):
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            loss = distill.on_loss(loss, inputs, outputs, targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))
    phase.finish()


def train_thin_out(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "thin out" (line 11): 4 epochs."""
    phase = run.phase("thin out", model, data, epochs=4)  # line 11
    prune = techniques.Prune(  # line 12
        run=run,
        data=data,
        method=techniques.Unstructured(),
        amount=80,
        on=["0", "1", "2"],
        over=2,
    )
    prune.on_model(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: trained from scratch
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup=0.05)
    ema = techniques.Ema(model=model, decay=0.9)  # line 13
    model, optimizer = phase.setup(model, optimizer, schedule, ema=ema)

    for epoch in phase.epochs():
        prune.before_epoch(phase)
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            ema.after_step(model)
            phase.log(loss)
        averaged = ema.model_for_eval(model)
        phase.end_epoch(task.evaluate(run, averaged, data.val, metrics, criterion), weights=averaged)
    ema.at_end(model)
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy", epochs=11, threads=1)
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    with run.training("learn", "shrink", "thin out"):  # `--finish` leaves it early
        train_learn(run, model, data, metrics)
        model_before_shrink = runtime.frozen_copy(model)
        train_shrink(run, model, data, metrics, model_before_shrink)
        train_thin_out(run, model, data, metrics)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
