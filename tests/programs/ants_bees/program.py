"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

PyTorch's transfer-learning tutorial, as a recipe: the ConvNet as a fixed feature extractor.

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
    return runtime.parse(parser, output="runs/recipe")


def build_data(args: argparse.Namespace) -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomResizedCrop(224),  # line 8
            T.RandomHorizontalFlip(),  # line 8
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize(256),  # line 9
            T.CenterCrop(224),  # line 9
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = runtime.image_folder(args.photos)  # line 7
    split = runtime.split(dataset, seed=0)
    return runtime.Data(  # line 15
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=4,
        seed=0,
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int, args: argparse.Namespace) -> nn.Module:
    model = torchvision.models.resnet18()  # line 5
    runtime.load_weights(model, args.weights, new=["fc"])  # line 5
    runtime.replace_head(model, "fc", num_classes)
    return model


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 25 epochs; 1,026 of 11,177,538 parameters trainable."""
    phase = run.phase("train", model, data, epochs=25)  # line 15
    runtime.freeze(model, all_but=["fc"])  # line 12
    # the frozen layers run once per validation image: `features` are their stored outputs, `rest` the layers after them
    rest, features = phase.frozen_once(model, data, only="val")
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(runtime.trainable(model), lr=1e-3, momentum=0.9)  # line 13
    schedule = runtime.step_down(optimizer, every=7 * phase.steps_per_epoch, factor=0.1)  # line 14
    rest, optimizer = phase.setup(rest, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("layer1", "layer2", "layer4", "fc", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(features.train):
            loss = criterion(rest(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, rest, features.val, metrics, criterion))  # logs, keeps the best weights
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy")
    data = build_data(args)
    model = build_model(len(data.classes), args)
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}
    run.store_decoded(data.train)  # images are decoded once

    train(run, model, data, metrics)

    run.load_best(model)  # the best epoch, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
