"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

102 flowers, ten photographs of each.

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
import torchvision
from torch import nn
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="102 flowers, ten photographs of each.")
    parser.add_argument("--root", default="data", help="where the photographs are kept")  # line 2
    return runtime.parse(parser, output="runs/flowers")  # line 11


def build_data(args: argparse.Namespace) -> runtime.Data:
    train_transform = T.Compose(
        [
            T.RandomResizedCrop(224, interpolation="bicubic"),
            T.RandomHorizontalFlip(),
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    eval_transform = T.Compose(
        [
            T.Resize(235, interpolation="bicubic"),
            T.CenterCrop(224),
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = runtime.torchvision_dataset(  # line 5
        torchvision.datasets.Flowers102,
        root=args.root,
        download=True,
        splits={"train": {"split": "train"}, "val": {"split": "val"}, "test": {"split": "test"}},
        classes=102,
    )
    split = runtime.split(dataset, seed=0)
    return runtime.Data(  # line 9
        dataset,
        split,
        train_transform=train_transform,
        eval_transform=eval_transform,
        batch_size=16,
        seed=0,
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("convnext_tiny", drop_path_rate=0.1, pretrained=True)  # line 4
    runtime.replace_head(model, "head.fc", num_classes)
    return model


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 20 epochs."""
    phase = run.phase("train", model, data, epochs=20, accumulate=2)  # line 9
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(  # line 8
        runtime.parameter_groups(
            model,
            (["head.fc"], {"lr": 1e-3}),  # line 8
        ),
        lr=1e-4,
    )
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("stages.0", "stages.1", "stages.3", "head.fc", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss / phase.batches_in_step)  # line 9
            if phase.is_step:
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))  # logs, keeps the best weights
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(
        args,
        seed=0,
        monitor="val.accuracy",
        precision="bf16-mixed",  # line 9
        loggers=[runtime.TensorBoard],  # line 10
    )
    data = build_data(args)
    model = build_model(len(data.classes))
    metrics = {  # line 7
        "accuracy": Accuracy(task="multiclass", num_classes=len(data.classes)),
        "accuracy_top5": Accuracy(task="multiclass", num_classes=len(data.classes), top_k=5),
    }

    train(run, model, data, metrics)

    run.load_best(model)  # the best epoch, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
