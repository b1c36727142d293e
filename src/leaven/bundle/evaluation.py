"""How well a model does on pictures whose classes are known.

Decides which pictures are measured, how their classes are matched to the model's by name, and what is told.
"""

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from leaven.bundle.golden import Steps
from leaven.bundle.inputs import Takes, as_taken
from leaven.bundle.manifest import Manifest
from leaven.bundle.prediction import percent
from leaven.formats.image_folder import PART_NAMES, pictures, sub_folders
from leaven.formats.tables import TABLE_ENDINGS
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset, ImageFiles, table
from leaven.runtime.data.splits import EMPTY, SplitIndices
from leaven.runtime.failures import Failure

PartName = Literal["train", "val", "test", "all"]
FEW_CLASSES = 12  # up to so many, a whole confusion table is readable
MOST_PAIRS = 15
TOP = 5
_CORNER = "was \\ said"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What was measured. `confusion[t, p]` counts pictures of class t for which the model said p."""

    classes: tuple[str, ...]
    scores: dict[str, float]
    confusion: np.ndarray
    skipped: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float:
        return self.scores["accuracy"]

    @property
    def count(self) -> int:
        """How many pictures were measured."""
        return int(self.confusion.sum())

    @property
    def per_class(self) -> dict[str, dict[str, float]]:
        """For each class that was there: the share of its pictures that were recognised (recall), the share of right
        ones among those taken for it (precision), and how many there were."""
        right, there, said = self.confusion.diagonal(), self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        return {
            name: {
                "recall": float(right[i] / there[i]),
                "precision": float(right[i] / said[i]) if said[i] else 0.0,
                "count": int(there[i]),
            }
            for i, name in enumerate(self.classes)
            if there[i]
        }

    def confused(self, k: int = MOST_PAIRS) -> list[tuple[str, str, int]]:
        """The k most frequent mistakes: what it was, what the model said, how often."""
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:k]
        pairs = [(int(place) // len(self.classes), int(place) % len(self.classes)) for place in order]
        return [(self.classes[t], self.classes[p], int(wrong[t, p])) for t, p in pairs if wrong[t, p]]

    def table(self) -> str:
        """The confusion table; of many classes, only the most frequent mistakes."""
        return _matrix(self.classes, self.confusion) if len(self.classes) <= FEW_CLASSES else _pairs(self)

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        lines = [f"{name:<{width}}  {value:.4f}" for name, value in self.scores.items()]
        return "\n".join([f"{self.count} pictures", *lines, "", self.table()])

    def __repr__(self) -> str:
        return f"<Evaluation: {', '.join(f'{name} {value:.4f}' for name, value in self.scores.items())}>"


def evaluate(
    model: nn.Module,
    steps: Steps,
    manifest: Manifest,
    data: Any,
    *,
    part: PartName | None,
    columns: tuple[str, str],
    root: str | os.PathLike[str] | None,
    batch: int,
    workers: int | Literal["auto"],
    on_bad_file: Literal["stop", "skip"],
    shows_progress: bool,
) -> Evaluation:
    """Ask the model about every picture of the data, and count."""
    items, places = _chosen(data, manifest, part, columns, root)
    gathered = Data(
        replace(items, load=_Taken(items.load, manifest.takes, items.labels is None)),
        SplitIndices(EMPTY, EMPTY, places),
        train_transform=None,
        eval_transform=_Prepare(steps),
        batch_size=batch,
        workers=workers,
        on_bad_file=on_bad_file,
        seed=None,
    )
    batches: Iterable[tuple[Tensor, Tensor]] = gathered.test.batches(0)
    if shows_progress:
        batches = tqdm(batches, total=gathered.test.steps(), unit="batch", leave=False)
    count = _Counting(len(manifest.classes))
    try:
        for images, labels in batches:
            count.add(_logits(model, images), labels)
    finally:
        gathered.close()
    if not count.confusion.sum():
        raise Failure("none of the pictures can be read")
    return Evaluation(manifest.classes, count.scores(), count.confusion, gathered.skipped)


class _Counting:
    """What is added up while the pictures go by."""

    def __init__(self, classes: int) -> None:
        self.confusion: np.ndarray = np.zeros((classes, classes), dtype=np.int64)
        self.loss = 0.0
        self.near = 0

    def add(self, logits: Tensor, labels: Tensor) -> None:
        self.loss += float(nn.functional.cross_entropy(logits.double(), labels, reduction="sum"))
        np.add.at(self.confusion, (labels.numpy(), logits.argmax(dim=1).numpy()), 1)
        top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices
        self.near += int((top == labels[:, None]).any(dim=1).sum())

    def scores(self) -> dict[str, float]:
        total = int(self.confusion.sum())
        top = {f"top{TOP}": self.near / total} if len(self.confusion) > TOP else {}
        return {"accuracy": float(self.confusion.trace() / total), **top, "loss": self.loss / total}


def _logits(model: nn.Module, images: Tensor) -> Tensor:
    first = next(model.parameters(), images)
    try:
        with torch.inference_mode():
            logits: Tensor = model(images.to(first.device, first.dtype))
    except (RuntimeError, ValueError, AssertionError) as problem:
        shape = "×".join(map(str, images.shape))
        raise Failure(f"the model can't take a batch of {shape}: {type(problem).__name__}: {problem}") from problem
    return logits.float().cpu()


@dataclass(frozen=True)
class _Taken:
    """Loads items as the steps take them."""

    load: Any
    takes: Takes
    has_label: bool

    def __call__(self, index: int) -> Any:
        item = self.load(index)
        if self.has_label:
            return as_taken(item[0], self.takes), item[1]
        return as_taken(item, self.takes)


@dataclass(frozen=True)
class _Prepare:
    """The steps, ending in a bare tensor."""

    steps: Steps

    def __call__(self, taken: Any) -> Tensor:
        try:
            return torch.as_tensor(taken if self.steps is None else self.steps(taken)).as_subclass(Tensor)
        except Failure:
            raise
        except Exception as problem:  # steps of the user's own may raise anything
            raise Failure(f"the steps can't prepare a picture: {type(problem).__name__}: {problem}") from problem


# -- which pictures


def _chosen(
    data: Any,
    manifest: Manifest,
    part: PartName | None,
    columns: tuple[str, str],
    root: str | os.PathLike[str] | None,
) -> tuple[Dataset, np.ndarray]:
    """The items to measure, labelled by the model's classes, and the places of the chosen part."""
    match data:
        case Dataset():
            items, name = data, "the data"
        case str() | os.PathLike():
            items, name = _from_path(Path(os.fspath(data)), manifest.classes, columns, root), os.fspath(data)
        case _:
            items, name = _from_pairs(data), "the data"
    places = _places(items, part, name)
    if items.labels is None:
        if items.classes != manifest.classes:
            raise Failure(f"the classes of {name} are not the model's", _known(manifest.classes))
        return items, places
    used = sorted({items.classes[items.labels[place]] for place in places.tolist()})
    number = {known: index for index, known in reversed(list(enumerate(manifest.classes)))}
    if foreign := [known for known in used if known not in number]:
        raise _foreign(name, foreign, manifest.classes)
    labels = [number.get(items.classes[label], -1) for label in items.labels]
    return replace(items, classes=manifest.classes, labels=labels), places


