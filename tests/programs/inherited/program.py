"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

The base without mixing, in larger batches.

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
    parser = argparse.ArgumentParser(description="The base without mixing, in larger batches.")
    parser.add_argument("--lr", type=float, default=3e-3)  # option --lr
    parser.add_argument("--epochs", type=int, default=6, help="how long to train")  # base.leaven, line 3
    return runtime.parse(parser, output="runs/digits")  # base.leaven, line 12


def build_run(args: argparse.Namespace) -> runtime.Run:
    torch.use_deterministic_algorithms(True)  # line 6
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="32-true")  # default
    fabric.launch()
    return runtime.Run(args, fabric, seed=0, monitor="val.accuracy")  # default


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.Resize(32),  # base.leaven, line 6
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.449], [0.226]),  # default: as resnet18 was trained
        ]
    )
    dataset = runtime.digits()  # base.leaven, line 6
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)  # default: the data comes undivided
    # line 6
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=64, seed=0)


def build_model(classes: int) -> nn.Module:
    model = timm.create_model("resnet18", in_chans=1, num_classes=classes)  # base.leaven, line 5
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train(
    run: runtime.Run,
    module: nn.Module,
    data: runtime.Data,
    metrics: task.Metrics,
    args: argparse.Namespace,
) -> None:
    """Phase "train": as many epochs as asked for."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss()  # default
    # line 4; base.leaven, line 9
    optimizer = torch.optim.AdamW(runtime.trainable(module), lr=args.lr, weight_decay=0.05)
    phase = run.phase("train", epochs=args.epochs, data=data, is_last=True)  # base.leaven, line 11
    # base.leaven, line 10; option --set
    schedule = runtime.step_down(optimizer, every=2 * phase.steps_per_epoch, factor=0.3)
    model, optimizer = fabric.setup(module, optimizer)
    ema = techniques.Ema(model=module, decay=0.9)  # option --with
    phase.restore(module=module, optimizer=optimizer, schedule=schedule, ema=ema)

    for _ in phase.epochs():
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

    train(run, module, data, metrics, args)

    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))
    if run.fabric.is_global_zero:
        saved = bundle.save(
            run.folder / "model.bundle",
            module,
            built_by=bundle.Timm("resnet18", in_chans=1, num_classes=len(data.classes)),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
