"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

A small residual net with attention, trained from nothing on digits.

`# line N` is the line of recipe.leaven that a value comes from; values without one are defaults (`leaven plan
recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run; RUN is its folder
    python program.py --resume RUN --finish      stop training, and save the best epoch so far
    torchrun --nproc-per-node 2 program.py       train on two devices
"""

import argparse

import torch
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime, techniques
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.components.res_block import ResBlock
from leaven.components.squeeze_excite import SqueezeExcite
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A small residual net with attention, trained from nothing on digits.")
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomCrop(8, padding=1),  # line 5
            T.RandomAffine(10, translate=[0.1, 0.1]),  # line 5
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
        ]
    )
    eval_transform = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    dataset = runtime.digits()  # line 5
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(  # line 11
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=64,
        seed=0,
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return nn.Sequential(  # line 4
        Conv(1, 16),  # line 4
        ResBlock(16, 32),  # line 2
        SqueezeExcite(32),  # line 2
        ResBlock(32, 32),  # line 2
        SqueezeExcite(32),  # line 2
        ResBlock(32, 64, stride=2),  # line 4
        GlobalPool(),  # line 4
        Linear(64, num_classes),  # line 4
    )


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 5 epochs."""
    phase = run.phase("train", model, data, epochs=5)  # line 11
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)  # line 7
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: for training from scratch
    schedule = runtime.one_cycle(optimizer, phase.total_steps, peak=0.01, warmup_share=0.3)  # line 8
    mixup = techniques.Mixup(outputs=data.outputs, alpha=0.2)  # line 9
    ema = techniques.Ema(model=model, decay=0.99)  # line 10
    # devices, precision; an interrupted run resumes here; by name: what else has state to save
    model, optimizer = phase.setup(model, optimizer, schedule, ema=ema)
    phase.watch("1", "3", "5", "7", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            inputs, targets = mixup.on_batch(inputs, targets)
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            ema.after_step(model)
            phase.log(loss)  # NaN ends the run
        averaged = ema.model_for_eval(model)
        # logs, keeps the best weights
        phase.end_epoch(task.evaluate(run, averaged, data.val, metrics, criterion), weights=averaged)
    ema.at_end(model)
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy")
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    train(run, model, data, metrics)

    run.load_best(model)  # the best epoch, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
