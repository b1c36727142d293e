"""How a model is measured."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from leaven.runtime.plain.batches import Split
from leaven.runtime.plain.run import Criterion, Metrics, Run
from leaven.runtime.plain.texts import to_device


@torch.no_grad()
def evaluate(
    run: Run,
    model: nn.Module,
    split: Split,
    metrics: Metrics,
    criterion: Criterion | None = None,
    step: Callable[..., Any] | None = None,  #: if eval_step
) -> dict[str, float]:
    """The loss and the metrics of a model over one split: `{"val.loss": 0.2, "val.accuracy": 0.95}`."""
    if not len(split.indices):  #: if maybe_empty
        return {}
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = 0.0
    count = 0  #: if skip
    for metric in metrics.values():
        metric.to("cpu").set_dtype(torch.float64).reset()  # not every device has 64 bits  #: if numbers
        metric.to(run.device).reset()  #: if not numbers
    for inputs, targets in split.batches():
        inputs, targets = to_device(inputs, run.device), targets.to(run.device)  #: if texts
        inputs, targets = inputs.to(run.device), targets.to(run.device)  #: if not texts
        with run.fabric.autocast():  #: if wrapped
            outputs = model(inputs) if step is None else step(model, (inputs, targets))  #: if eval_step
            outputs = model(inputs)  #: if not eval_step
            if criterion is not None:
                loss += criterion(outputs, targets).item() * len(targets)
        outputs = model(inputs) if step is None else step(model, (inputs, targets))  #: if eval_step and not wrapped
        outputs = model(inputs)  #: if not eval_step and not wrapped
        if criterion is not None:  #: if not wrapped
            loss += criterion(outputs, targets).item() * len(targets)
        count += len(targets)  #: if skip
        for metric in metrics.values():
            metric.update(*measured(outputs.float().cpu(), targets.cpu(), split.dataset.target))  #: if numbers
            metric.update(*measured(outputs, targets))  #: if masks
            metric.update(*measured(outputs.float(), targets, split.dataset.target))  #: if targets and not numbers and not masks
            metric.update(outputs.float(), targets)  #: if wrapped and not targets
            metric.update(outputs, targets)  #: if not wrapped and not targets
    for module, mode in modes:  # frozen layers are in evaluation mode during training too
        module.training = mode
    scores = {} if criterion is None else {"loss": loss / count}  #: if skip
    scores = {} if criterion is None else {"loss": loss / len(split.indices)}  #: if not skip
    scores |= {name: float(metric.compute()) for name, metric in metrics.items()}
    return {f"{split.name}.{name}": score for name, score in scores.items()}
