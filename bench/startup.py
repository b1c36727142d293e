"""Measure the CPU time from `leaven run` to the first batch against `import torch, torchvision, timm`.

Prints medians, interquartile ranges and the ratio; exits with 1 if a run takes more than 1.2 times the CPU time
of the imports. README.md in this folder describes the method.
"""

import sys
import tempfile
from pathlib import Path
from statistics import median

from command_line import CommandLine
from PIL import Image
from starting.first_batch import output, row, start, versions, write_recipe

TIMES = 10
MOST = 1.2  # of the CPU time of the imports
IMPORTS = "import os, torch, torchvision, timm; used = os.times(); print(used.user + used.system)"


def main() -> int:
    line = CommandLine(__doc__)
    line.add("--times", type=int, default=TIMES, help="how often each is timed (default: %(default)s)")
    times = line.read(times=2).times
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_project(place)

        def seconds() -> tuple[float, float]:
            return start(place, "startup.leaven").processor, float(output(place, "-c", IMPORTS))

        seconds()  # indexes the libraries, gets the model's layers, compiles bytecode
        pairs = [seconds() for _ in range(times)]
    ratios = [ours / theirs for ours, theirs in pairs]
    print(versions())
    print(f"{times} times each, alternating; seconds of CPU time: median (interquartile range)\n")
    print(row("leaven run, to the first batch", [ours for ours, _ in pairs]))
    print(row("import torch, torchvision, timm", [theirs for _, theirs in pairs]))
    print(row("ratio", ratios))
    return line.judged(median(ratios) <= MOST)


def make_project(folder: Path) -> None:
    """A recipe, and two classes of 60 photos."""
    transforms = "resize(64) -> center_crop(64)"
    model = "efficientnet_lite0(pretrained=true)"
    write_recipe(folder, "startup", model=model, folder="photos", transforms=transforms)
    for name in ("ants", "bees"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(60):
            noise = Image.effect_noise((96, 80), 40 + number).convert("RGB")
            noise.save(folder / "photos" / name / f"{number}.jpg")


if __name__ == "__main__":
    sys.exit(main())
