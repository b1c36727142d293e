"""Compare Leaven's defaults with fastai's `fine_tune` and with a hand-tuned script, at the same number of epochs.

    python bench/defaults.py DATA                # a folder with hymenoptera and cifar10_jpg_subset

Every number is the validation accuracy after the last epoch: the median over the seeds, with the lowest and the
highest. It takes about two hours on two cores. README.md in this folder describes the method.
"""

import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

from command_line import CommandLine
from trained_recipes import kept, last_accuracy, train

HERE = Path(__file__).with_name("defaults")
EPOCHS = 10


class Dataset(NamedTuple):
    """A folder with train/ and val/, the size of its images, and the learning rate that a search by hand found."""

    folder: Path
    size: int
    rate: float


def main() -> None:
    line = CommandLine(__doc__, data="a folder with data")
    line.add("--seeds", type=int, default=3, help="number of seeds (default: %(default)s)")
    line.add("--epochs", type=int, default=EPOCHS, help="of every training (default: %(default)s)")
    line.add("--only", action="append", help="only this dataset, or this way to train; may be repeated")
    line.add("--fastai", type=Path, help="a Python with fastai; without it, an environment is made")
    args = line.read(seeds=1, epochs=1)
    names = ("torch", "timm")
    print(f"Python {sys.version.split()[0]}, {', '.join(f'{name} {version(name)}' for name in names)}")
    if args.smoke:  # neither the real datasets nor an environment for fastai
        datasets, ways = {"ants": Dataset(_ants(args.data, args.work), 64, 3e-4)}, WAYS
    else:
        datasets = made(args.data, args.work)
        ways = {**WAYS, "fastai, fine_tune": lambda *given: fastai(args.fastai or environment(args.work), *given)}
    for name, dataset in datasets.items():
        for title, way in ways.items():
            if args.only and not {name, title} & set(args.only):
                continue
            found = [
                kept(args.work, f"{name}, {title}, {seed}", partial(way, dataset, seed, args.epochs))
                for seed in range(args.seeds)
            ]
            low, high = 100 * min(found), 100 * max(found)
            print(f"{name:<10} {title:<32} {100 * median(found):5.1f} %   {low:.1f} to {high:.1f}", flush=True)


# -- the ways to train


def fine_tuned(dataset: Dataset, seed: int, epochs: int) -> float:
    """The recipe that `leaven new` writes, for images of that size."""
    recipe = dataset.folder.parent / f"{dataset.folder.name}.leaven"
    _leaven("new", str(dataset.folder), "--epochs", str(epochs), "-o", str(recipe), "--force")
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace('")\n', f'") {{ size {dataset.size} }}\n', 1), encoding="utf-8")
    return _trained(recipe, seed)


def probed(dataset: Dataset, seed: int, epochs: int) -> float:
    """A new head on a frozen model, with every default."""
    recipe = dataset.folder.parent / f"{dataset.folder.name}_probe.leaven"
    recipe.write_text(
        "model efficientnet_lite0(pretrained=true)\n"
        f'data  folder("{dataset.folder.name}") {{ size {dataset.size} }}\n'
        f"freeze all - head\ntrain epochs={epochs}\n"
    )
    return _trained(recipe, seed)


def _trained(recipe: Path, seed: int) -> float:
    """The validation accuracy after the last epoch of a run."""
    output = recipe.parent / "runs" / f"{recipe.stem}{seed}"
    return last_accuracy(train(recipe, output, "--set", f"train.seed={seed}"))


def _leaven(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "leaven", *words], check=True, stdout=subprocess.DEVNULL)


def hand_tuned(dataset: Dataset, seed: int, epochs: int) -> float:
    """A plain PyTorch script, with the learning rate that was best for this dataset."""
    return _accuracy(sys.executable, "hand_tuned.py", dataset, epochs, "--seed", str(seed), "--rate", str(dataset.rate))


def fastai(python: Path, dataset: Dataset, seed: int, epochs: int) -> float:
    """fastai as its tutorial has it, with the same model and weights."""
    weights = dataset.folder.parent / "efficientnet_lite0.pth"
    if not weights.is_file():
        subprocess.run([sys.executable, HERE / "save_weights.py", weights], check=True)
    return _accuracy(
        str(python), "fastai_fine_tune.py", dataset, epochs, "--seed", str(seed), "--weights", str(weights)
    )


def _accuracy(python: str, script: str, dataset: Dataset, epochs: int, *more: str) -> float:
    words = [python, str(HERE / script), str(dataset.folder), "--size", str(dataset.size), "--epochs", str(epochs)]
    done = subprocess.run([*words, *more], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def environment(work: Path) -> Path:
    """A Python with fastai, in an environment of its own."""
    place = work / "fastai"
    if not (place / "bin" / "fastai-is-ready").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "pip", "install", "--quiet", "fastai", "timm"], check=True)
        (place / "bin" / "fastai-is-ready").touch()
    return place / "bin" / "python"


WAYS: dict[str, Callable[[Dataset, int, int], float]] = {
    "leaven, as `leaven new` writes": fine_tuned,
    "leaven, head only": probed,
    "hand-tuned script": hand_tuned,
}


# -- the data


def made(data: Path, work: Path) -> dict[str, Dataset]:
    """The four datasets, each as a folder with train/ and val/."""
    ants = _ants(data, work)
    for name, images in (("digits", _digits), ("flowers", _flowers), ("cifar", lambda: _cifar(data))):
        if not (work / name).exists():
            for place, content in images():
                (work / name / place).parent.mkdir(parents=True, exist_ok=True)
                (work / name / place).write_bytes(content)
    return {
        "digits": Dataset(work / "digits", 64, 1e-3),
        "ants": Dataset(ants, 128, 3e-4),
        "cifar": Dataset(work / "cifar", 64, 1e-3),
        "flowers": Dataset(work / "flowers", 96, 3e-4),
    }


def _ants(data: Path, work: Path) -> Path:
    place = work / "ants"
    if not place.exists():
        place.symlink_to(data / "hymenoptera" / "hymenoptera_data")
    return place


def _digits() -> Iterator[tuple[str, bytes]]:
    """scikit-learn's digits: 1,437 for training, 360 for validation."""
    import io

    from PIL import Image
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    everything = range(len(digits.target))
    train, val = train_test_split(everything, test_size=0.2, random_state=0, stratify=digits.target)
    for split, chosen in (("train", train), ("val", val)):
        for at in chosen:
            file = io.BytesIO()
            Image.fromarray((digits.images[at] * 255 / 16).round().astype("uint8")).save(file, "PNG")
            yield f"{split}/{digits.target[at]}/{at:04}.png", file.getvalue()


def _flowers() -> Iterator[tuple[str, bytes]]:
    sys.path.insert(0, str(HERE))
    from flowers import photos

    return photos({"train": 30, "val": 50})


def _cifar(data: Path) -> Iterator[tuple[str, bytes]]:
    """100 images per class of CIFAR-10 for training, 100 for validation."""
    with zipfile.ZipFile(data / "cifar10_jpg_subset" / "cifar10_subset.zip") as files:
        folders: dict[str, list[str]] = {}
        for name in files.namelist():
            if name.endswith(".jpg"):
                folders.setdefault(name.rpartition("/")[0], []).append(name)
        for folder, names in folders.items():
            for name in random.Random(0).sample(sorted(names), 100):
                split, label = folder.split("/")
                yield f"{'train' if split == 'train' else 'val'}/{label}/{Path(name).name}", files.read(name)


if __name__ == "__main__":
    main()
