"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Half the work of a small net, with the whole one as its teacher; then most of what is left set to zero.

Every choice cites the line of the recipe that it comes from, or says that it is a default.

    python program.py                            train
    python program.py --resume RUN               go on with a run that was interrupted
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import torch
from lightning.fabric import Fabric
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
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
        ]
    )
    dataset = runtime.digits()  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)  # default: the data comes undivided
    # default
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


def build_model(classes: int) -> nn.Module:
    model = nn.Sequential(  # line 2
        Conv(1, 16),  # line 2
        Conv(16, 32, stride=2),  # line 2
        ResBlock(32, 32),  # line 2
        GlobalPool(),  # line 2
        Linear(32, classes),  # line 2
    )
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train_learn(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "learn", line 5: 4 epochs."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("learn", epochs=4, data=data)  # line 5
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
    phase.finish(module)


def train_shrink(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "shrink", line 7: 3 epochs."""
    fabric = run.fabric
    run.add_snapshot("shrink", runtime.frozen_copy(module))
    techniques.Prune(  # line 8
        run=run,
        data=data,
        how=techniques.Structured(by="l2", of="flops"),
        amount=50,
        on=["0", "1", "2"],
    ).on_model(module)
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("shrink", epochs=3, data=data)  # line 7
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    distill = techniques.Distill(  # line 9
        data=data,
        fabric=fabric,
        criterion=criterion,
        teacher=run.snapshot("shrink"),
        temperature=2,
        weight=0.5,
    )
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss = distill.on_loss(loss, images, outputs, labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
    phase.finish(module)


def train_thin_out(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "thin out", line 11: 4 epochs."""
    fabric = run.fabric
    # line 12
    prune = techniques.Prune(run=run, data=data, how=techniques.Unstructured(), amount=80, on=["0", "1", "2"], over=2)
    prune.on_model(module)
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("thin out", epochs=4, data=data, is_last=True)  # line 11
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    ema = techniques.Ema(model=module, decay=0.9)  # line 13
    phase.restore(module=module, optimizer=optimizer, schedule=schedule, ema=ema)

    for _ in phase.epochs():
        prune.before_epoch(phase)
        for images, labels in phase.batches():
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            ema.after_step(module)
            phase.log(loss)
        measured = ema.model_for_eval(module)
        scores = task.evaluate(run, measured, data.val, metrics, criterion)
        phase.end_epoch(scores, weights=measured)
    ema.at_end(module)


def main() -> None:
    args = parse_args()
    run = build_run(args)
    with run.fabric.rank_zero_first():  # what must be downloaded is, once
        data = build_data()
        module = build_model(len(data.classes))
    metrics = build_metrics(len(data.classes))

    train_learn(run, module, data, metrics)
    train_shrink(run, module, data, metrics)
    train_thin_out(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Components(
                [
                    ("Conv", {"in_channels": 1, "channels": 16}),
                    ("Conv", {"in_channels": 16, "channels": 32, "stride": 2}),
                    ("ResBlock", {"in_channels": 32, "channels": 32}),
                    ("GlobalPool", {}),
                    ("Linear", {"in_channels": 32, "features": len(data.classes)}),
                ]
            ),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