def _places(items: Dataset, part: PartName | None, name: str) -> np.ndarray:
    """The places of the asked part; test where nobody asks, else val, else everything."""
    if part == "all" or (part is None and not items.predefined):
        return np.arange(len(items))
    wanted: str = part or next((known for known in ("test", "val") if known in items.predefined), "train")
    if wanted not in items.predefined:
        there = f"it has {', '.join(items.predefined)}" if items.predefined else "it is not divided into parts"
        raise Failure(f"{name} has no part {wanted}", there)
    return np.asarray(items.predefined[wanted], dtype=np.int64)


def _from_pairs(data: Any) -> Dataset:
    pairs = list(data)
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise Failure("there is nothing to measure", "give a folder, a csv file, or pairs of a picture and its class")
    classes = tuple(sorted({str(label) for _, label in pairs}))
    labels = [classes.index(str(label)) for _, label in pairs]
    return Dataset(classes, labels, len(pairs), _Listed([given for given, _ in pairs]), _numbered, in_memory=True)


@dataclass(frozen=True)
class _Listed:
    things: Sequence[Any]

    def __call__(self, index: int) -> Any:
        return self.things[index]


def _numbered(index: int) -> str:
    return f"picture {index + 1}"


def _from_path(
    path: Path,
    classes: tuple[str, ...],
    columns: tuple[str, str],
    root: str | os.PathLike[str] | None,
) -> Dataset:
    if path.is_file() and path.suffix.lower() in TABLE_ENDINGS:
        return table(path, image=columns[0], label=columns[1], root=root)
    if not path.is_dir():
        raise Failure(f"{path} {'is neither a folder nor a csv file' if path.exists() else 'does not exist'}")
    tops = {"": path} if set(sub_folders(path)) & set(classes) else _part_folders(path) or {"": path}
    files: list[str] = []
    names: list[str] = []
    given: dict[str, range] = {}
    for known, top in tops.items():
        found = [(file, name) for name in sub_folders(top) for file in sorted(pictures(top / name))]
        given[known] = range(len(files), len(files) + len(found))
        files += [file for file, _ in found]
        names += [name for _, name in found]
    if not files:
        raise Failure(f"{path} has no class folders with pictures in them", _known(classes))
    there = tuple(sorted(set(names)))
    opener = ImageFiles(files)
    labels = [there.index(name) for name in names]
    return Dataset(there, labels, len(files), opener, opener.name, {name: at for name, at in given.items() if name})


