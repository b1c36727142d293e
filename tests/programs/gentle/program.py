"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

Wake a net from the head down, by steps towards flat valleys, and average its last epochs.

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
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Wake a net from the head down, by steps towards flat valleys, and average its last epochs.",
    )
    return runtime.parse(parser, output="runs/recipe")


def build_data() -> runtime.Data:
    transform = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    dataset = runtime.digits()  # line 4
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return nn.Sequential(  # line 2
        Conv(1, 16),  # layer 0
        ResBlock(16, 16),  # layer 1
        ResBlock(16, 32, stride=2),  # layer 2
        GlobalPool(),  # layer 3
        Linear(32, num_classes),  # layer 4
    )


def train_from_the_head_down(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "from the head down" (line 8): 4 epochs."""
    phase = run.phase("from the head down", model, data, epochs=4)  # line 8
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(runtime.trainable(model), lr=0.1, momentum=0.9)  # line 6
    layer_decay = techniques.LayerDecay(model=model, stages=[["0"], ["1"], ["2"], ["4"]], factor=0.8)  # line 10
    layer_decay.on_optimizer(optimizer)  # divide the optimizer's groups by stage
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    progressive_resizing = techniques.ProgressiveResizing(start=0.5, until=round(0.5 * phase.total_epochs))  # line 11
    model, optimizer = phase.setup(model, optimizer, schedule)  # devices, precision; an interrupted run resumes here
    phase.watch("1", "2", "4", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        runtime.unfreeze_by_epoch(phase.model, epoch, (1, ["2"]), (2, ["1"]), (3, ["0"]))  # line 9
        progressive_resizing.before_epoch(phase)
        for inputs, targets in phase.batches(data.train):
            inputs, targets = progressive_resizing.on_batch(inputs, targets)
            loss = criterion(model(inputs), targets)
            phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)  # NaN ends the run
        phase.end_epoch(task.evaluate(run, model, data.val, metrics, criterion))  # logs, keeps the best weights
    phase.finish()  # the next phase starts from the last epoch's weights


def train_average(run: runtime.Run, model: nn.Module, data: runtime.Data, metrics: task.Metrics) -> None:
    """Phase "average" (line 13): 6 epochs; 19,530 of 19,706 parameters trainable."""
    phase = run.phase("average", model, data, epochs=6)  # line 13
    stochastic_depth = techniques.StochasticDepth(rate=0.1)  # line 16
    stochastic_depth.on_model(model)
    runtime.freeze(model, only=["0"])  # line 14
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(runtime.trainable(model), lr=0.1, momentum=0.9)  # line 6
    schedule = runtime.cosine(optimizer, phase.total_steps, warmup_share=0.05)
    sam = techniques.Sam(optimizer=optimizer, rho=0.05)  # line 17
    swa = techniques.Swa(  # line 18
        model=model,
        data=data,
        optimizer=optimizer,
        phase=phase,
        lr=0.02,
        start=round(0.5 * phase.total_epochs),
    )
    model, optimizer = phase.setup(model, optimizer, schedule, swa=swa)  # by name: what else has state to save
    phase.watch("1", "2", "4", every=50)

    for epoch in phase.epochs():
        runtime.unfreeze_by_epoch(phase.model, epoch, (2, ["1"]))  # line 15
        swa.before_epoch(phase)
        for inputs, targets in phase.batches(data.train):
            for _ in sam.around_step(model):
                loss = criterion(model(inputs), targets)
                phase.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            swa.after_step(model)
            phase.log(loss)
        averaged = swa.model_for_eval(model)
        phase.end_epoch(task.evaluate(run, averaged, data.val, metrics, criterion), weights=averaged)
    stochastic_depth.at_end(model)
    swa.at_end(model)
    phase.finish()


def main() -> None:
    args = parse_args()
    run = runtime.Run(
        args,
        seed=0,
        monitor="val.accuracy",
        epochs=10,  # of all phases; only to estimate the time left
        threads=1,  # default: its layers are too small for several
    )
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    with run.training("from the head down", "average"):  # with --finish, phases after the best epoch so far are skipped
        train_from_the_head_down(run, model, data, metrics)
        train_average(run, model, data, metrics)

    run.load_best(model)  # the best epoch of the last phase, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
