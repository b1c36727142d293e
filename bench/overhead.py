"""Measure the overhead of a generated program over a hand-written PyTorch loop and over Lightning's Trainer.

The three train in one process and take turns, a few steps each, so that other load on the machine affects all. Prints
medians, interquartile ranges and ratios; exits with 1 if an epoch of the program takes more than 1.03 times the CPU
time of the hand-written loop, or not less than the Trainer. README.md in this folder describes the method.
"""

import contextlib
import io
import logging
import math
import os
import platform
import runpy
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import lightning
import timm
import torch
from command_line import CommandLine
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T

import leaven
from leaven.language.source import Source
from leaven.runtime.run.run import Run

RECIPE = """
model mobilenetv3_small_050(in_chans=1)
data  digits() {{
    split train={train} samples, val=180 samples
    eval  resize(64) -> to_tensor() -> normalize([0.5], [0.5])
}}
optimizer adamw(lr=1e-3)
train epochs={epochs}
"""
BATCH = 32
MOST = 1.03
# One compute thread each, and one memory arena for all: each thread would otherwise get its own.
ALONE = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}

Step = Callable[[], None]


class Size(NamedTuple):
    """How much is trained. Several turns are an epoch, of which the last also validates and saves."""

    epochs: int = 10
    steps: int = 45  # of an epoch
    turn: int = 9  # steps

    @property
    def samples(self) -> int:
        return self.steps * BATCH


WHOLE, SMALLEST = Size(), Size(epochs=3, steps=4, turn=2)


class Cost(NamedTuple):
    """The time of a turn or an epoch, in milliseconds."""

    wall: float
    processor: float


class Turns:
    """Runs several trainings in threads, one at a time, for a few steps each."""

    def __init__(self, size: Size, trainings: dict[str, Callable[[Size, Step], None]]) -> None:
        self._size = size
        self.costs: dict[str, list[Cost]] = {name: [] for name in trainings}
        self._go = {name: threading.Semaphore(0) for name in trainings}
        self._done = threading.Semaphore(0)
        self._failed: list[BaseException] = []
        self._ended: set[str] = set()
        self._threads = [
            threading.Thread(target=self._train, args=(name, train), daemon=True) for name, train in trainings.items()
        ]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        names = deque(self._go)
        turns = self._size.epochs * self._size.steps // self._size.turn
        for turn in range(turns + 1):  # the first turn is the setup before the first step
            names.rotate()
            for name in names:
                if name in self._ended:
                    raise RuntimeError(f"{name} ended after {turn} of {turns + 1} turns")
                wall, processor = time.perf_counter(), time.process_time()
                self._go[name].release()
                self._done.acquire()
                if self._failed:
                    raise self._failed[0]
                took = time.perf_counter() - wall, time.process_time() - processor
                self.costs[name].append(Cost(took[0] * 1000, took[1] * 1000))

    def _train(self, name: str, train: Callable[[Size, Step], None]) -> None:
        seen = 0

        def step() -> None:
            """Called before every step; returns when it is this training's turn."""
            nonlocal seen
            if seen % self._size.turn == 0:
                self._done.release()
                self._go[name].acquire()
            seen += 1

        self._go[name].acquire()
        try:
            train(self._size, step)
        except BaseException as problem:
            self._failed.append(problem)
        self._ended.add(name)
        self._done.release()


# -- the three


def program(size: Size, step: Step) -> None:
    """What `leaven generate` prints."""
    recipe = RECIPE.format(train=size.samples, epochs=size.epochs)
    Path("program.py").write_text(leaven.generate(Source("overhead.leaven", recipe)), encoding="utf-8")
    made: dict[str, Any] = runpy.run_path("program.py", run_name="program")
    train = made["train"]

    def in_turns(run: Run, *others: Any) -> None:
        run.before_batch = lambda phase: step()
        train(run, *others)

    made["main"].__globals__["train"] = in_turns
    words, sys.argv = sys.argv, ["program.py"]
    try:
        made["main"]()
    finally:
        sys.argv = words


