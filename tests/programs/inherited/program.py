"""recipe.leaven, compiled by Leaven. Yours to read, run and edit.

The base without mixing, in larger steps on a small machine.

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
from leaven.tasks import classification as task


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The base without mixing, in larger steps on a small machine.")
    parser.add_argument("--lr", type=float, default=0.03)  # option --lr
    parser.add_argument("--epochs", type=int, default=6, help="how long to train")  # base.leaven, line 3
    return runtime.parse(parser, output="runs/digits")  # base.leaven, line 12


def build_data() -> runtime.Data:
    transform = T.Compose(
        [
            T.Resize(32, interpolation="bicubic"),  # base.leaven, line 6
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.449], [0.226]),
        ]
    )
    dataset = runtime.digits()  # base.leaven, line 6
    split = runtime.split(dataset, train=80, val=10, test=10, seed=0)
    # base.leaven, line 11
    return runtime.Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=16, seed=3)


@runtime.model_builder  # lets the bundle rebuild the model
def build_model(num_classes: int) -> nn.Module:
    return timm.create_model("mobilenetv3_small_050", in_chans=1, num_classes=num_classes)  # base.leaven, line 5


def train(
    run: runtime.Run,
    model: nn.Module,
    data: runtime.Data,
    metrics: task.Metrics,
    args: argparse.Namespace,
) -> None:
    """Phase "train": as many epochs as the command line says."""
    phase = run.phase("train", model, data, epochs=args.epochs, accumulate=4)  # line 6; base.leaven, line 11
    criterion = nn.CrossEntropyLoss()
    # line 4; base.leaven, line 9
    optimizer = torch.optim.SGD(runtime.trainable(model), lr=args.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    schedule = runtime.linear(optimizer, phase.total_steps, warmup_steps=10)  # base.leaven, line 10; option --set
    ema = techniques.Ema(model=model, decay=0.9)  # option --with
    # devices, precision; an interrupted run resumes here; by name: what else has state to save
    model, optimizer = phase.setup(model, optimizer, schedule, ema=ema)
    phase.watch("blocks.0", "blocks.2", "blocks.5", "classifier", every=50)  # recorded in training.jsonl

    for epoch in phase.epochs():  # saves a checkpoint after each epoch
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            phase.backward(loss / phase.batches_in_step)  # line 6
            if phase.is_step:
                phase.clip_gradients(optimizer, max_norm=1.0)  # base.leaven, line 11
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
    torch.use_deterministic_algorithms(True)  # line 6
    args = parse_args()
    run = runtime.Run(
        args,
        seed=3,  # base.leaven, line 11
        monitor="val.accuracy",
        precision="bf16-mixed",  # line 6
        threads=1,  # default: its layers are too small for several
    )
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    train(run, model, data, metrics, args)

    run.load_best(model)  # the best epoch, by val.accuracy
    scores = task.evaluate(run, model, data.test, metrics)
    run.report(scores)
    bundle.save_run(run, model, data, scores)


if __name__ == "__main__":
    runtime.guard(main)  # failures are reported at their recipe line or, once this file is edited, at its own
