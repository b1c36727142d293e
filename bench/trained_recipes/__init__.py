"""What benchmarks of accuracy share: a recipe is trained, its scores are read, and what was measured is kept."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def train(recipe: Path, output: Path, *options: str, env: Mapping[str, str] | None = None) -> Path:
    """The folder of a finished run of a recipe, below `output`."""
    command = [sys.executable, "-m", "leaven", "run", str(recipe), *options, "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        sys.exit(f"{recipe}: {done.stdout[-2000:]}{done.stderr[-3000:]}")
    return max(output.glob("*/model.bundle")).parent


def last_accuracy(run: Path) -> float:
    """The validation accuracy after the last epoch."""
    return float(epochs_of(run)[-1]["val.accuracy"])


def epochs_of(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(encoding="utf-8") as table:
        return list(csv.DictReader(table))


def kept(work: Path, name: str, measure: Callable[[], float]) -> float:
    """A result that is measured once, so that an interrupted benchmark goes on where it was."""
    file = work / "results.json"
    known: dict[str, float] = json.loads(file.read_text()) if file.is_file() else {}
    if name not in known:
        known[name] = measure()
        file.write_text(json.dumps(known, indent=2))
    return known[name]