class Digits(Dataset[tuple[Tensor, int]]):
    """The same images, as in a hand-written program."""

    def __init__(self, places: range) -> None:
        images, self.labels = load_digits(return_X_y=True)
        self.images = (images.reshape(-1, 8, 8)[places] * 255 / 16).round().astype("uint8")
        self.labels = self.labels[places]
        self.prepare = T.Compose(
            [T.Resize(64), T.ToImage(), T.ToDtype(torch.float32, scale=True), T.Normalize([0.5], [0.5])]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return self.prepare(Image.fromarray(self.images[place])), int(self.labels[place])


def loaders(size: Size) -> tuple[DataLoader[Any], DataLoader[Any]]:
    train, val = Digits(range(size.samples)), Digits(range(1440, 1620))
    return DataLoader(train, batch_size=BATCH, shuffle=True), DataLoader(val, batch_size=BATCH)


def built(size: Size) -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    model = timm.create_model("mobilenetv3_small_050", in_chans=1, num_classes=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: (1 + math.cos(math.pi * min(1.0, at / (size.epochs * size.steps)))) / 2
    )
    return model, optimizer, schedule


def bare(size: Size, step: Step) -> None:
    """A loop as in the tutorials, which measures and saves once an epoch."""
    train, val = loaders(size)
    model, optimizer, schedule = built(size)
    for _ in range(size.epochs):
        model.train()
        total = 0.0
        for images, labels in stepping(train, step):
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            total += loss.item()
        model.eval()
        right, wrong = 0, 0.0
        with torch.no_grad():
            for images, labels in val:
                outputs = model(images)
                wrong += F.cross_entropy(outputs, labels, reduction="sum").item()
                right += int((outputs.argmax(1) == labels).sum())
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
        torch.save({**state, "scores": [total, right, wrong]}, "bare.pt")


def stepping(batches: DataLoader[Any], step: Step) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches; each is loaded in its own turn."""
    read = iter(batches)
    for _ in range(len(batches)):
        step()
        yield next(read)


class Lit(lightning.LightningModule):
    """The same for Lightning."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.model, self._optimizer, self._schedule = built(size)
        self.accuracy = Accuracy(task="multiclass", num_classes=10)

    def training_step(self, batch: tuple[Tensor, Tensor], _number: int) -> Tensor:
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        self.log("train.loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], _number: int) -> None:
        outputs = self.model(batch[0])
        self.accuracy(outputs, batch[1])
        self.log("val.loss", F.cross_entropy(outputs, batch[1]))
        self.log("val.accuracy", self.accuracy)

    def configure_optimizers(self) -> Any:
        return [self._optimizer], [{"scheduler": self._schedule, "interval": "step"}]


class Stepping(lightning.Callback):
    def __init__(self, step: Step) -> None:
        self._step = step

    def on_train_batch_start(self, *_: Any) -> None:
        self._step()


def trainer(size: Size, step: Step) -> None:
    """Lightning's Trainer with its defaults, without progress bar and summary."""
    train, val = loaders(size)
    lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=size.epochs,
        callbacks=[Stepping(step)],
        default_root_dir="lightning",
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    ).fit(Lit(size), train, val)


# -- results


def main() -> int:
    line = CommandLine(__doc__)
    size = SMALLEST if line.read().smoke else WHOLE
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    turns = Turns(size, {"program": program, "bare": bare, "trainer": trainer})
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(said):
        turns.run()
    per_epoch = size.steps // size.turn
    # the setup and the first epoch are not counted
    warm = {name: costs[1 + per_epoch :] for name, costs in turns.costs.items()}
    steps = {
        name: [of_step(cost, size.turn) for at, cost in enumerate(costs, 1) if at % per_epoch]
        for name, costs in warm.items()
    }
    epochs = {name: joined(costs, per_epoch) for name, costs in warm.items()}

    print(versions())
    count = len(steps["bare"]) * size.turn
    turns_of = f"in turns of {size.turn} steps"
    print(f"{count} steps of each between the ends of epochs, {len(epochs['bare'])} epochs, {turns_of}")
    print("milliseconds: median (interquartile range)\n")
    ratios = table("a step", steps) and table("an epoch", epochs)
    is_kept = ratios["bare"] <= MOST and ratios["trainer"] < 1
    print(f"by CPU time, an epoch takes {ratios['bare']:.3f} of bare and {ratios['trainer']:.3f} of Trainer")
    return line.judged(is_kept)


def of_step(cost: Cost, turn: int) -> Cost:
    return Cost(cost.wall / turn, cost.processor / turn)


def joined(costs: Sequence[Cost], count: int) -> list[Cost]:
    """Every `count` turns added up."""
    groups = [costs[at : at + count] for at in range(0, len(costs), count)]
    return [Cost(sum(c.wall for c in group), sum(c.processor for c in group)) for group in groups]


def table(title: str, costs: dict[str, list[Cost]]) -> dict[str, float]:
    """Print the times and the ratios; returns the ratios by CPU time."""
    print(f"{title:24}{'wall time':>26}{'CPU time':>26}")
    for name, words in (("bare", "bare loop"), ("program", "generated program"), ("trainer", "Lightning's Trainer")):
        print(f"  {words:22}" + "".join(cell(values, 1) for values in zip(*costs[name], strict=True)).rstrip())
    found: dict[str, float] = {}
    for name in ("bare", "trainer"):
        cells = []
        for at in range(2):
            pairs = [one[at] / other[at] for one, other in zip(costs["program"], costs[name], strict=True)]
            cells.append(cell(pairs, 3))
            found[name] = median(pairs)
        print(f"  {'program / ' + name:22}" + "".join(cells).rstrip())
    print()
    return found


def cell(values: Sequence[float], digits: int) -> str:
    low, _, high = quantiles(values, n=4)
    return f"{median(values):12.{digits}f}  {f'{low:.{digits}f} to {high:.{digits}f}':14}"


def versions() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "lightning", "timm"))
    return f"Python {platform.python_version()}, {packages}, {platform.machine()}, one thread"


if __name__ == "__main__":
    if not ALONE.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALONE})
    sys.exit(main())
