"""Measure how many threads a training step should use: CPU time and wall time, for models from tiny to real.

    python bench/threads.py               # as busy as the machine is
    python bench/threads.py --busy 4      # with four other processes that compute

One thread, two that sleep while they wait for work (`OMP_WAIT_POLICY=passive`, with which Leaven starts programs), and
two that spin (OpenMP's default). README.md in this folder describes the method.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from statistics import median
from typing import Any

from command_line import CommandLine

WAYS = {"one": (1, "passive"), "two, sleeping": (2, "passive"), "two, spinning": (2, None)}
BATCH = 32


def main() -> None:
    line = CommandLine(__doc__)
    line.add("--busy", type=int, default=0, help="number of other processes that compute")
    line.add("--seconds", type=float, default=4, help="for each model and way (default: %(default)s)")
    line.add("--only", action="append", help="only this model; may be repeated")
    line.add("--measure", help=argparse.SUPPRESS)  # in a process of its own: a model
    args = line.read(only=["head"], seconds=0.0)
    if args.measure:
        print(json.dumps(measured(args.measure, args.seconds)))
        return
    print(f"Python {platform.python_version()}, torch {version('torch')}, {os.cpu_count()} cores, batches of {BATCH}\n")
    print("| model | FLOPs of a step | threads | CPU time of a step | wall time | the fastest |")
    print("|---|---|---|---|---|---|")
    with others(args.busy):
        for name in args.only or MODELS:
            for way, (threads, waiting) in WAYS.items():
                environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
                environment.pop("OMP_WAIT_POLICY", None)
                environment |= {"OMP_WAIT_POLICY": waiting} if waiting else {}
                words = [sys.executable, __file__, "--measure", name, "--seconds", str(args.seconds)]
                done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
                found = json.loads(done.stdout)
                times = " | ".join(f"{1000 * found[time]:.2f} ms" for time in ("cpu", "wall", "fastest"))
                print(f"| {name} | {found['flops'] / 1e6:,.0f} M | {way} | {times} |", flush=True)


def measured(name: str, seconds: float) -> dict[str, float]:
    """A step's FLOPs (forward and backward), and its times: at least two steps, for about so many seconds."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(0)
    model, shape = MODELS[name]()
    inputs, targets = torch.randn(BATCH, *shape), torch.zeros(BATCH, dtype=torch.long)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    with FlopCounterMode(display=False) as counter:
        step()
    step()
    walls: list[float] = []
    start, cpu = time.perf_counter(), time.process_time()
    while len(walls) < 2 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        walls.append(time.perf_counter() - before)
    spent = (time.process_time() - cpu) / len(walls)
    return {"flops": counter.get_total_flops(), "cpu": spent, "wall": median(walls), "fastest": min(walls)}


def _head() -> Any:
    from torch import nn

    return nn.Linear(1280, 10), (1280,)


def _convolutions(channels: int, size: int) -> Any:
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in ((3, channels), (channels, 2 * channels), (2 * channels, 2 * channels)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, 10)), (3, size, size)


def _timm(name: str, size: int) -> Any:
    import timm

    return timm.create_model(name, num_classes=10), (3, size, size)


MODELS: dict[str, Callable[[], Any]] = {
    "head": _head,
    "3 convolutions, 8 channels, 8 px": lambda: _convolutions(8, 8),
    "3 convolutions, 16 channels, 16 px": lambda: _convolutions(16, 16),
    "3 convolutions, 32 channels, 32 px": lambda: _convolutions(32, 32),
    "mobilenetv3_small_050, 64 px": lambda: _timm("mobilenetv3_small_050", 64),
    "efficientnet_lite0, 64 px": lambda: _timm("tf_efficientnet_lite0", 64),
}


@contextmanager
def others(count: int) -> Iterator[None]:
    """Other processes that compute, each with one thread."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


if __name__ == "__main__":
    main()
