"""A few fixed validation samples whose predictions a run records at every evaluation: the same ones in every epoch.

They are taken from the batches that are evaluated anyway. Of several processes, the first has them among its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import _pytree

from leaven.runtime.data.batches import Batches, IndexedSplit
from leaven.runtime.run.training_record import rounded
from leaven.runtime.stored.split import StoredSplit

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run
    from leaven.tasks.protocol import Prediction

COUNT = 8
_NUMBERS = 3  # of a prediction, the largest
Predictions = Callable[[Any, Any], "Sequence[Prediction]"]


class Probes:
    """Gathers predictions while a split is evaluated; nothing where that is not the validation of a run that trains."""

    def __init__(self, run: "Run", split: Batches, predictions: Predictions) -> None:
        self.samples: list[dict[str, Any]] = []
        self._target = split.target
        self._predictions = predictions
        self._batches: dict[int, list[tuple[int, int]]] = {}  # by batch: the row and the index of each sample
        indexed = split.original if isinstance(split, StoredSplit) else split
        is_wanted = split.name == "val" and run.folder.writes and run.trial is None and not run.is_trained
        if not is_wanted or not isinstance(indexed, IndexedSplit):
            return
        self._dataset = indexed.reader.dataset
        keys = indexed.keys(0, run.fabric.global_rank, run.fabric.world_size)
        self._sizes = [len(key.indices) for key in keys]
        places = [(at, row, int(index)) for at, key in enumerate(keys) for row, index in enumerate(key.indices)]
        for number in range(min(COUNT, len(places))):
            at, row, index = places[number * len(places) // min(COUNT, len(places))]
            self._batches.setdefault(at, []).append((row, index))

    def add(self, batch: int, outputs: Any, count: int) -> None:
        """Add the outputs for a batch of so many samples; one from which a bad file was left out has no probes."""
        chosen = self._batches.get(batch, ())
        if not chosen or count != self._sizes[batch]:
            return
        some = _rows(outputs, [row for row, _ in chosen])
        for (_, index), prediction in zip(chosen, self._predictions(some, self._target), strict=True):
            self.samples.append(self._sample(index, prediction))

    def _sample(self, index: int, prediction: "Prediction") -> dict[str, Any]:
        numbers = sorted(prediction.numbers().items(), key=lambda each: -each[1])[:_NUMBERS]
        return {
            "name": self._dataset.name(index),
            "actual": self._actual(index),
            "answer": prediction.answer,
            "numbers": {name: rounded(value) for name, value in numbers},
        }

    def _actual(self, index: int) -> Any:
        """The label as people write it; None for objects and masks, and where only loading the sample tells it."""
        values = self._dataset.values
        is_short = self._target.kind in ("class", "number", "binary")
        return self._target.plain(values[index]) if values is not None and is_short else None


def _rows(outputs: Any, rows: Sequence[int]) -> Any:
    """The outputs for some samples of a batch, in single precision."""
    if isinstance(outputs, list | tuple):
        return [_single(outputs[row]) for row in rows]
    if isinstance(outputs, Mapping):
        return {name: _rows(each, rows) for name, each in outputs.items()}
    return _single(outputs[list(rows)])


def _single(outputs: Any) -> Any:
    def cast(tensor: Tensor) -> Tensor:
        return tensor.detach().float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.detach()

    return _pytree.tree_map_only(Tensor, cast, outputs)
