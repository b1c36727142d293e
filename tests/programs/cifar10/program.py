"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

A net of one's own, from components, trained from nothing.

Every choice cites the line of the recipe that it comes from, or says that it is a default.

    python program.py                            train
    python program.py --resume RUN               go on with a run that was interrupted
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import torch
import torchvision
from lightning.fabric import Fabric
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.components.res_block import ResBlock
from leaven.components.squeeze_excite import SqueezeExcite
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A net of one's own, from components, trained from nothing.")
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomCrop(32, padding=4),  # line 5
            T.RandomHorizontalFlip(),  # line 5
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
        ]
    )
    eval_transform = T.Compose(
        [
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
        ]
    )
    # line 5
    dataset = runtime.torchvision_dataset(torchvision.datasets.CIFAR10, root="data", download=True, classes=10)
    # default: a tenth of train, as the data comes without a validation part
    split = runtime.split(dataset, val=10, seed=0)
    return runtime.Data(  # line 11
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=128,
        seed=0,
    )


def build_model(classes: int) -> nn.Module:
    model = nn.Sequential(  # line 4
        Conv(3, 32),  # line 4
        ResBlock(32, 64),  # line 2
        SqueezeExcite(64),  # line 2
        ResBlock(64, 64),  # line 2
        SqueezeExcite(64),  # line 2
        ResBlock(64, 128, stride=2),  # line 4
        GlobalPool(),  # line 4
        Linear(128, classes),  # line 4
    )
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 30 epochs."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)  # line 7
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("train", epochs=30, data=data, is_last=True)  # line 11
    schedule = runtime.one_cycle(optimizer, phase.steps, peak=0.1, warmup=round(0.3 * phase.steps))  # line 8
    model, optimizer = fabric.setup(module, optimizer)
    mixup = techniques.Mixup(classes=len(data.classes), alpha=0.2)  # line 9
    ema = techniques.Ema(model=module, decay=0.999)  # line 10
    phase.restore(module=module, optimizer=optimizer, schedule=schedule, ema=ema)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            images, labels = mixup.on_batch(images, labels)
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

    train(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Components(
                [
                    ("Conv", {"in_channels": 3, "channels": 32}),
                    ("ResBlock", {"in_channels": 32, "channels": 64}),
                    ("SqueezeExcite", {"in_channels": 64}),
                    ("ResBlock", {"in_channels": 64, "channels": 64}),
                    ("SqueezeExcite", {"in_channels": 64}),
                    ("ResBlock", {"in_channels": 64, "channels": 128, "stride": 2}),
                    ("GlobalPool", {}),
                    ("Linear", {"in_channels": 128, "features": len(data.classes)}),
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
