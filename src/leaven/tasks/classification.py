"""Image classification: what is measured on a batch of images and their labels."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torchmetrics import Metric

from leaven.runtime.batches import Part


@torch.no_grad()
def evaluate(
    fabric: Fabric,
    model: nn.Module,
    part: Part,
    criterion: Callable[[Tensor, Tensor], Tensor],
    metrics: Mapping[str, Metric],
    *,
    limit: int | None = None,
) -> dict[str, float]:
    """The loss and the metrics of a model over one part of the data: `{"val.loss": 0.2, "val.accuracy": 0.95}`."""
    was_training = model.training
    model.eval()
    loss, count = torch.zeros((), dtype=torch.float64), 0
    for metric in metrics.values():
        metric.to(fabric.device).reset()
    for number, batch in enumerate(part.batches(0, rank=fabric.global_rank, world=fabric.world_size)):
        if limit is not None and number >= limit:
            break
        images, labels = fabric.to_device(batch)
        logits = model(images)
        loss += criterion(logits, labels).double().cpu() * len(labels)
        count += len(labels)
        for metric in metrics.values():
            metric.update(logits, labels)
    model.train(was_training)
    total = fabric.all_reduce(torch.stack([loss, torch.tensor(float(count), dtype=torch.float64)]), reduce_op="sum")
    scores: dict[str, Any] = {"loss": float(total[0] / total[1])} if total[1] > 0 else {}
    scores |= {name: float(metric.compute()) for name, metric in metrics.items()} if total[1] > 0 else {}
    return {f"{part.name}.{name}": value for name, value in scores.items()}
