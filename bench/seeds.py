"""Measure how often `leaven compare --seeds` calls a recipe better that is the same, and names one that is better.

    python bench/seeds.py --work FOLDER

Trains a small recipe with many seeds. Groups of three runs are paired, so that the two groups of a pair differ by the
seed alone; then the same with groups of a recipe that learns longer. Exits with 1 if more than a tenth of the equal
pairs are told apart, or the better recipe is named in less than nine tenths of the others. README.md in this folder
describes the method.
"""

import multiprocessing
import os
import platform
import runpy
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

from command_line import CommandLine

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from leaven.formats import run_folder
from leaven.lab import compare
from leaven.lab.comparison.paired import share_interval
from leaven.language.source import Source
from leaven.planning.compiling import compile_source
from leaven.runs.starting import new_run
from leaven.statements.options import Options, with_values

RECIPE = """
model conv(8) -> global_pool() -> linear(classes)
data  digits() {{ split train=200 samples, val=100 samples, test=1400 samples, seed=3 }}
optimizer adamw(lr=0.03)
train epochs={epochs}, batch=32
"""
EPOCHS = {"shorter": 12, "longer": 24}
GROUP = 3  # runs of a group
MOST, LEAST = 0.1, 0.9


def main() -> None:
    line = CommandLine(__doc__)
    line.add("--pairs", type=int, default=40, help="the number of pairs that differ by the seed alone")
    args = line.read(pairs=1)
    print(f"Python {platform.python_version()}, torch {torch.__version__}, leaven {version('leaven')}")
    better = max(1, args.pairs // 4)
    groups = [trained(args.work, "shorter", number) for number in range(2 * args.pairs)]
    longer = [trained(args.work, "longer", number) for number in range(better)]
    equal = [compare(a, b, seeds=True).seeds for a, b in zip(groups[::2], groups[1::2], strict=True)]
    other = [compare(a, b, seeds=True).seeds for a, b in zip(groups, longer, strict=False)]
    told = sum(bool(test and test.better) for test in equal)
    named = sum(bool(test and test.better == "B") for test in other)
    wrong = sum(bool(test and test.better == "A") for test in other)
    errors = sorted(error for test in equal if test for group in (test.a, test.b) for error in group.values())
    print(f"errors of {len(errors)} runs of the same recipe: {errors[0]:.3f} to {errors[-1]:.3f}")
    print(f"the same recipe: told apart in {told} of {len(equal)} pairs ({interval(told, len(equal))})")
    print(
        f"a better recipe: named in {named} of {len(other)} pairs ({interval(named, len(other))}), wrongly in {wrong}"
    )
    sys.exit(line.judged(told <= MOST * len(equal) and named >= LEAST * len(other)))


def interval(count: int, total: int) -> str:
    found = share_interval(count, total)
    return f"95 % interval {100 * found.low:.0f} to {100 * found.high:.0f} %"


def trained(work: Path, name: str, number: int) -> Path:
    """The folder of a group of finished runs of a recipe, whose seeds no other group of it has."""
    group = work / f"{name}-{number}"
    recipe = work / f"{name}.leaven"
    recipe.write_text(RECIPE.format(epochs=EPOCHS[name]), encoding="utf-8")
    for seed in range(GROUP * number, GROUP * (number + 1)):
        run = group / f"seed-{seed}"
        if not run_folder.is_finished(run):
            shutil.rmtree(run, ignore_errors=True)
            train(recipe, group, seed)
    return group


def train(recipe: Path, group: Path, seed: int) -> None:
    """Run a recipe with a seed, as `leaven run` does, but in a fork of this process, which has imported torch."""
    options = with_values(Options(), {}, {"train.seed": seed}, (), output=str(group))
    source = Source(str(recipe), recipe.read_text(encoding="utf-8"))
    compiled = compile_source(source, options)
    assert compiled.recipe is not None
    assert compiled.plan is not None
    folder, flags = new_run(source, compiled.recipe, compiled.plan, name=f"seed-{seed}")
    process = multiprocessing.get_context("fork").Process(target=run, args=(folder, flags))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"the run with seed {seed} failed: {folder}")


def run(folder: Path, flags: list[str]) -> None:
    program = str(folder / run_folder.PROGRAM)
    sys.argv = [program, "--resume", str(folder), *flags]
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
