"""How a model is measured during training, whatever its task: the loss and the metrics over one split."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree
from torchmetrics import Metric

from leaven.runtime.data.batches import Batches
from leaven.runtime.model.modes import evaluating
from leaven.runtime.run.length import QUICK_BATCHES
from leaven.runtime.run.placed_model import whole
from leaven.runtime.run.run import Run
from leaven.tasks.guesses import Guess, Judged
from leaven.tasks.probes import Predictions, Probes
from leaven.tasks.protocol import Tally

Metrics = Mapping[str, Metric]
Criterion = Callable[[Tensor, Tensor], Tensor]
EvalStep = Callable[[nn.Module, tuple[Any, Any]], Any]
Measured = Callable[[Any, Any], tuple[Any, Any]]


def outputs_of(model: nn.Module, batch: tuple[Any, Any]) -> Any:
    """The outputs of a model for the images of a batch."""
    return model(batch[0])


def unchanged(outputs: Any, targets: Any) -> tuple[Any, Any]:
    """The arguments of metrics that compare outputs and targets as the loss does."""
    return outputs, targets


class Mean(Metric):
    """The mean over all samples of what a function returns for the outputs and targets of a batch."""

    total: Tensor
    count: Tensor

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        self.total += float(self.function(outputs, targets)) * len(targets)
        self.count += len(targets)

    def compute(self) -> Tensor:
        return self.total / self.count


@dataclass(frozen=True)
class Judgement:
    """How a task measures: what its metrics compare, and the guess that a model is compared with.

    `measured` turns the outputs and targets of the loss into those of the metrics, which add up 64-bit numbers where
    `is_exact`. `expected` are warnings of metrics that say nothing new. A `tally` measures each sample, for the record
    of the run; None where that takes the images before the transforms.
    """

    guess: Guess
    measured: Measured = unchanged
    is_exact: bool = False
    expected: str = ""
    tally: Callable[[], Tally] | None = None


class EachSample:
    """Measures each sample while a split is measured, as the task does in an evaluation of its own."""

    def __init__(self, tally: Tally | None) -> None:
        self._tally = tally
        self._brightness: list[Tensor] = []
        self._count = 0

    def add(self, inputs: Any, outputs: Any, targets: Any) -> None:
        """Add a batch. Where the user's code has outputs or targets of another form, nothing is recorded."""
        if self._tally is None:
            return
        try:
            self._tally.add(_moved(outputs, torch.device("cpu")), targets.tolist(), [""] * len(targets))
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
            self._tally = None
            return
        self._count += len(targets)
        self._brightness += brightness(inputs)

    def columns(self, order: Sequence[int] | None, *, is_cut: bool) -> dict[str, Any]:
        """The columns of the record; empty where samples can't be told apart."""
        if self._tally is None or order is None or not self._count:
            return {}
        if len(order) != self._count and not (is_cut and self._count < len(order)):
            return {}
        columns = self._tally.result(()).columns()
        del columns["file"]  # which the dataset has
        if sum(map(len, self._brightness)) == self._count:
            columns["brightness"] = torch.cat(self._brightness).numpy()
        return {"index": np.asarray(order[: self._count], dtype=np.int64), **columns}


def brightness(inputs: Any) -> list[Tensor]:
    """The mean of each tensor of a batch of images; nothing of other inputs."""
    is_image = isinstance(inputs, Tensor) and inputs.ndim == 4
    return [inputs.float().mean(dim=(1, 2, 3)).cpu()] if is_image else []


@dataclass(frozen=True)
class Evaluate:
    """The `evaluate` of a task, which measures by a judgement that depends on the target. `predictions` are those for
    some of the outputs, of which the run keeps a few."""

    judgement: Callable[[Any], Judgement]
    predictions: Predictions
    step: EvalStep = outputs_of

    @torch.no_grad()
    def __call__(
        self,
        run: Run,
        model: nn.Module,
        split: Batches,
        metrics: Metrics,
        criterion: Criterion | None = None,
        step: EvalStep | None = None,
    ) -> dict[str, float]:
        """The loss and the metrics of a model over one split of the data: `{"val.loss": 0.2, "val.accuracy": 0.95}`.

        Every process measures its share; the scores are those of all. An empty split has none, and a snapshot of a run
        needs none. The run can then say whether the model is any better than the guess.
        """
        if not len(split) or run.ending.snapshot is not None:
            return {}
        fabric, judgement = run.fabric, self.judgement(split.target)
        if fabric.world_size > 1:  # every process measures the same model: the normalisation statistics of the first
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)
        loss = torch.zeros(2, dtype=torch.float64)  # the sum, and of how many
        is_cut = judgement.is_exact and fabric.device.type == "mps"  # which has only 32 bits
        device = torch.device("cpu") if is_cut else fabric.device
        for metric in metrics.values():
            metric.to(device).reset()
            if judgement.is_exact:
                metric.set_dtype(torch.float64)
        judged = Judged(judgement.guess, metrics, run.scores.monitor, split.name)
        probes = Probes(run, split, self.predictions)
        each = EachSample(judgement.tally() if judgement.tally is not None else None)
        with evaluating(model), whole(model), run.evaluation_bar(split) as bar:
            batches = split.batches(0, rank=fabric.global_rank, world=fabric.world_size)
            for at, batch in enumerate(islice(batches, QUICK_BATCHES if run.is_quick else None)):
                images, targets = fabric.to_device(batch)
                with fabric.autocast():
                    outputs = (step or self.step)(model, (images, targets))
                    if criterion is not None:
                        total = criterion(outputs, targets).item() * len(targets)
                        loss += torch.tensor([total, len(targets)], dtype=torch.float64)
                compared = judgement.measured(_moved(outputs, device), _moved(targets, device))
                for metric in metrics.values():
                    metric.update(*compared)
                judged.add(outputs, targets)
                probes.add(at, outputs, len(targets))
                each.add(images, outputs, targets)
                bar.advance()
                run.stop_if_asked()
        scores: dict[str, float] = {}
        with warnings.catch_warnings():
            if judgement.expected:
                warnings.filterwarnings("ignore", message=judgement.expected)
            for name, metric in metrics.items():
                computed = metric.compute()  # a number, or several by their names
                several = computed if isinstance(computed, Mapping) else {name: computed}
                scores |= {str(key): float(value) for key, value in several.items()}
        judged.scores = scores
        judged.own_columns = each.columns(split.order(fabric.global_rank, fabric.world_size), is_cut=run.is_quick)
        run.scores.judged[split.name] = judged
        run.scores.probes = probes.samples
        if criterion is not None:
            sums: Any = fabric.all_reduce(fabric.to_device(loss), reduce_op="sum")
            scores = {"loss": float(sums[0] / sums[1]), **scores}
        return {f"{split.name}.{name}": value for name, value in scores.items()}


def _moved(values: Any, device: torch.device) -> Any:
    """All tensors in some outputs or targets on a device; those of half precision become single."""

    def move(value: Tensor) -> Tensor:
        is_half = value.dtype in (torch.float16, torch.bfloat16)
        return value.to(device, torch.float32) if is_half else value.to(device)

    return _pytree.tree_map_only(Tensor, move, values)
