"""Measure how long it takes to solve a head for every strength of L2 regularisation, and how exactly it is solved.

    OMP_NUM_THREADS=1 python bench/solving.py
    python bench/solving.py --features FILE.pt     # of a model: features and classes, for training and validation

README.md in this folder describes the method.
"""

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles

from command_line import CommandLine

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as Leaven starts programs

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from leaven.runtime.solving.linear import LinearProblem, Solution
from leaven.runtime.solving.solver import CLOSE, STRENGTHS, expected_start

Split = tuple[Tensor, Tensor]  # features, classes


def main() -> None:
    line = CommandLine(__doc__)
    line.add("--features", type=Path, help="a list of four tensors (default: drawn, 1,437 samples, 10 classes)")
    line.add("--rounds", type=int, default=5)
    line.add("--size", type=int, default=1280, help="the number of drawn features (default: %(default)s)")
    args = line.read(rounds=1, size=40)
    train, val = read(args.features) if args.features else drawn(args.size)
    print(f"Python {platform.python_version()}, torch {version('torch')}, scikit-learn {version('scikit-learn')}")
    rows, columns = train[0].shape
    print(f"{torch.get_num_threads()} threads; {len(STRENGTHS)} strengths; {rows:,} samples, {columns:,} features\n")
    ways: dict[str, Callable[[Split], object]] = {"Leaven": solved, "scikit-learn": by_scikit_learn}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    wall: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(args.rounds):
        for way, solve in ways.items():
            began, spent = time.perf_counter(), time.process_time()
            solve(train)
            cpu[way].append(time.process_time() - spent)
            wall[way].append(time.perf_counter() - began)
    print("| | CPU time | wall time |\n|---|---|---|")
    for way in ways:
        print(f"| {way} | {shown(cpu[way])} | {shown(wall[way])} |")
    ratios = [ours / theirs for ours, theirs in zip(cpu["Leaven"], cpu["scikit-learn"], strict=True)]
    print(f"| ratio of CPU times | {median(ratios):.2f} | |")
    print(f"\nvalidation samples whose class changes when the head is solved further: {changed(train, val)}")


def drawn(count: int) -> tuple[Split, Split]:
    """Features that are much alike, of ten classes that can't be told apart entirely."""
    rng = torch.Generator().manual_seed(0)
    classes = torch.randint(10, (1617,), generator=rng)
    alike = 0.3 * torch.randn(1617, 100, generator=rng) @ torch.randn(100, count, generator=rng)
    own = 0.25 * torch.randn(10, count, generator=rng)[classes] + torch.randn(1617, count, generator=rng)
    features = (alike + own).relu()
    return (features[:1437], classes[:1437]), (features[1437:], classes[1437:])


def read(file: Path) -> tuple[Split, Split]:
    features, classes, val_features, val_classes = torch.load(file, weights_only=True)
    return (features, classes), (val_features, val_classes)


def solved(train: Split, tolerance: float = CLOSE) -> tuple[LinearProblem, list[tuple[float, Solution]]]:
    """The problem, and its solution for each strength."""
    features, classes = train
    problem = LinearProblem(features, classes, nn.CrossEntropyLoss(), int(classes.max()) + 1)
    found: list[tuple[float, Solution]] = []
    for strength in STRENGTHS:
        found.append((strength, problem.solve(strength, expected_start(problem, strength, found[-2:]), tolerance)))
    return problem, found


def by_scikit_learn(train: Split) -> list[np.ndarray]:
    features = train[0].double().numpy()
    deviation = features.std(0)
    scaled = (features - features.mean(0)) / np.where(deviation > 0, deviation, 1)
    model = LogisticRegression(tol=CLOSE, max_iter=1000, warm_start=True)
    return [model.set_params(C=1 / (s * len(scaled))).fit(scaled, train[1].numpy()).coef_ for s in STRENGTHS]


def changed(train: Split, val: Split) -> str:
    """How many predictions of all heads are others when they are solved a thousand times as closely."""
    problem, found = solved(train)
    inputs, count = val[0].double(), 0
    for strength, close in found:
        exact = problem.solve(strength, close, CLOSE / 1000)
        one, other = (nn.functional.linear(inputs, *problem.layer(each)).argmax(1) for each in (close, exact))
        count += int((one != other).sum())
    return f"{count} of {len(found) * len(inputs)}"


def shown(times: list[float]) -> str:
    low, _, high = quantiles(times, n=4) if len(times) > 1 else times * 3
    return f"{median(times):.2f} s ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
