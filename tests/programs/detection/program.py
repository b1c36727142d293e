"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Find squares and balls: first new predictors on a detector, then all but its first layers.

`# line N` is the line of recipe.leaven that a value comes from; values without one are defaults (`leaven plan
recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run; RUN is its folder
    python program.py --resume RUN --finish      stop training, and save the best epoch so far
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import torch
import torchvision
from torch import nn
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.tasks import detection as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Find squares and balls: first new predictors on a detector, then all but its first layers.",
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.ScaleJitter([64, 64]),  # line 4
            T.RandomHorizontalFlip(),  # line 4
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
        ]
    )
    eval_transform = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    dataset = runtime.coco(  # line 3
        "shapes/images",
        annotations="shapes/boxes.json",
        on_bad_file="skip",  # line 5
    )
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=2,  # line 15
        seed=0,
        on_bad_file="skip",  # line 5; when images are read
        samples=task.Samples(),  # targets move with their images
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(  # line 2
        weights_backbone=None,
        num_classes=num_classes + 1,
    )
    runtime.load_weights(  # line 2
        model,
        "detector.pth",
        new=[
            "head.classification_head.module_list.0.1",
            "head.classification_head.module_list.1.1",
            "head.classification_head.module_list.2.1",
            "head.classification_head.module_list.3.1",
            "head.classification_head.module_list.4.1",
            "head.classification_head.module_list.5.1",
        ],
    )
    return model


def train_head(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "head" (line 8): 2 epochs; 41,580 of 2,220,380 parameters trainable."""
    phase = run.phase("head", model, data, epochs=2)  # line 8
    # line 8
    runtime.freeze(model, only=["backbone", "head.classification_head.module_list.*.0", "head.regression_head"])
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-3)  # default: for new layers
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    # recorded in training.jsonl
    phase.watch("backbone.features.0", "backbone.features.1", "head.classification_head.module_list.5.1", every=50)

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            losses = model(inputs, targets)  # dict of losses
            loss = sum(losses.values())
            phase.backward(loss)
            phase.clip_gradients(optimizer, max_norm=1.0)  # line 15
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss, losses)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, model, data.val, metrics))  # logs, keeps the best weights
    phase.finish()  # the next phase starts from the last epoch's weights


def train_all(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "all" (line 9): at most 4 epochs; 1,330,836 of 2,220,380 parameters trainable."""
    phase = run.phase("all", model, data, epochs=4)  # line 9
    runtime.freeze(  # line 10
        model,
        only=[
            "backbone.features.0",
            "backbone.features.1.0.*.1",
            "backbone.features.1.*.block.*.1",
            "backbone.features.1.3.1",
            "backbone.extra.*.*.1",
            "head.classification_head.module_list.*.0.1",
            "head.regression_head.module_list.*.0.1",
        ],
    )
    optimizer = torch.optim.SGD(runtime.trainable(model), lr=5e-3, momentum=0.9)  # line 11
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    ema = techniques.Ema(model=model, decay=0.99)  # line 13
    model, optimizer = phase.setup(model, optimizer, schedule, ema=ema)  # by name: what else has state to save
    phase.watch("backbone.features.0", "backbone.features.1", "head.classification_head.module_list.5.1", every=50)

    for epoch in phase.epochs(stop_early="val.map_50", patience=2):  # line 12
        for inputs, targets in phase.batches(data.train):
            losses = model(inputs, targets)  # dict of losses
            loss = sum(losses.values())
            phase.backward(loss)
            phase.clip_gradients(optimizer, max_norm=1.0)  # line 15
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            ema.after_step(model)
            phase.log(loss, losses)
        averaged = ema.model_for_eval(model)
        phase.end_epoch(task.evaluate(run, averaged, data.val, metrics), weights=averaged)
    ema.at_end(model)
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.map_50", epochs=6)  # of all phases; only to estimate the time left
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"map": task.MeanAP()}
    run.store_decoded(data.train)  # images are decoded once
    run.store_decoded(data.val)  # images are decoded once

    with run.training("head", "all"):  # with --finish, phases after the best epoch so far are skipped
        train_head(run, model, data, metrics)
        train_all(run, model, data, metrics)

    run.load_best(model)  # the best epoch of the last phase, by val.map_50
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
