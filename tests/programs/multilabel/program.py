"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

What is on a photograph of a beach: any of four things, or none of them.

`# line N` is the line of recipe.leaven that a value comes from; values without one are defaults (`leaven plan
recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run; RUN is its folder
    python program.py --resume RUN --finish      stop training, and save the best epoch so far
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import timm
import torch
from torch import nn
from torchmetrics import AveragePrecision, F1Score
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.tasks import multilabel as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="What is on a photograph of a beach: any of four things, or none of them.",
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomResizedCrop(64, interpolation="bicubic"),  # line 4
            T.RandomHorizontalFlip(),  # line 4
            T.RandAugment(num_ops=2, magnitude=9),  # line 4
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize(72, interpolation="bicubic"),  # line 5
            T.CenterCrop(64),  # line 5
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = runtime.table("beach.csv", image="file", target=task.Labels("tags"))  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(  # line 10
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=16,
        seed=0,
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("resnet18")  # line 2
    runtime.load_weights(model, "resnet18.pth", new=["fc"])  # line 2
    runtime.replace_head(model, "fc", num_classes)
    return model


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 5 epochs; 11,168,964 of 11,178,564 parameters trainable."""
    phase = run.phase("train", model, data, epochs=5)  # line 10
    # default: 26 training samples are too few for batch norms
    runtime.freeze(model, only=["bn1", "layer*.*.bn*", "layer*.0.downsample.1"])
    criterion = nn.BCEWithLogitsLoss()
    # default: for reused layers; new layers learn faster
    optimizer = torch.optim.AdamW(runtime.parameter_groups(model, (["fc"], {"lr": 3e-3})), lr=3e-4)
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    cutmix = techniques.Cutmix(classes=len(data.classes), alpha=0.8, probability=0.5)  # line 8
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("layer1", "layer2", "layer4", "fc", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves checkpoints, as `checkpoint=` says
        for inputs, targets in phase.batches(data.train):
            inputs, targets = cutmix.on_batch(inputs, targets)
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))  # logs, keeps the weights
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(  # line 9
        args,
        seed=0,
        monitor="val.average_precision",
        checkpoint=runtime.CheckpointPolicy(steps=50, keep="all"),
    )
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {  # line 7
        "average_precision": AveragePrecision(task="multilabel", num_labels=len(data.classes), average="macro"),
        "f1": F1Score(task="multilabel", num_labels=len(data.classes), average="micro"),
    }
    run.store_decoded(data.train)  # images are decoded once
    run.store_decoded(data.val, transforms=2)  # images are decoded, resized and cropped once

    train(run, model, data, metrics)

    run.load_best(model)  # the best epoch, by val.average_precision
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
