"""Runs of Leaven until their first batch, for `startup.py` and `big_folder.py`: what ends them, and what they used."""

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

SOURCES = Path(__file__).parents[2] / "src"
BATCH = 32

RECIPE = f"""
import "first_batch.py" as mine
model {{model}}
data  folder("{{folder}}") {{{{
    train {{transforms}} -> mine.until_first_batch()
    eval  {{transforms}}
    workers 0
}}}}
train batch={BATCH}, epochs=1
"""
# The last sample of the first batch ends the run. It prints when that was, the CPU time of the run and of the command
# before it, and the peak of the memory until then.
UNTIL_FIRST_BATCH = f"""
import os, resource, time
left = {BATCH}

def until_first_batch(image):
    global left
    left -= 1
    if not left:
        used, peak = os.times(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        processor = used.user + used.system + used.children_user + used.children_system
        print("first batch", time.time(), processor, peak, flush=True)
        os._exit(0)
    return image
"""


class Start(NamedTuple):
    """A run until its first batch: wall and CPU time in seconds, and peak memory in megabytes."""

    wall: float
    processor: float
    memory: float


def write_recipe(place: Path, name: str, *, model: str, folder: str, transforms: str) -> None:
    """A recipe whose run ends with its first batch."""
    text = RECIPE.format(model=model, folder=folder, transforms=transforms)
    (place / f"{name}.leaven").write_text(text, encoding="utf-8")
    (place / "first_batch.py").write_text(UNTIL_FIRST_BATCH, encoding="utf-8")


def start(place: Path, *words: str) -> Start:
    """Run such a recipe with these words after `leaven run`."""
    begun = time.time()
    *_, at, processor, memory = output(place, "-m", "leaven", "run", *words).split()
    return Start(float(at) - begun, float(processor), int(memory) / 1024)


def output(place: Path, *words: str) -> str:
    """What Python prints, started in a folder as a user would: bytecode is cached."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    ).stdout


def row(name: str, values: list[float]) -> str:
    """The median of some values, and between which half of them are."""
    low, _, high = quantiles(values, n=4)
    return f"{name:50}{median(values):8.2f}  ({low:.2f} to {high:.2f})"


def versions() -> str:
    packages = ("torch", "torchvision", "timm", "torchmetrics", "lightning")
    listed = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"Python {platform.python_version()}, {listed}, {platform.machine()}, {os.cpu_count()} cores"
