"""Measure planned training against loops and trainers that compute everything in every epoch.

    python bench/planner.py DATA                # a folder with hymenoptera, resnet_cifar10 and cifar10_jpg_subset

Every time is that of a whole process, from its start to its end: the median over the rounds, with the lowest and the
highest; the ways to train take turns. The time on the clock counts; on a busy machine, `--by cpu` compares the time
that processors spent. Leaven's store is empty when a run begins. It takes about an hour and a half on two cores. Exits
with 1 if a goal is missed. README.md in this folder describes the method.
"""

import csv
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

from command_line import CommandLine

HERE = Path(__file__).with_name("planner")
FEW = 5  # epochs
LAST_STAGE = ("blocks.6", "conv_head", "bn2", "classifier")
PEERS = {  # a program in `planner/`, and what its environment needs from PyPI
    "Lightning's Trainer": ("lightning_trainer.py", ("lightning", "timm", "torchvision")),
    "Hugging Face's Trainer": ("hugging_face_trainer.py", ("transformers[torch]", "timm", "torchvision")),
    "fastai's Learner": ("fastai_learner.py", ("fastai", "timm")),
}


class Result(NamedTuple):
    """One training: its seconds by the clock and of processors, its best validation accuracy, its memory in MB, and the
    seconds to its first epoch."""

    seconds: float
    processors: float
    accuracy: float
    megabytes: float
    first_epoch: float = 0.0


class Goal(NamedTuple):
    """How many times as long one way may take, or has to take, as another."""

    part: str
    way: str
    other: str
    least: float = 0.0
    most: float = float("inf")


GOALS = (
    Goal("probe", "tutorial's loop", "leaven", least=12),
    *(Goal("trainers", peer, "leaven", least=1) for peer in PEERS),
    Goal("augmented", "tutorial's loop", "leaven", least=1.4),
    Goal("augmented", "tutorial's loop", "leaven, views=8", least=3),
    Goal("last stage", "tutorial's loop", "leaven", least=2),
    Goal("distillation", "leaven, distilled", "leaven, alone", most=1.15),
    Goal("rates", "leaven, 32 rates", "leaven, one rate", most=2.5),
)


def main() -> int:
    line = CommandLine(__doc__, data="a folder with data and weights")
    line.add("--rounds", type=int, default=3, help="how often each way is timed (default: %(default)s)")
    line.add("--only", action="append", help="only this part; may be repeated")
    line.add("--epochs", type=int, help="another number of epochs than the goals are for, to try it out")
    line.add("--by", choices=("clock", "cpu"), default="clock", help="which time the goals are for")
    args = line.read(rounds=1, only=["probe"], epochs=1)
    names = ("torch", "torchvision", "timm")
    print(f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in names)}")
    bench = Bench(args.data, args.work, args.epochs, args.by)
    for part, ways in bench.parts().items():
        if not args.only or part in args.only:
            bench.measure(part, ways, args.rounds)
    return line.judged(bench.print_goals())


