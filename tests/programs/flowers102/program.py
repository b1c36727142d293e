"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

102 flowers, ten photographs of each.

Every choice cites the line of the recipe that it comes from, or says that it is a default.

    python program.py                            train
    python program.py --resume RUN               go on with a run that was interrupted
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import timm
import torch
import torchvision
from lightning.fabric import Fabric
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="102 flowers, ten photographs of each.")
    parser.add_argument("--root", default="data", help="where the photographs are kept")  # line 2
    return runtime.parse(parser, output="runs/flowers")  # line 11


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="bf16-mixed")  # line 9
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy", loggers=[runtime.TensorBoard])  # line 10


def build_data(args: argparse.Namespace) -> runtime.Data:
    train_transform = T.Compose(
        [
            # default: photographs may be cropped and mirrored
            T.RandomResizedCrop(224, interpolation=T.InterpolationMode.BICUBIC),
            T.RandomHorizontalFlip(),  # default: photographs may be cropped and mirrored
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as convnext_tiny was trained
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize(236, interpolation=T.InterpolationMode.BICUBIC),  # default: as convnext_tiny was trained
            T.CenterCrop(224),  # default: as convnext_tiny was trained
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as convnext_tiny was trained
        ]
    )
    dataset = runtime.torchvision_dataset(  # line 5
        torchvision.datasets.Flowers102,
        root=args.root,
        download=True,
        splits={"train": {"split": "train"}, "val": {"split": "val"}, "test": {"split": "test"}},
        classes=102,
    )
    split = runtime.split(dataset, seed=0)  # default: the parts that the data comes with
    return runtime.Data(  # line 9
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=16,
        seed=0,
    )


def build_model(classes: int) -> nn.Module:
    with runtime.from_hub("convnext_tiny"):  # line 4
        model = timm.create_model("convnext_tiny", drop_path_rate=0.1, pretrained=True)  # line 4
    runtime.replace_head(model, "head.fc", classes)  # default: the head is fitted to the data
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {  # line 7
        "accuracy": Accuracy(task="multiclass", num_classes=classes),
        "accuracy_top5": Accuracy(task="multiclass", num_classes=classes, top_k=5),
    }


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 20 epochs."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(  # line 8
        runtime.parameter_groups(
            module,
            (["head.fc"], {"lr": 1e-3}),  # line 8
        ),
        lr=1e-4,
    )
    phase = run.phase("train", epochs=20, data=data, accumulate=2, is_last=True)  # line 9
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            with fabric.no_backward_sync(model, enabled=not phase.is_step):
                loss = criterion(model(images), labels)
                fabric.backward(loss / 2)  # line 9
            if phase.is_step:
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
            phase.log(loss)
        scores = task.evaluate(run, module, data.val, metrics, criterion)
        phase.end_epoch(scores)


def main() -> None:
    args = parse_args()
    run = build_run(args)
    with run.fabric.rank_zero_first():  # what must be downloaded is, once
        data = build_data(args)
        module = build_model(len(data.classes))
    metrics = build_metrics(len(data.classes))

    train(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Timm("convnext_tiny", drop_path_rate=0.1, num_classes=len(data.classes)),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
