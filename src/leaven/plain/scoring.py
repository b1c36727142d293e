"""How a model is measured."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leaven.plain.batches import Split
from leaven.plain.run import Run
from leaven.runtime.model.modes import evaluating


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


def outputs_of(model: nn.Module, batch: tuple[Any, Tensor]) -> Any:
    return model(batch[0])


@torch.no_grad()
def evaluate_by(
    measured: Callable[[Any, Tensor], tuple[Any, Any]],
    run: Run,
    model: nn.Module,
    split: Split,
    metrics: Any,
    criterion: Any = None,
    step: Callable[[nn.Module, tuple[Any, Tensor]], Any] = outputs_of,
    is_exact: bool = False,
) -> dict[str, float]:
    """The loss and the metrics of a model over one split. Metrics compare what `measured` makes of a batch; with
    `is_exact`, they add up 64-bit numbers."""
    loss = count = 0.0
    metrics = {name: metric.clone() for name, metric in metrics.items()}
    for metric in metrics.values():
        metric.set_dtype(torch.float64 if is_exact else torch.float32)
    with evaluating(model):
        for inputs, targets in split.batches():
            inputs, targets = inputs.to(run.device), targets.to(run.device)
            outputs = step(model, (inputs, targets))
            if criterion is not None:
                loss += criterion(outputs, targets).item() * len(targets)
            count += len(targets)
            outputs = outputs.cpu() if isinstance(outputs, Tensor) else outputs  # not every device has 64 bits
            compared = [each.cpu() for each in measured(outputs, targets.cpu())]
            for metric in metrics.values():
                metric.update(*compared)
    scores = {name: float(metric.compute()) for name, metric in metrics.items()} if count else {}
    if criterion is not None and count:
        scores = {"loss": loss / count, **scores}
    return {f"{split.name}.{name}": score for name, score in scores.items()}
