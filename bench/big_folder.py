"""Measure `leaven check` and the start of `leaven run --quick` on a folder of 1,300,000 images against a small folder.

Prints medians and interquartile ranges; exits with 1 if a check with a warm cache takes 0.2 seconds longer than one on
the small folder, or if the first batch comes after more than 20 seconds or takes 600 MB more memory. README.md in this
folder describes the method.
"""

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from command_line import CommandLine
from PIL import Image
from starting.first_batch import Start, output, row, start, versions, write_recipe

Folders = dict[str, tuple[int, int]]  # classes, images of each
FOLDERS: Folders = {"small": (10, 13), "big": (1_000, 1_300)}
CHECKS, RUNS = 10, 3
MOST_SECONDS, MOST_START, MOST_MEMORY = 0.2, 20.0, 600  # of a check more than on the small folder; seconds; megabytes
T = TypeVar("T")
LINKS = 30_000  # to one file; common file systems allow 32,000 or 65,000


def main() -> int:
    line = CommandLine(__doc__)
    line.add("--checks", type=int, default=CHECKS, help="of each folder (default: %(default)s)")
    line.add("--runs", type=int, default=RUNS, help="of each folder (default: %(default)s)")
    args = line.read(checks=2, runs=2)
    folders = {**FOLDERS, "big": (20, 13)} if args.smoke else FOLDERS
    return line.judged(measure(args.work, folders, args.checks, args.runs))


def measure(work: Path, folders: Folders, checked: int, started: int) -> bool:
    """Whether the goals are met."""
    if os.statvfs(work).f_favail < 100_000:
        sys.exit(f"{work}: too few inodes are free")
    for name, (classes, images) in folders.items():
        make_folder(work, name, classes, images)

    def check(name: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output(work, "-m", "leaven", "check", f"{name}.leaven")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    check("small")  # indexes the libraries, gets the model's layers, compiles bytecode
    first = check("big")
    checks = alternating(check, checked)
    starts = alternating(lambda name: start(work, "--quick", f"{name}.leaven"), started)
    print(versions())
    print(", ".join(f"{name}: {classes * images:,} images" for name, (classes, images) in folders.items()))
    print(f"{checked} checks and {started} starts of each, alternating: median (interquartile range)\n")
    return report(first, checks, starts)


def alternating(function: Callable[[str], T], times: int) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {name: [] for name in FOLDERS}
    for _ in range(times):
        for name in FOLDERS:
            found[name].append(function(name))
    return found


def report(first: float, checks: dict[str, list[float]], starts: dict[str, list[Start]]) -> bool:
    print(f"{'first check of the big folder, CPU seconds':50}{first:8.2f}")
    for name in FOLDERS:
        print(row(f"check, {name}, CPU seconds", checks[name]))
    for at, words in enumerate(("seconds", "CPU seconds", "peak MB")):
        for name in FOLDERS:
            print(row(f"run --quick to the first batch, {name}, {words}", [one[at] for one in starts[name]]))
    more = median(checks["big"]) - median(checks["small"])
    memory = median(one.memory for one in starts["big"]) - median(one.memory for one in starts["small"])
    wall = median(one.wall for one in starts["big"])
    print(f"\na check takes {more:.3f} s more; the first batch comes after {wall:.1f} s and takes {memory:.0f} MB more")
    return more <= MOST_SECONDS and wall <= MOST_START and memory <= MOST_MEMORY


def make_folder(work: Path, name: str, classes: int, images: int) -> None:
    """A recipe and its folder of hard links to a few noisy images; nothing is made that is there already."""
    write_recipe(work, name, model="resnet18()", folder=name, transforms="resize([32, 32])")
    (work / "images").mkdir(exist_ok=True)
    for number in range(-(-classes * images // LINKS)):
        file = work / "images" / f"{name}-{number}.jpg"
        if not file.exists():
            Image.effect_noise((64, 64), 20 + number).convert("RGB").save(file, quality=60)
    for at in range(classes):
        folder = work / name / f"n{at:08}"
        if folder.exists():
            continue
        folder.mkdir(parents=True)
        for index in range(images):
            source = work / "images" / f"{name}-{(at * images + index) // LINKS}.jpg"
            os.link(source, folder / f"{folder.name}_{index}.jpg")


if __name__ == "__main__":
    sys.exit(main())
