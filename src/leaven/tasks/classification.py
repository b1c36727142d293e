"""Image classification: what is measured on a batch of images and their labels."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from leaven.runtime.data.batches import Split
from leaven.runtime.run.phase import QUICK_BATCHES
from leaven.runtime.run.run import Run

Metrics = Mapping[str, Metric]
EvalStep = Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]


def logits_of(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """What a model says about a batch, one number per class."""
    outputs: Tensor = module(batch[0])
    return outputs


class Mean(Metric):
    """The mean over all items of what a function says about a batch's outputs and labels."""

    total: Tensor
    count: Tensor

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, labels: Tensor) -> None:
        self.total += float(self.function(logits, labels)) * len(labels)
        self.count += len(labels)

    def compute(self) -> Tensor:
        return self.total / self.count


@torch.no_grad()
def evaluate(
    run: Run,
    module: nn.Module,
    part: Split,
    metrics: Metrics,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
    step: EvalStep = logits_of,
) -> dict[str, float]:
    """The loss and the metrics of a model over one part of the data: `{"val.loss": 0.2, "val.accuracy": 0.95}`.

    Every process measures its share; the scores are of all. A part without items has none.
    """
    fabric = run.fabric
    if not len(part):
        return {}
    _agree(module, fabric.world_size)
    was_training = module.training
    module.eval()
    loss = torch.zeros(2, dtype=torch.float64)  # the sum, and of how many
    for metric in metrics.values():
        metric.to(fabric.device).reset()
    for number, batch in enumerate(part.batches(0, rank=fabric.global_rank, world=fabric.world_size)):
        if run.is_quick and number >= QUICK_BATCHES:
            break
        images, labels = fabric.to_device(batch)
        with fabric.autocast():
            logits = step(module, (images, labels))
            if criterion is not None:
                loss += torch.tensor([criterion(logits, labels).item() * len(labels), len(labels)])
        for metric in metrics.values():
            metric.update(logits.float(), labels)
    module.train(was_training)
    scores = {name: float(each.compute()) for name, each in metrics.items()}
    if criterion is not None:
        total: Any = fabric.all_reduce(fabric.to_device(loss), reduce_op="sum")
        scores = {"loss": float(total[0] / total[1]), **scores}
    return {f"{part.name}.{name}": value for name, value in scores.items()}


def _agree(module: nn.Module, processes: int) -> None:
    """Every process measures the same model: statistics of normalisation are those of the first."""
    if processes > 1:
        for buffer in module.buffers():
            torch.distributed.broadcast(buffer, src=0)
