"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Large steps on a small machine.

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

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Large steps on a small machine.")
    return runtime.parse(parser, output="runs/recipe")  # default


def build_run(args: argparse.Namespace) -> runtime.Run:
    fabric = Fabric(devices=args.devices or "auto", num_nodes=args.machines, precision="bf16-mixed")  # line 7
    fabric.launch()
    return runtime.Run(args, fabric, seed=3, monitor="val.accuracy")  # line 7


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.Resize(32),  # line 3
            T.ToImage(),  # default: always
            T.ToDtype(torch.float32, scale=True),  # default: always
            T.Normalize([0.449], [0.226]),  # default: as mobilenetv3_small_050 was trained
        ]
    )
    dataset = runtime.digits()  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)  # default: the data comes undivided
    # line 7
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=16, seed=3)


def build_model(classes: int) -> nn.Module:
    model = timm.create_model("mobilenetv3_small_050", in_chans=1, num_classes=classes)  # line 2
    return model


def build_metrics(classes: int) -> task.Metrics:
    return {"accuracy": Accuracy(task="multiclass", num_classes=classes)}  # default


def train(run: runtime.Run, module: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 4 epochs."""
    fabric = run.fabric
    criterion = nn.CrossEntropyLoss()  # default
    # line 5
    optimizer = torch.optim.SGD(runtime.trainable(module), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    phase = run.phase("train", epochs=4, data=data, accumulate=4, is_last=True)  # line 7
    schedule = runtime.linear(optimizer, phase.steps, warmup=20)  # line 6
    model, optimizer = fabric.setup(module, optimizer)
    phase.restore(module=module, optimizer=optimizer, schedule=schedule)

    for _ in phase.epochs():
        for images, labels in phase.batches():
            with fabric.no_backward_sync(model, enabled=not phase.is_step):
                loss = criterion(model(images), labels)
                fabric.backward(loss / 4)  # line 7
            if phase.is_step:
                fabric.clip_gradients(model, optimizer, max_norm=1.0)  # line 7
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
            built_by=bundle.Timm("mobilenetv3_small_050", in_chans=1, num_classes=len(data.classes)),
            preprocess=data.eval_transform,
            example=data.example,
            target=data.target,
            scores=scores,
            folder=run.folder,
        )
        run.announce(saved)


if __name__ == "__main__":
    runtime.guard(main)
