"""torchmetrics' metrics.

Leaves out the parameters that the program passes (`task`, `num_classes`).
"""

import inspect
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from leaven.catalog.traits import MetricTraits
from leaven.formats.target_kind import TargetKind
from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile
from leaven.survey.signature import Signature

_TASKS = ("binary", "multiclass", "multilabel")
_TASK_SUPPLIED = ("task", "num_classes", "num_labels")


def survey(cards: CardFile) -> None:
    """torchmetrics' top-level metrics."""
    import torchmetrics
    from torchmetrics import Metric

    common = _common_arguments(Metric)
    for name in sorted(torchmetrics.__all__):
        class_ = getattr(torchmetrics, name)
        if not inspect.isclass(class_) or not issubclass(class_, Metric) or class_ is Metric:
            continue
        family = class_.__module__.split(".")[1]
        if family in ("wrappers", "aggregation"):
            continue  # they combine other metrics, or plain numbers
        by_task = _classes_by_task(class_)
        signature = _task_signature(class_, by_task) if by_task else signatures.read(class_)
        better = next(getattr(part, "higher_is_better", None) for part in (*by_task.values(), class_))
        signature.parameters += [entry for entry in common if entry["name"] not in signature.names()]
        signature.open_ended = False  # the `**kwargs` of metrics are the common arguments
        supplied = _TASK_SUPPLIED if by_task else ()
        traits = MetricTraits(
            _targets(class_, by_task),
            higher_is_better=better if isinstance(better, bool) else None,
            is_single_number=_is_single_number(by_task["multiclass"]) if "multiclass" in by_task else True,
            supplied=supplied,
        )
        cards.add_class(_documented(class_), f"torchmetrics.{name}", signature.without(supplied), traits)


def _documented(class_: type) -> type:
    """The class that describes a metric; at the top level, torchmetrics has wrappers of some that only warn."""
    return class_.__mro__[1] if class_.__module__.endswith("._deprecated") else class_


def _targets(class_: type, by_task: Mapping[str, type]) -> tuple[TargetKind, ...]:
    """The kinds of targets that a metric compares outputs with."""
    if class_.__module__.split(".")[1] == "regression":
        return ("number",)
    kinds: dict[str, TargetKind] = {"multiclass": "class", "multilabel": "binary"}
    return tuple(kind for task, kind in kinds.items() if task in by_task)


def _common_arguments(metric: type) -> list[signatures.Entry]:
    """The arguments that every metric takes by `**kwargs`."""
    popped = re.findall(r'kwargs\.pop\(\s*"(\w+)",\s*(\w*)', inspect.getsource(metric.__init__))  # type: ignore[misc]
    switches = {"True": True, "False": False}
    return [
        {"name": name, "type": "bool", "default": switches[default], "positional": False}
        if default in switches
        else {"name": name, "type": "any", "positional": False}
        for name, default in dict(popped).items()
    ]


def _classes_by_task(class_: type) -> dict[str, type]:
    """The classes that a metric chooses from by its `task`; empty for one that does not."""
    if "task" not in inspect.signature(class_.__new__).parameters:
        return {}
    import torchmetrics.classification as classification

    by_task = {task: getattr(classification, task.capitalize() + class_.__name__, None) for task in _TASKS}
    return {task: part for task, part in by_task.items() if inspect.isclass(part)}


def _task_signature(class_: type, by_task: dict[str, type]) -> Signature:
    """The parameters of a metric and of the classes that it chooses from; keyword-only, since their order differs."""
    documented = by_task.get("multiclass") or next(iter(by_task.values()))
    signature = signatures.read(class_.__new__, documentation=inspect.cleandoc(documented.__doc__ or ""))
    for part in by_task.values():
        special = signatures.read(part)
        signature.parameters += [entry for entry in special.parameters if entry["name"] not in signature.names()]
    return signature.as_options()


def _is_single_number(class_: Any) -> bool:
    """Whether a metric of three classes computes one number; found by trying; True where that fails."""
    required = [entry["name"] for entry in signatures.read(class_).parameters if entry.get("required")]
    arguments = {name: 0.5 for name in required if name != "num_classes"}  # a threshold or a weight
    try:
        metric = class_(num_classes=3, **arguments)
        metric.update(torch.eye(3), torch.arange(3))
        result = metric.compute()
    except Exception:
        return True
    return isinstance(result, Tensor) and result.numel() == 1
