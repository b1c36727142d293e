"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Wake a net from the head down, by steps towards flat valleys, and average its last epochs.

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
        description="Wake a net from the head down, by steps towards flat valleys, and average its last epochs.",
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
    dataset = runtime.digits()  # line 4
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)  # default: the data comes undivided
    # default
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


def build_model(classes: int) -> nn.Module:
    model = nn.Sequential(  # line 2
        Conv(1, 16),  # line 2
        ResBlock(16, 16),  # line 2
        ResBlock(16, 32, stride=2),  # line 2
        GlobalPool(),  # line 2
        Linear(32, classes),  # line 2
    )
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train_from_the_head_down(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "from the head down", line 8: 4 epochs."""
    fabric = run.fabric
    layer_decay = techniques.LayerDecay(model=module, stages=[["0"], ["1"], ["2"], ["4"]], factor=0.8)  # line 10
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.SGD(runtime.trainable(module), lr=0.1, momentum=0.9)  # line 6
    layer_decay.on_optimizer(optimizer)
    phase = run.phase("from the head down", epochs=4, data=data)  # line 8
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    progressive_resizing = techniques.ProgressiveResizing(start=0.5, until=round(0.5 * phase.total))  # line 11
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        runtime.unfreeze_by_epoch(module, phase.epoch, (1, ["2"]), (2, ["1"]), (3, ["0"]))  # line 9
        progressive_resizing.before_epoch(phase)
        for images, labels in phase.batches():
            images, labels = progressive_resizing.on_batch(images, labels)
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
    phase.finish(module)


def train_average(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "average", line 13: 6 epochs; 19,530 of 19,706 parameters trainable."""
    fabric = run.fabric
    stochastic_depth = techniques.StochasticDepth(rate=0.1)  # line 16
    stochastic_depth.on_model(module)
    runtime.freeze(module, only=["0"])  # line 14
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.SGD(runtime.trainable(module), lr=0.1, momentum=0.9)  # line 6
    phase = run.phase("average", epochs=6, data=data, is_last=True)  # line 13
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    sam = techniques.Sam(optimizer=optimizer, rho=0.05)  # line 17
    # line 18
    swa = techniques.Swa(model=module, optimizer=optimizer, phase=phase, lr=0.02, start=round(0.5 * phase.total))
    phase.restore(module=module, optimizer=optimizer, schedule=schedule, swa=swa)

    for _ in phase.epochs():
        runtime.unfreeze_by_epoch(module, phase.epoch, (2, ["1"]))  # line 15
        swa.before_epoch(phase)
        for images, labels in phase.batches():
            for _ in sam.around_step(module):
                loss = criterion(model(images), labels)
                fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            swa.after_step(module)
            phase.log(loss)
        measured = swa.model_for_eval(module)
        scores = task.evaluate(run, measured, data.val, metrics, criterion)
        phase.end_epoch(scores, weights=measured)
    stochastic_depth.at_end(module)
    swa.at_end(module)


def main() -> None:
    args = parse_args()
    run = build_run(args)
    with run.fabric.rank_zero_first():  # what must be downloaded is, once
        data = build_data()
        module = build_model(len(data.classes))
    metrics = build_metrics(len(data.classes))

    train_from_the_head_down(run, module, data, metrics)
    train_average(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Components(
                [
                    ("Conv", {"in_channels": 1, "channels": 16}),
                    ("ResBlock", {"in_channels": 16, "channels": 16}),
                    ("ResBlock", {"in_channels": 16, "channels": 32, "stride": 2}),
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