class Bench:
    """Times ways to train, in turns, and keeps the results, so that an interrupted benchmark goes on where it was."""

    def __init__(self, data: Path, work: Path, epochs: int | None, by: str) -> None:
        self.photos = data / "hymenoptera" / "hymenoptera_data"
        self.trained = data / "resnet_cifar10" / "resnet56-4bfd9763.th"
        self.archive = data / "cifar10_jpg_subset" / "cifar10_subset.zip"
        self.work = work
        self.epochs = epochs
        self.by = by
        self.weights = work / "efficientnet_lite0.pth"
        self.results: dict[str, dict[str, list[Result]]] = {}
        if not self.weights.is_file():
            self._call([sys.executable, str(HERE.parent / "defaults" / "save_weights.py"), str(self.weights)])
        self.images = self._images()

    def parts(self) -> dict[str, dict[str, Callable[[], Result]]]:
        """The ways to train of each part; the first is the one that the others are compared with."""
        tutorial, leaven, peer = self._tutorial, self._leaven, self._peer
        photos = ("--photos", str(self.photos))
        images = ("--images", str(self.images))
        return {
            "probe": {
                "leaven": lambda: leaven("probe", *photos),
                "tutorial's loop": lambda: tutorial(25),
            },
            "trainers": {  # few epochs: each one more is work for them, and hardly any for stored outputs
                "leaven": lambda: leaven("probe", *photos, "--set", f"train.epochs={FEW}"),
                **{name: lambda name=name: peer(name) for name in PEERS},  # type: ignore[misc]
            },
            "second run": {
                "first": lambda: leaven("probe", *photos),
                "another rate": lambda: leaven("probe", *photos, "--lr", "1e-3", is_cold=False),
            },
            "augmented": {
                "leaven": lambda: leaven("augmented", *photos),
                "leaven, views=8": lambda: leaven("views", *photos),
                "tutorial's loop": lambda: tutorial(25, "--augment"),
            },
            "last stage": {
                "leaven": lambda: leaven("last_stage", *photos),
                "tutorial's loop": lambda: tutorial(10, "--trainable", *LAST_STAGE),
            },
            "distillation": {
                "leaven, alone": lambda: leaven("alone", *images),
                "leaven, distilled": lambda: leaven("taught", *images, "--trained", str(self.trained)),
            },
            "rates": {
                "leaven, one rate": lambda: leaven("probe", *photos),
                "leaven, 32 rates": lambda: leaven("rates", *photos),
            },
        }

    def measure(self, part: str, ways: dict[str, Callable[[], Result]], rounds: int) -> None:
        file = self.work / f"{part.replace(' ', '_')}.json"
        known: dict[str, list[list[float]]] = json.loads(file.read_text()) if file.is_file() else {}
        for _ in range(rounds):
            for name, way in ways.items():
                found = known.setdefault(name, [])
                if len(found) < rounds:
                    found.append(list(way()))
                    file.write_text(json.dumps(known, indent=2))
        self.results[part] = {name: [Result(*each) for each in known[name][:rounds]] for name in ways}
        self._print(part)

    def _print(self, part: str) -> None:
        print(f"\n{part}")
        for name, found in self.results[part].items():
            seconds = [self._time(each) for each in found]
            accuracy, memory = median(each.accuracy for each in found), max(each.megabytes for each in found)
            times = f"{median(seconds):7.1f} s   {min(seconds):.1f} to {max(seconds):.1f}"
            print(f"  {name:<24} {times:<32} accuracy {100 * accuracy:.1f} %   {memory:,.0f} MB", flush=True)

    def print_goals(self) -> bool:
        """The ratio of each goal, and of time and memory where a goal is not a ratio of times; whether all are met."""
        lines: list[tuple[bool, str]] = []
        for goal in GOALS:
            if goal.part in self.results:
                ratios = self._ratios(goal)
                bound = f"at least {goal.least:g}" if goal.least else f"at most {goal.most:g}"
                is_met = goal.least <= median(ratios) <= goal.most
                shown = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {bound}"
                lines.append((is_met, f"{goal.part}: {goal.way} / {goal.other}: {shown}"))
        if second := self.results.get("second run"):
            first, other = (median(each.first_epoch for each in found) for found in second.values())
            shown = f"{first:.1f} s, the second time {other:.2f} s, at most a tenth"
            lines.append((other <= first / 10, f"to the end of the first epoch: {shown}"))
        for part, found in self.results.items():
            if loop := found.get("tutorial's loop"):
                most = max(each.megabytes for name, ours in found.items() if "leaven" in name for each in ours)
                more = most - median(each.megabytes for each in loop)
                lines.append((more <= 300, f"{part}: {more:+,.0f} MB than the tutorial's loop, at most +300"))
        print()
        for is_met, line in lines:
            print(f"{'met   ' if is_met else 'MISSED'} {line}")
        return all(is_met for is_met, _ in lines)

    def _ratios(self, goal: Goal) -> list[float]:
        """Of every round."""
        ways = self.results[goal.part]
        pairs = zip(ways[goal.way], ways[goal.other], strict=True)
        return [self._time(one) / self._time(other) for one, other in pairs]

    def _time(self, result: Result) -> float:
        return result.seconds if self.by == "clock" else result.processors

    # -- the ways to train

    def _leaven(self, recipe: str, *words: str, is_cold: bool = True) -> Result:
        """`leaven run` in a process of its own; with an empty store, if it is cold."""
        cache, output = self.work / "cache", self.work / "runs"
        environment = {**os.environ, "LEAVEN_CACHE": str(cache)}
        command = [sys.executable, "-m", "leaven"]
        file = str(HERE / f"{recipe}.leaven")
        self._call([*command, "check", file, *words], environment)  # reads the installed libraries, once
        if is_cold:
            shutil.rmtree(cache / "store", ignore_errors=True)
        shutil.rmtree(output, ignore_errors=True)
        shorter = ["--set", f"train.epochs={self.epochs}"] if self.epochs else []
        command = [*command, "run", file, *words, *shorter, "--output", str(output)]
        seconds, processors, megabytes, lines = timed(command, environment)
        began = next(at for at, line in lines if "samples for training" in line)
        ended = next((at for at, line in lines if " 1/" in line or line.startswith("1/")), seconds)
        return Result(seconds, processors, _best(output), megabytes, ended - began)

    def _tutorial(self, epochs: int, *words: str) -> Result:
        return self._script(Path(sys.executable), "tutorial.py", epochs, *words)

    def _peer(self, name: str) -> Result:
        script, packages = PEERS[name]
        return self._script(self._environment(script.partition("_")[0], packages), script, FEW)

    def _script(self, python: Path, script: str, epochs: int, *words: str) -> Result:
        given = [str(self.photos), str(self.weights), "--epochs", str(self.epochs or epochs), *words]
        seconds, processors, megabytes, lines = timed([str(python), str(HERE / script), *given], dict(os.environ))
        return Result(seconds, processors, float(lines[-1][1]), megabytes)

    def _environment(self, name: str, packages: Sequence[str]) -> Path:
        """A Python with these packages, in an environment of its own."""
        place = self.work / name
        if not (place / "is-ready").exists():
            self._call([sys.executable, "-m", "venv", str(place)])
            self._call([str(place / "bin" / "pip"), "install", "--quiet", *packages])
            (place / "is-ready").touch()
        return place / "bin" / "python"

    def _call(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    # -- the data

    def _images(self) -> Path:
        """250 images per class of CIFAR-10 for training, 100 for validation."""
        folder = self.work / "cifar"
        if not folder.exists():
            with zipfile.ZipFile(self.archive) as files:
                for place, name in _chosen(files.namelist()):
                    file = folder / place / Path(name).name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(files.read(name))
        return folder


def _chosen(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    folders: dict[str, list[str]] = {}
    for name in names:
        if name.endswith(".jpg"):
            folders.setdefault(name.rpartition("/")[0], []).append(name)
    for folder, files in folders.items():
        split, label = folder.split("/")
        count, place = (250, "train") if split == "train" else (100, "val")
        for name in random.Random(0).sample(sorted(files), count):
            yield f"{place}/{label}", name


def _best(output: Path) -> float:
    """The best validation accuracy of the runs in a folder."""
    found: list[float] = []
    for table in output.rglob("metrics.csv"):
        with table.open(encoding="utf-8") as lines:
            found += [float(line["val.accuracy"]) for line in csv.DictReader(lines)]
    return max(found)


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float, float, list[tuple[float, str]]]:
    """The seconds that a process takes, those of processors with its children's, the largest resident set in MB, and
    the lines that it prints, each with its time."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**environment, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    lines = [(time.perf_counter() - began, line.strip()) for line in process.stdout if line.strip()]
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000, lines


if __name__ == "__main__":
    sys.exit(main())