def _part_folders(path: Path) -> dict[str, Path]:
    """The folders of the parts. A bundle can be measured on one part alone, so train need not be there."""
    return {
        part: path / top
        for part, names in PART_NAMES.items()
        for top in sub_folders(path)
        if top.lower() in names and sub_folders(path / top)
    }


def _foreign(name: str, foreign: Sequence[str], classes: Sequence[str]) -> Failure:
    noun = "a class" if len(foreign) == 1 else "classes"
    listed = ", ".join(foreign[:8]) + (" and others" if len(foreign) > 8 else "")
    near = difflib.get_close_matches(foreign[0], classes, n=1)
    help_text = f"is {foreign[0]} what the model calls {near[0]}?" if near else _known(classes)
    return Failure(f"{name} has {noun} that the model does not know: {listed}", help_text)


def _known(classes: Sequence[str]) -> str:
    more = f" and {len(classes) - FEW_CLASSES} more" if len(classes) > FEW_CLASSES else ""
    return f"the model knows: {', '.join(classes[:FEW_CLASSES])}{more}"


# -- tables


def _matrix(classes: Sequence[str], confusion: np.ndarray) -> str:
    """Rows are what it was, columns what the model said; a dot stands for none."""
    cells = [[str(count) if count else "·" for count in row] for row in confusion.tolist()]
    heads = [name if len(name) <= 8 else name[:7] + "…" for name in classes]
    widths = [max(len(head), *(len(row[i]) for row in cells)) for i, head in enumerate(heads)]
    first = max(len(_CORNER), *map(len, classes))
    lines = ["  ".join([f"{_CORNER:<{first}}", *(f"{h:>{w}}" for h, w in zip(heads, widths, strict=True))])]
    for name, row in zip(classes, cells, strict=True):
        lines.append("  ".join([f"{name:<{first}}", *(f"{c:>{w}}" for c, w in zip(row, widths, strict=True))]))
    return "\n".join(lines)


def _pairs(evaluation: Evaluation) -> str:
    pairs = evaluation.confused()
    if not pairs:
        return "no mistakes"
    there = evaluation.per_class
    was, said = (max(map(len, column)) for column in zip(*[(t, p) for t, p, _ in pairs], strict=True))
    was, said = max(was, 3), max(said, 4)
    lines = [f"{'was':<{was}}  {'said':<{said}}  how often"]
    for true, predicted, count in pairs:
        share = percent(count / there[true]["count"])
        lines.append(f"{true:<{was}}  {predicted:<{said}}  {count} of {int(there[true]['count'])} ({share})")
    return "\n".join(lines)
