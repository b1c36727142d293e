"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Few pictures of rare animals: balanced batches, cut and pasted.

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
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Few pictures of rare animals: balanced batches, cut and pasted.")
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(  # line 11
        args,
        fabric,
        seed=0,
        monitor="val.accuracy",
        checkpoint=runtime.CheckpointPolicy(steps=50, keep="all"),
    )


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomResizedCrop(64),  # line 4
            T.RandomHorizontalFlip(),  # line 4
            T.RandAugment(num_ops=2, magnitude=9),  # line 4
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as resnet18 was trained
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize(72),  # line 5
            T.CenterCrop(64),  # line 5
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as resnet18 was trained
        ]
    )
    dataset = runtime.image_folder("photos")  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)  # default: the data comes undivided
    return runtime.Data(  # lines 6, 12
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=8,
        seed=0,
        sampler="balanced",
    )


def build_model(classes: int) -> nn.Module:
    model = timm.create_model("resnet18")  # line 2
    runtime.load_weights(model, "resnet18.pth", new=["fc"])  # line 2
    runtime.replace_head(model, "fc", classes)  # default: the head is fitted to the data
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 6 epochs."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=1e-4)  # line 10
    phase = run.phase("train", epochs=6, data=data, is_last=True)  # line 12
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    cutmix = techniques.Cutmix(classes=len(data.classes), alpha=0.8, probability=0.5)  # line 9
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            images, labels = cutmix.on_batch(images, labels)
            loss = criterion(model(images), labels)
            fabric.backward(loss)
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
        data = build_data()
        module = build_model(len(data.classes))
    metrics = build_metrics(len(data.classes))

    train(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Timm("resnet18", num_classes=len(data.classes)),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
