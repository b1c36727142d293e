"""Measure the defaults for texts: macro F1 by learning rate, for what is trainable.

    python bench/text_defaults.py DATA --work FOLDER        # a folder with sst2_sentence: train.tsv, test.tsv

Three datasets: sentences of SST-2, drawn messages of which 13 % are spam, and drawn news of four topics. README.md in
this folder describes the method.
"""

import argparse
import csv
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

from trained_recipes import kept, train
from trained_recipes.drawn_texts import Rows, messages, news

LONGEST = 12  # words of a sentence of SST-2: a step takes less time
TEST = 300  # texts, measured once, after the last epoch
VAL = 16  # hardly any: which epoch is best is not asked
RECIPE = """\
model minilm(pretrained=true)
data csv("{data}", text="text", label="label")
checkpoint keep=last
metrics accuracy(), f1()
"""
PAIR = "optimizer adamw(lr={rate}) {{ group head, lr={new} }}\n"
LORA = 'lora rank=8, on="*query" + "*value"\n' + PAIR
Rates = tuple[float, float | None]  # of what is reused or added, and of the new head
WAYS: dict[str, tuple[str, tuple[Rates, ...]]] = {  # what is trainable: the recipe, and the rates
    "a head": (
        "freeze all - head\noptimizer adamw(lr={rate})\ntrain exact=false\n",
        ((1e-3, None), (3e-3, None), (1e-2, None), (3e-2, None)),
    ),
    "LoRA": (
        LORA,
        ((5e-4, 5e-4), (5e-4, 3e-3), (1e-3, 1e-3), (1e-3, 3e-3), (1e-3, 1e-2), (2e-3, 3e-3), (2e-3, 1e-2)),
    ),
    "LoRA in all linear layers": (LORA.replace(', on="*query" + "*value"', ""), ((5e-4, 5e-4), (1e-3, 3e-3))),
    "everything": (
        PAIR,
        ((5e-5, 5e-4), (1e-4, 5e-4), (1e-4, 1e-3), (1e-4, 3e-3), (2e-4, 1e-3), (2e-4, 3e-3)),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with sst2_sentence")
    parser.add_argument("--count", type=int, default=200, help="texts for training (default: %(default)s)")
    parser.add_argument("--only", choices=WAYS, action="append", help="only this way; may be repeated")
    parser.add_argument("--texts", choices=DATASETS, action="append", help="only this dataset; may be repeated")
    parser.add_argument("--rates", action="append", help="only these rates, as 1e-3:3e-3; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default: %(default)s)")
    parser.add_argument("--work", type=Path, help="where to keep results, to go on after an interruption")
    parser.add_argument("--smoke", action="store_true", help="one short training on drawn texts")
    args = parser.parse_args()
    if args.smoke:
        args.count, args.only, args.texts, args.rates = 32, ["LoRA"], ["spam"], ["1e-3:3e-3"]
    if args.data is None and args.texts is None:
        print("skipped: needs a folder with sst2_sentence, see bench/README.md")
        return
    print(f"Python {sys.version.split()[0]}, torch {version('torch')}, transformers {version('transformers')}")
    with tempfile.TemporaryDirectory() as place:
        work = (args.work or Path(place)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        names = args.texts or list(DATASETS)
        for name in names:
            write(work / f"{name}_{args.count}", DATASETS[name](args.data, args.count))
        for way in args.only or WAYS:
            recipe, rates = WAYS[way]
            for pair in rates:
                shown = ":".join(f"{rate:g}" for rate in pair if rate is not None)
                if args.rates and shown not in [":".join(f"{float(r):g}" for r in x.split(":")) for x in args.rates]:
                    continue
                for name in names:
                    found = score(work, f"{name}_{args.count}", recipe, pair, args.seeds)
                    print(f"| {way} | {shown} | {name}_{args.count} | {found} |", flush=True)


def sentences(data: Path, count: int) -> dict[str, Rows]:
    """Sentences of SST-2, in an order that is always the same."""
    found = {}
    for (split, size), file in zip(sizes(count).items(), ("train.tsv", "dev.tsv", "test.tsv"), strict=True):
        lines = (data / "sst2_sentence" / file).read_text(encoding="utf-8").splitlines()
        rows = [line.rsplit("\t", 1) for line in lines if len(line.rsplit("\t", 1)[0].split()) <= LONGEST]
        random.Random(0).shuffle(rows)
        found[split] = [(text, "positive" if label == "1" else "negative") for text, label in rows[:size]]
    return found


def drawn(draw: Callable[[int, int], Rows], data: Path, count: int) -> dict[str, Rows]:
    return {split: draw(size, seed) for seed, (split, size) in enumerate(sizes(count).items())}


def sizes(count: int) -> dict[str, int]:
    return {"train": count, "val": VAL, "test": TEST}


DATASETS: dict[str, Callable[[Path, int], dict[str, Rows]]] = {
    "sst2": sentences,
    "spam": partial(drawn, messages),
    "news": partial(drawn, news),
}


def write(folder: Path, splits: dict[str, Rows]) -> None:
    folder.mkdir(exist_ok=True)
    for split, rows in splits.items():
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("text", "label"), *rows])


def score(work: Path, data: str, recipe: str, rates: Rates, seeds: int) -> str:
    """Macro F1 on the test split after the last epoch, in percent: the median over the seeds, lowest and highest."""
    text = RECIPE.format(data=data) + recipe.format(rate=rates[0], new=rates[1])
    found = [100 * kept(work, f"{text}{seed}", partial(trained, work, text, seed)) for seed in range(seeds)]
    return f"{median(found):.1f}" + (f" ({min(found):.1f}–{max(found):.1f})" if seeds > 1 else "")


def trained(work: Path, text: str, seed: int) -> float:
    recipe = work / "recipe.leaven"
    recipe.write_text(text)
    with tempfile.TemporaryDirectory() as output:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        run = train(recipe, Path(output), "--set", f"train.seed={seed}", env=environment)
        return float(json.loads((run / "scores.json").read_text())["test.f1"])


if __name__ == "__main__":
    main()
