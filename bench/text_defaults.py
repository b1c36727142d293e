"""Measure the defaults for texts: the validation accuracy by learning rate, for what is trainable.

    python bench/text_defaults.py DATA --work FOLDER        # a folder with sst2_sentence: train.tsv, dev.tsv

Two datasets, with as many texts for training as for validation: sentences of SST-2, and the first sentences of
docstrings, whose class is the library that they are from. README.md in this folder describes the method.
"""

import argparse
import ast
import csv
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from trained_recipes import kept, last_accuracy, train

LIBRARIES = ("numpy", "scipy", "sklearn", "matplotlib", "torchmetrics", "timm")
LONGEST = 300  # letters of a docstring's sentence
DATA = 'model minilm(pretrained=true)\ndata csv("{data}", text="text", label="label")\n'
HEAD = "freeze all - head\noptimizer adamw(lr={rate})\n"
LORA = 'lora rank=8, on="*query" + "*value"\noptimizer adamw(lr={rate})\n'
ALL = "optimizer adamw(lr={rate}) {{ group head, lr={ten} }}\n"
WAYS = {  # what is trainable, and for how long: the recipe, and the rates
    "a head, 10 epochs": (HEAD + "train epochs=10, exact=false\n", (1e-3, 3e-3, 1e-2, 3e-2)),
    "LoRA, 4 epochs": (LORA + "train epochs=4\n", (5e-4, 1e-3, 2e-3, 5e-3)),
    "everything, 4 epochs": (ALL + "train epochs=4\n", (2e-5, 5e-5, 1e-4, 2e-4)),
    "LoRA, 10 epochs": (LORA + "train epochs=10\n", (1e-3, 2e-3)),
    "everything, 10 epochs": (ALL + "train epochs=10\n", (5e-5, 1e-4)),
    "everything, 4 epochs, linear": (ALL + "schedule linear(warmup=10%)\ntrain epochs=4\n", (5e-5, 1e-4)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with sst2_sentence")
    parser.add_argument("--count", type=int, default=400, help="texts of a split (default: %(default)s)")
    parser.add_argument("--only", choices=WAYS, action="append", help="only this way; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default: %(default)s)")
    parser.add_argument("--work", type=Path, help="where to keep results, to go on after an interruption")
    args = parser.parse_args()
    if args.data is None:
        print("skipped: needs a folder with sst2_sentence, see bench/README.md")
        return
    print(f"Python {sys.version.split()[0]}, torch {version('torch')}, transformers {version('transformers')}")
    with tempfile.TemporaryDirectory() as place:
        work = (args.work or Path(place)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        datasets = {
            f"sst2_{args.count}": sentences(args.data / "sst2_sentence", args.count),
            f"docstrings_{args.count}": docstrings(args.count),
        }
        for name, splits in datasets.items():
            write(work / name, splits)
        for way in args.only or WAYS:
            recipe, rates = WAYS[way]
            print(f"\n| {way} | {' | '.join(f'{rate:g}' for rate in rates)} |\n|{'---|' * (1 + len(rates))}")
            for name in datasets:
                cells = [accuracy(work, name, recipe, rate, args.seeds) for rate in rates]
                print(f"| {name} | {' | '.join(cells)} |", flush=True)


Rows = list[tuple[str, str]]


def sentences(folder: Path, count: int) -> dict[str, Rows]:
    found = {}
    for split, file in (("train", "train.tsv"), ("val", "dev.tsv")):
        rows = [line.rstrip("\n").rsplit("\t", 1) for line in (folder / file).open(encoding="utf-8")]
        random.Random(0).shuffle(rows)
        found[split] = [(text, "positive" if label == "1" else "negative") for text, label in rows[:count]]
    return found


def docstrings(count: int) -> dict[str, Rows]:
    """As many sentences of each library, none of them twice."""
    rows: Rows = []
    for library in LIBRARIES:
        known = sorted(set(_first_sentences(library)))
        random.Random(0).shuffle(known)
        rows += [(text, library) for text in known[: 2 * count // len(LIBRARIES) + 1]]
    random.Random(0).shuffle(rows)
    return {"train": rows[:count], "val": rows[count : 2 * count]}


def _first_sentences(library: str) -> Iterator[str]:
    """Those of what a library's modules define, read without running them; without its name, which would tell."""
    spec = find_spec(library)
    assert spec is not None
    assert spec.origin is not None
    for file in sorted(Path(spec.origin).parent.rglob("*.py")):
        if "test" in file.as_posix():
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                first = " ".join(text.split("\n\n")[0].split())
                if 20 < len(first) < LONGEST and library not in first.lower():
                    yield first


def write(folder: Path, splits: dict[str, Rows]) -> None:
    folder.mkdir(exist_ok=True)
    for split, rows in splits.items():
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("text", "label"), *rows])


def accuracy(work: Path, data: str, recipe: str, rate: float, seeds: int) -> str:
    """The validation accuracies after the last epoch, in percent."""
    text = DATA.format(data=data) + recipe.format(rate=rate, ten=10 * rate)
    found = [kept(work, f"{text}{seed}", partial(trained, work, text, seed)) for seed in range(seeds)]
    return ", ".join(f"{100 * each:.1f}" for each in found)


def trained(work: Path, text: str, seed: int) -> float:
    recipe = work / "recipe.leaven"
    recipe.write_text(text)
    with tempfile.TemporaryDirectory() as output:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return last_accuracy(train(recipe, Path(output), "--set", f"train.seed={seed}", env=environment))


if __name__ == "__main__":
    main()
