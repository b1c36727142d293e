"""Measure the benefit of reuse on real images and pretrained weights: linear probe, fine-tuning, pruning, distillation.

    python bench/reuse.py DATA          # a folder with hymenoptera, resnet_cifar10 and cifar10_jpg_subset

Every number is the test accuracy (for ants and bees, the validation accuracy) of a recipe in `reuse/`: the median
over the seeds, with the lowest and the highest. It takes about an hour on two cores. README.md in this folder
describes the method.
"""

import json
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from statistics import median

from command_line import CommandLine
from trained_recipes import epochs_of, train

RECIPES = Path(__file__).with_name("reuse")
PARTS = ("ants", "prune", "scratch")


def main() -> None:
    line = CommandLine(__doc__, data="a folder with data and weights")
    line.add("--seeds", type=int, default=3, help="number of seeds (default: %(default)s)")
    line.add("--only", choices=PARTS, help="run one of the three experiments")
    args = line.read(seeds=1, only="ants")
    print(f"Python {sys.version.split()[0]}, torch {version('torch')}, timm {version('timm')}, {args.seeds} seeds")
    bench = Bench(args.data, args.work, args.seeds)
    for part in (args.only,) if args.only else PARTS:
        getattr(bench, part)()


class Bench:
    """Runs recipes and prints their accuracies."""

    def __init__(self, data: Path, runs: Path, seeds: int) -> None:
        self.data = data
        self.runs = runs
        self.seeds = range(seeds)

    def ants(self) -> None:
        """Ants and bees: 244 images for training, 153 for validation."""
        print("\nants and bees, efficientnet_lite0 from ImageNet: validation accuracy")
        photos = self.data / "hymenoptera" / "hymenoptera_data"
        for title, recipe in (("new head on a frozen model", "probe"), ("then all layers", "tune")):
            self._row(title, [best(self._run(recipe, seed, photos=photos)) for seed in self.seeds])

    def prune(self) -> None:
        """A ResNet-56 with 40 % of its FLOPs pruned."""
        adapted = self._adapted()
        print("\nCIFAR-10 as JPEG files, resnet56: test accuracy")
        self._row("fine-tuned on these files", [tested(adapted)])
        given = {"images": self._images(), "adapted": adapted / "model.bundle"}
        self._row("40 % of FLOPs pruned", [tested(self._run("shrink", 0, **given))])
        for title, recipe in (("fine-tuned on the labels", "recover"), ("distilled from unpruned", "taught")):
            self._row(title, [tested(self._run(recipe, seed, **given)) for seed in self.seeds])

    def scratch(self) -> None:
        """A ResNet-20 from scratch, with and without distillation."""
        adapted = self._adapted()
        print("\nCIFAR-10 as JPEG files, resnet20 from scratch: test accuracy")
        images = self._images()
        self._row("labels only", [tested(self._run("small", seed, images=images)) for seed in self.seeds])
        given = {"images": images, "adapted": adapted / "model.bundle"}
        self._row("distilled from resnet56", [tested(self._run("small_taught", seed, **given)) for seed in self.seeds])

    def _adapted(self) -> Path:
        weights = next((self.data / "resnet_cifar10").glob("resnet56*.th"))
        return self._run("adapt", 0, images=self._images(), trained=weights)

    def _images(self) -> Path:
        place = self.runs / "images"
        if not place.is_dir():
            with zipfile.ZipFile(self.data / "cifar10_jpg_subset" / "cifar10_subset.zip") as archive:
                archive.extractall(place)
        return place if (place / "train").is_dir() else next(place.glob("*/train")).parent

    def _run(self, recipe: str, seed: int, **given: Path) -> Path:
        """The folder of a run; one that already exists is not run again."""
        output = self.runs / recipe / str(seed)
        if finished := sorted(output.glob("*/model.bundle")):
            return finished[-1].parent
        flags = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        return train(RECIPES / f"{recipe}.leaven", output, *flags, "--set", f"train.seed={seed}")

    def _row(self, title: str, scores: list[float]) -> None:
        spread = f"  ({min(scores):.1%} to {max(scores):.1%})" if len(scores) > 1 else ""
        print(f"  {title:34}{median(scores):7.1%}{spread}", flush=True)


def tested(run: Path) -> float:
    """The test accuracy."""
    return float(json.loads((run / "scores.json").read_text(encoding="utf-8"))["test.accuracy"])


def best(run: Path) -> float:
    """The best validation accuracy of the last phase."""
    rows = epochs_of(run)
    return max(float(row["val.accuracy"]) for row in rows if row["phase"] == rows[-1]["phase"])


if __name__ == "__main__":
    main()
