"""The quickstart from beginning to end: train, compare, predict. `make demo` runs it; it takes a few minutes.

Three ways to the same end are compared: a trained net whose head alone is trained, the same net trained further as a
whole, and the same net from scratch, for about as long as the other two together.
"""

import csv
import subprocess
import sys
from pathlib import Path

RECIPE = "examples/quickstart.leaven"
TRAINED, SCRATCH = Path("runs/demo/trained"), Path("runs/demo/from-scratch")
PICTURE = Path("runs/demo/digit.png")


def main() -> None:
    print("Raise a digit reader from a net that has only ever seen photographs:\n")
    print(Path(RECIPE).read_text(encoding="utf-8"))
    leaven("run", RECIPE, "--output", str(TRAINED))
    print("\nThe same net without what it had learnt, for about as long:")
    without = ["--set", "model.pretrained=false", "--with", 'drop phase, "head"', "--set", "phase.all.epochs=5"]
    leaven("run", RECIPE, *without, "--output", str(SCRATCH))
    compare()
    predict()
    tell_where(newest(TRAINED))


def leaven(*words: str) -> None:
    """Give a command as a reader would, and show it."""
    shown = " ".join(f"'{word}'" if " " in word else word for word in words)
    print(f"\n$ leaven {shown}", flush=True)
    done = subprocess.run([sys.executable, "-m", "leaven", *words], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def compare() -> None:
    """The best epoch of every way, as measured on the part of the data that chooses it."""
    ways = {
        "only a new head on the trained net": best(TRAINED, "head"),
        "then the whole net": best(TRAINED, "all"),
        "the whole net, from scratch": best(SCRATCH, "all"),
    }
    print("\nThe right digit, of 180 that were not trained on:\n")
    for way, (accuracy, epochs, seconds) in ways.items():
        print(f"  {way:<36}{accuracy:6.1%}   {epochs:>2} epochs, {seconds:.0f} s")


def best(output: Path, phase: str) -> tuple[float, int, float]:
    """The best accuracy of a phase, how many epochs it had, and how long they took."""
    with (newest(output) / "metrics.csv").open(encoding="utf-8") as table:
        rows = [row for row in csv.DictReader(table) if row["phase"] == phase]
    return max(float(row["val.accuracy"]) for row in rows), len(rows), sum(float(row["seconds"]) for row in rows)


def predict() -> None:
    """Ask the model about a digit of the test part, which nothing was chosen by."""
    print(f"\nA digit that it has never seen; it is {draw_unseen(PICTURE)}:")
    leaven("predict", str(TRAINED), str(PICTURE), "--top", "3")


def draw_unseen(file: Path) -> str:
    """Write the first digit of the test part to a file; which one it is."""
    from leaven import runtime  # loads torch, whose memory the training above needs

    dataset = runtime.digits()
    place = int(runtime.split(dataset, train=80, val=10, test=10, seed=0).test[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    dataset.load(place).save(file)
    return dataset.classes[dataset.labels[place]] if dataset.labels is not None else "?"


def tell_where(run: Path) -> None:
    print(f"\nEverything is in {run}:")
    for name, what in (
        ("model.bundle", "the model, in one file that others can use"),
        ("program.py", "the PyTorch program that was run, to read and to edit"),
        ("plan.txt", "what it does, and why"),
        ("resolved.leaven", "the recipe with every default filled in"),
        ("metrics.csv", "every epoch"),
    ):
        print(f"  {name:<16} {what}")
    print("\nNext: docs/tutorials/1-resnet18.md, with pictures of your own.")


def newest(output: Path) -> Path:
    """The last run below a folder; they are named by the time."""
    return max(path for path in output.iterdir() if (path / "metrics.csv").is_file())


if __name__ == "__main__":
    main()
