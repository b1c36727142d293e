"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Large steps on a small machine.

`# line N` cites the recipe; code without one is a default (`leaven plan recipe.leaven` gives the reasons).

    python program.py                            train
    python program.py --resume RUN               resume an interrupted run
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
    parser = argparse.ArgumentParser(description="Large steps on a small machine.")
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.Resize(32, interpolation="bicubic"),  # line 3
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.449], [0.226]),
        ]
    )
    dataset = runtime.digits()  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    # line 7
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=16, seed=3)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return timm.create_model("mobilenetv3_small_050", in_chans=1, num_classes=num_classes)  # line 2


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 4 epochs."""
    phase = run.phase("train", model, data, epochs=4, accumulate=4)  # line 7
    criterion = nn.CrossEntropyLoss()
    # line 5
    optimizer = torch.optim.SGD(runtime.trainable(model), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    schedule = runtime.linear(optimizer, phase.total_steps, warmup=20)  # line 6
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss / phase.batches_in_step)  # line 7
            if phase.is_step:
                phase.clip_gradients(optimizer, max_norm=1.0)  # line 7
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
            phase.log(loss)
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=3, monitor="val.accuracy", precision="bf16-mixed", threads=1)  # line 7
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    train(run, model, data, metrics)

    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.finish(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)
