"""The quickstart from start to finish: train, compare, predict. `make demo` runs it; it takes a few minutes.

It compares three models: a pretrained one with only its head trained, the same one fine-tuned as a whole, and one
trained from scratch for about the same time.
"""

import csv
import subprocess
import sys
from pathlib import Path

RECIPE = "examples/quickstart.leaven"
TRAINED, SCRATCH = Path("runs/demo/trained"), Path("runs/demo/from-scratch")
IMAGE = "examples/digit.png"  # the first of the test split


def main() -> None:
    print("Fine-tune a model trained on photos to read handwritten digits:\n")
    print(Path(RECIPE).read_text(encoding="utf-8"))
    leaven("run", RECIPE, "--output", str(TRAINED))
    print("\nThe same architecture from scratch, for about the same time:")
    without = ["--set", "model.pretrained=false", "--with", 'drop phase, "head"', "--set", "phase.all.epochs=4"]
    leaven("run", RECIPE, *without, "--output", str(SCRATCH))
    compare()
    predict()
    list_files(newest(TRAINED))


def leaven(*words: str) -> None:
    """Print a command and run it."""
    shown = " ".join(f"'{word}'" if " " in word else word for word in words)
    print(f"\n$ leaven {shown}", flush=True)
    done = subprocess.run([sys.executable, "-m", "leaven", *words], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def compare() -> None:
    """Print the best validation accuracy of each."""
    results = {
        "new head, pretrained backbone frozen": best(TRAINED, "head"),
        "then the whole model": best(TRAINED, "all"),
        "the whole model, from scratch": best(SCRATCH, "all"),
    }
    print("\nValidation accuracy (180 digits):\n")
    for name, (accuracy, epochs, seconds) in results.items():
        print(f"  {name:<40}{accuracy:6.1%}   {epochs:>2} epochs, {seconds:.0f} s")


def best(output: Path, phase: str) -> tuple[float, int, float]:
    """The best accuracy of a phase, its number of epochs, and its duration in seconds."""
    with (newest(output) / "metrics.csv").open(encoding="utf-8") as table:
        rows = [row for row in csv.DictReader(table) if row["phase"] == phase]
    return max(float(row["val.accuracy"]) for row in rows), len(rows), sum(float(row["seconds"]) for row in rows)


def predict() -> None:
    """Predict a digit of the test split."""
    print("\nAn unseen digit; the label is 8:")
    leaven("predict", str(TRAINED), IMAGE, "--top", "3")


def list_files(run: Path) -> None:
    print(f"\nEverything is in {run}:")
    for name, what in (
        ("model.bundle", "the model, in one file"),
        ("program.py", "the PyTorch program that was run"),
        ("plan.txt", "what it does, and why"),
        ("resolved.leaven", "the recipe with every default filled in"),
        ("metrics.csv", "the scores of every epoch"),
    ):
        print(f"  {name:<16} {what}")
    print("\nNext: docs/tutorials/1-resnet18.md, with your own photos.")


def newest(output: Path) -> Path:
    """The newest run in a folder; runs are named by time."""
    return max(path for path in output.iterdir() if (path / "metrics.csv").is_file())


if __name__ == "__main__":
    main()
