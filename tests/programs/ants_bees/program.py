"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

PyTorch's transfer-learning tutorial, as a recipe: the ConvNet as a fixed feature extractor.

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

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="PyTorch's transfer-learning tutorial, as a recipe: the ConvNet as a fixed feature extractor.",
    )
    parser.add_argument("--photos", default="hymenoptera", help="a folder with train/ and val/")  # line 2
    parser.add_argument("--weights", default="resnet18.pth")  # line 3
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data(args: argparse.Namespace) -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomResizedCrop(224),  # line 8
            T.RandomHorizontalFlip(),  # line 8
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as resnet18 was trained
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize(256),  # line 9
            T.CenterCrop(224),  # line 9
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),  # default: as resnet18 was trained
        ]
    )
    dataset = runtime.image_folder(args.photos)  # line 7
    split = runtime.split(dataset, seed=0)  # default: the parts that the data comes with
    return runtime.Data(  # line 15
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=4,
        seed=0,
    )


def build_model(classes: int, args: argparse.Namespace) -> nn.Module:
    model = torchvision.models.resnet18()  # line 5
    runtime.load_weights(model, args.weights, new=["fc"])  # line 5
    runtime.replace_head(model, "fc", classes)  # default: the head is fitted to the data
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 25 epochs; 1,026 of 11,177,538 parameters trainable."""
    fabric = run.fabric
    runtime.freeze(module, all_but=["fc"])  # line 12
    criterion = nn.CrossEntropyLoss()  # default
    optimizer = torch.optim.SGD(runtime.trainable(module), lr=1e-3, momentum=0.9)  # line 13
    phase = run.phase("train", epochs=25, data=data, is_last=True)  # line 15
    schedule = runtime.step_down(optimizer, every=7 * phase.steps_per_epoch, factor=0.1)  # line 14
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


def main() -> None:
    args = parse_args()
    run = build_run(args)
    with run.fabric.rank_zero_first():  # what must be downloaded is, once
        data = build_data(args)
        module = build_model(len(data.classes), args)
    metrics = build_metrics(len(data.classes))

    train(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Torchvision("resnet18", num_classes=len(data.classes)),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
