"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Everything of one's own: the net, a transform, the loss, a metric and the step.

Every choice cites the line of the recipe that it comes from, or says that it is a default.

    python program.py                            train
    python program.py --resume RUN               go on with a run that was interrupted
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse
from functools import partial

import torch
from lightning.fabric import Fabric
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task

mine = runtime.import_file("mine.py", "mine")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Everything of one's own: the net, a transform, the loss, a metric and the step.",
    )
    parser.add_argument("--width", type=int, default=16, help="how many channels the convolutions have")  # line 4
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            partial(mine.shift, most=1),  # line 8
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.5], [0.5]),  # line 8
        ]
    )
    eval_transform = T.Compose(
        [
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.5], [0.5]),  # line 9
        ]
    )
    dataset = runtime.digits()  # line 7
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)  # default: the data comes undivided
    return runtime.Data(  # default
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=32,
        seed=0,
    )


def build_model(classes: int, args: argparse.Namespace) -> nn.Module:
    model = mine.Net(width=args.width, classes=classes)  # line 6
    return model


def build_metrics(classes: int) -> task.Metrics:
    # line 13
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes), "surprise": task.Mean(mine.surprise)}


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 5 epochs."""
    fabric = run.fabric
    criterion = partial(mine.poly_loss, epsilon=2.0)  # line 12
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=3e-4)  # default
    phase = run.phase("train", epochs=5, data=data, is_last=True)  # line 15
    schedule = runtime.cosine(optimizer, phase.steps, warmup=round(0.05 * phase.steps))  # default
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            loss = mine.train_step(model, (images, labels), criterion)  # line 14
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
        module = build_model(len(data.classes), args)
    metrics = build_metrics(len(data.classes))

    train(run, module, data, metrics)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Own("mine.py", "Net", {"width": args.width, "classes": len(data.classes)}),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved, trust_code=True)


if __name__ == "__main__":
    runtime.guard(main)
