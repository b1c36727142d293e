"""How a model is measured."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

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
    seen: list[tuple[Tensor, ...]] = []  # the classes in outputs and targets  #: if masks
    seen: list[tuple[Tensor, Tensor]] = []  # outputs and targets  #: if not masks
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
        seen.append(tuple(each[targets >= 0].unique().cpu() for each in measured(outputs, targets)))  #: if masks
        seen.append((outputs.float().cpu(), targets.cpu()))  #: if not masks
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
    if seen and split.name == "test":
        outputs, targets = (torch.cat(each) for each in zip(*seen, strict=True))
        run.caveat = caveat(run.monitor, metrics, scores, outputs, targets, split.dataset.target)  #: if targets and not masks
        run.caveat = caveat(run.monitor, metrics, scores, outputs, targets)  #: if not targets
        if len(outputs.unique()) == 1 < len(targets.unique()):  #: if masks
            run.caveat = f"test: all pixels are predicted to be {split.dataset.classes[outputs[0]]}"
    return {f"{split.name}.{name}": score for name, score in scores.items()}


def caveat(
    monitor: str,
    metrics: Metrics,
    scores: Mapping[str, float],
    outputs: Tensor,
    targets: Tensor,
    target: Any,  #: if targets
) -> str:
    """A line about a model that is no better than the same guess for every sample; else empty."""
    guess = functional.one_hot(targets.mode().values, outputs.shape[1]).float()  # the most frequent class  #: if not targets
    guess = torch.zeros(outputs.shape[1])  # the mean of training: numbers are standardised  #: if numbers
    guess = targets.float().mean(dim=0).logit(1e-6)  # how often each label occurs  #: if targets and not numbers
    name = monitor[4:] if monitor[4:] in metrics else next(iter(metrics))
    metric = metrics[name].cpu()
    if metric.higher_is_better is None or (targets == targets[0]).all():
        return ""
    metric.reset()
    metric.update(*measured(guess.expand_as(outputs), targets, target))  #: if targets
    metric.update(guess.expand_as(outputs), targets)  #: if not targets
    sign, least = 1 if metric.higher_is_better else -1, float(metric.compute())
    if sign * scores[name] > sign * least:
        return ""
    return f"test: no better than the same guess for every sample: {name} {scores[name]:.4f} against {least:.4f}"
