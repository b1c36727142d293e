"""What training is made of: optimizers, schedules, losses and metrics of torch, timm and torchmetrics.

Decides which parameters the program supplies by itself (an optimizer's `params`, a metric's `task`), and leaves these
out.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from torch import nn, optim
from torch.optim import lr_scheduler

from leaven.facts import signature as signatures
from leaven.facts.docstring import first_sentence
from leaven.facts.shelf import Shelf
from leaven.facts.signature import Signature
from leaven.facts.spelling import spellings

_NOT_CHOSEN = ("Optimizer", "LRScheduler", "ChainedScheduler", "SequentialLR")  # abstract, or made of other schedules


def survey_optimizers(shelf: Shelf) -> None:
    """torch's optimizers."""
    for class_ in _classes(optim, optim.Optimizer):
        facts = {"closure": True} if class_ is optim.LBFGS else {}
        _add(shelf, f"torch.{class_.__name__}", f"torch.optim.{class_.__name__}", class_, {"params"}, facts)


def survey_schedules(shelf: Shelf) -> None:
    """torch's schedules."""
    for class_ in _classes(lr_scheduler, lr_scheduler.LRScheduler):
        facts = {"score": True} if class_ is lr_scheduler.ReduceLROnPlateau else {}
        target = f"torch.optim.lr_scheduler.{class_.__name__}"
        _add(shelf, f"torch.{class_.__name__}", target, class_, {"optimizer"}, facts)


def survey_losses(shelf: Shelf) -> None:
    """torch's losses, apart from those that hold weights of their own."""
    for class_ in _classes(nn, nn.Module):
        if class_.__name__.endswith("Loss") and "in_features" not in signatures.read(class_).names():
            _add(shelf, f"torch.{class_.__name__}", f"torch.nn.{class_.__name__}", class_, set(), {})


def _classes(module: Any, parent: type) -> Iterator[type]:
    """A module's public classes below `parent`, by name."""
    for name, class_ in sorted(vars(module).items(), key=lambda item: str(item[0]).lower()):
        if not inspect.isclass(class_) or not issubclass(class_, parent) or name != class_.__name__:
            continue
        if name not in _NOT_CHOSEN and not name.startswith("_"):
            yield class_


def _add(shelf: Shelf, name: str, target: str, class_: type, supplied: set[str], facts: dict[str, Any]) -> None:
    shelf.add(
        name,
        target,
        signatures.read(class_).without(supplied),
        spellings=spellings(class_.__name__, shelf.kind),
        summary=first_sentence(class_.__doc__),
        facts=facts,
    )


def survey_timm_optimizers(shelf: Shelf) -> None:
    """timm's optimizers by their registered names; `facts.arguments` is what a name adds to its class."""
    timm_optim: Any = importlib.import_module("timm.optim")
    if not hasattr(timm_optim, "list_optimizers"):
        return  # timm before 1.0.12 keeps no list
    for name in timm_optim.list_optimizers():
        try:
            class_ = timm_optim.get_optimizer_class(name, bind_defaults=False)
        except (ImportError, AttributeError, ValueError, AssertionError):
            continue  # belongs to a library or a device that is not here
        if not inspect.isclass(class_):
            continue
        info = timm_optim.get_optimizer_info(name)
        bound = dict(info.defaults or {})
        signature = signatures.read(class_).without({"params"})
        for parameter in signature.parameters:
            if parameter["name"] in bound:
                signatures.set_default(parameter, bound[parameter["name"]], parameter.get("summary", ""))
        facts: dict[str, Any] = {"arguments": signatures.plain_items(bound)} if bound else {}
        if info.second_order:
            facts["second_order"] = True
        described = info.description or first_sentence(class_.__doc__)
        target = signatures.import_path(class_)
        shelf.add(f"timm.{name}", target, signature, spellings=(name,), summary=described, facts=facts)


_TASKS = ("binary", "multiclass", "multilabel")
_TASK_SUPPLIED = ("task", "num_classes", "num_labels")


def survey_metrics(shelf: Shelf) -> None:
    """torchmetrics' metrics: those that choose by task first, then the others of its top level."""
    import torchmetrics
    from torchmetrics import Metric

    common = _common_arguments(Metric)
    for name in sorted(torchmetrics.__all__):
        class_ = getattr(torchmetrics, name)
        if not inspect.isclass(class_) or not issubclass(class_, Metric) or class_ is Metric:
            continue
        family = class_.__module__.split(".")[1]
        if family in ("wrappers", "aggregation"):
            continue  # they are made of other metrics, or of plain numbers
        by_task = _classes_by_task(class_)
        signature, facts = _task_signature(class_, by_task) if by_task else (signatures.read(class_), {})
        facts["task"] = family
        better = next(getattr(part, "higher_is_better", None) for part in (*by_task.values(), class_))
        if isinstance(better, bool):
            facts["higher_is_better"] = better
        signature.parameters += [entry for entry in common if entry["name"] not in signature.names()]
        signature.open_ended = False  # what metrics take by `**kwargs` are the common arguments
        shelf.add(
            f"torchmetrics.{name}",
            f"torchmetrics.{name}",
            signature.without(_TASK_SUPPLIED if by_task else ()),
            spellings=spellings(name, "metric"),
            summary=first_sentence(class_.__doc__),
            facts=facts,
        )


def _common_arguments(metric: type) -> list[signatures.Entry]:
    """The arguments that every metric takes by `**kwargs`."""
    found = re.findall(r'kwargs\.pop\(\s*"(\w+)",\s*(\w*)', inspect.getsource(metric.__init__))  # type: ignore[misc]
    switches = {"True": True, "False": False}
    return [
        {"name": name, "type": "bool", "default": switches[default], "positional": False}
        if default in switches
        else {"name": name, "type": "any", "positional": False}
        for name, default in dict(found).items()
    ]


def _classes_by_task(class_: type) -> dict[str, type]:
    """The classes that a metric chooses from by its `task`; none for one that does not choose."""
    if "task" not in inspect.signature(class_.__new__).parameters:
        return {}
    import torchmetrics.classification as classification

    found = {task: getattr(classification, task.capitalize() + class_.__name__, None) for task in _TASKS}
    return {task: part for task, part in found.items() if inspect.isclass(part)}


def _task_signature(class_: type, by_task: dict[str, type]) -> tuple[Signature, dict[str, Any]]:
    """The parameters of a metric and of all that it chooses from; they are taken by name, since tasks order them."""
    signature = signatures.read(class_.__new__, documentation=_task_documentation(by_task))
    parameters_by_task = {}
    for task, part in by_task.items():
        special = signatures.read(part)
        parameters_by_task[task] = sorted(special.names() - set(_TASK_SUPPLIED))
        signature.parameters += [entry for entry in special.parameters if entry["name"] not in signature.names()]
    for parameter in signature.parameters:
        parameter["positional"] = False
        parameter.pop("required", None)
    facts = {"tasks": list(by_task), "parameters_by_task": parameters_by_task, "supplied": list(_TASK_SUPPLIED)}
    return signature, facts


def _task_documentation(by_task: dict[str, type]) -> str:
    preferred = by_task.get("multiclass") or next(iter(by_task.values()))
    return inspect.cleandoc(preferred.__doc__ or "")
