"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Whether one sentence follows from another: adapters in the attention of a model from the hub, merged at the end.

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
        description=(
            "Whether one sentence follows from another: adapters in the attention of a model from the hub, merged at "
            "the end."
        ),
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    tokenize = runtime.Tokenizer("distilbert-base-uncased")
    dataset = runtime.table("pairs.jsonl", text=["premise", "hypothesis"], target=task.Label("label"))  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    # line 5
    return runtime.Data(dataset, split, train_transform=tokenize, eval_transform=tokenize, batch_size=8, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return runtime.text_model("distilbert-base-uncased", num_labels=num_classes, pretrained=True)  # line 2


def train(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "train": 2 epochs; 76,804 of 66,439,684 parameters trainable."""
    phase = run.phase("train", model, data, epochs=2)  # line 5
    techniques.Lora(  # line 4
        rank=4,
        on=["distilbert.transformer.layer.*.attention.q_lin", "distilbert.transformer.layer.*.attention.v_lin"],
    ).on_model(model)
    # line 4; adapters stay trainable; layers frozen only because of an adapter keep their own dropout
    runtime.freeze(model, only=["distilbert"], keep_dropout=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(  # default: for adapters; new layers learn faster
        runtime.parameter_groups(model, (["pre_classifier", "classifier"], {"lr": 3e-3})),
        lr=1e-3,
    )
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch(  # recorded in training.jsonl
        "distilbert.transformer.layer.0",
        "distilbert.transformer.layer.2",
        "distilbert.transformer.layer.5",
        "classifier",
        every=50,
    )

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))  # logs, keeps the best weights
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
    techniques.merge_adapters(model)  # line 4; into the layers that they adapt
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
