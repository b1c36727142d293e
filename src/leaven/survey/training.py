"""Optimizers, schedules and losses of torch, and timm's optimizers.

Leaves out the parameters that the program passes (an optimizer's `params`, a schedule's `optimizer`).
"""

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.optim import lr_scheduler

from leaven.catalog.traits import LossTraits, OptimizerTraits, ScheduleTraits
from leaven.formats.target_kind import TargetKind
from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile
from leaven.survey.docstring import first_sentence

_PER_BATCH = (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)  # only their documentation says so
_NOT_CHOSEN = ("Optimizer", "LRScheduler", "ChainedScheduler", "SequentialLR")  # abstract, or made of other schedules


def survey_optimizers(cards: CardFile) -> None:
    """torch's optimizers."""
    for class_ in _classes(optim, optim.Optimizer):
        traits = OptimizerTraits(needs_closure=_needs_closure(class_))
        signature = signatures.read(class_).without({"params"})
        for parameter in signature.parameters:
            if parameter["name"] == "lr":
                parameter["passes_default"] = True  # the number that people look for first is always in the program
        cards.add_class(class_, f"torch.optim.{class_.__name__}", signature, traits)


def _needs_closure(class_: Any) -> bool:
    closure = inspect.signature(class_.step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def survey_schedules(cards: CardFile) -> None:
    """torch's schedules."""
    for class_ in _classes(lr_scheduler, lr_scheduler.LRScheduler):
        signature = signatures.read(class_)
        needs_score = "metrics" in inspect.signature(class_.step).parameters
        traits = ScheduleTraits(
            stepped_by="score" if needs_score else "step" if class_ in _PER_BATCH else "epoch",
            needs_total_steps="total_steps" in signature.names(),
        )
        cards.add_class(class_, f"torch.optim.lr_scheduler.{class_.__name__}", signature.without({"optimizer"}), traits)


def survey_losses(cards: CardFile) -> None:
    """torch's losses without parameters of their own."""
    for class_ in _classes(nn, nn.Module):
        signature = signatures.read(class_)
        if class_.__name__.endswith("Loss") and "in_features" not in signature.names():
            cards.add_class(class_, f"torch.nn.{class_.__name__}", signature, LossTraits(targets=_targets(class_)))


def _targets(class_: Any) -> tuple[TargetKind, ...]:
    """The kinds of targets that a loss compares outputs with; tried out."""
    trials: dict[TargetKind, Callable[[Any], bool]] = {
        "class": _compares_classes,
        "number": _compares_numbers,
        "binary": _compares_yes_and_no,
    }
    kinds = []
    for kind, is_compared in trials.items():
        with suppress(TypeError, ValueError, RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about shapes that are broadcast
            kinds += [kind] * is_compared(class_())
    return tuple(kinds)


def _compares_classes(loss: Any) -> bool:
    """Whether it takes a score for each class and the indices of the right ones."""
    result: Tensor = loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]))
    return result.ndim == 0


def _compares_numbers(loss: Any) -> bool:
    """Whether it is smallest where the outputs are the targets."""

    def at(distance: float, target: Tensor) -> float:
        return float(loss(target + distance, target))

    targets = [torch.full((4, 3), number) for number in (-2.0, 0.5, 3.0)]
    return all(at(0, target) < min(at(1, target), at(-1, target)) for target in targets)


def _compares_yes_and_no(loss: Any) -> bool:
    """Whether larger outputs lower it for a 1, and smaller ones for a 0."""

    def at(output: float, target: float) -> float:
        return float(loss(torch.full((4, 3), float(output)), torch.full((4, 3), float(target))))

    return at(9, 1) < at(2, 1) < at(-2, 1) and at(-9, 0) < at(-2, 0) < at(2, 0)


def _classes(module: Any, parent: type) -> Iterator[Any]:
    """A module's public classes below `parent`, by name."""
    for name, class_ in sorted(vars(module).items(), key=lambda item: str(item[0]).lower()):
        if not inspect.isclass(class_) or not issubclass(class_, parent) or name != class_.__name__:
            continue
        if name not in _NOT_CHOSEN and not name.startswith("_"):
            yield class_


def survey_timm_optimizers(cards: CardFile) -> None:
    """timm's optimizers by their registered names, which may have other defaults than their class."""
    timm_optim: Any = importlib.import_module("timm.optim")
    if not hasattr(timm_optim, "list_optimizers"):
        return  # timm before 1.0.12 keeps no list
    for name in timm_optim.list_optimizers():
        try:
            class_ = timm_optim.get_optimizer_class(name, bind_defaults=False)
        except (ImportError, AttributeError, ValueError, AssertionError):
            continue  # needs a library or a device that is missing
        if not inspect.isclass(class_):
            continue
        info = timm_optim.get_optimizer_info(name)
        bound = dict(info.defaults or {})
        signature = signatures.read(class_).without({"params"})
        for parameter in signature.parameters:
            if parameter["name"] in bound:
                signatures.set_default(parameter, bound[parameter["name"]], parameter.get("summary", ""))
                parameter["passes_default"] = True
        target, summary = signatures.import_path(class_), info.description or first_sentence(class_.__doc__)
        traits = OptimizerTraits(_needs_closure(class_), bool(info.second_order))
        cards.add(f"timm.{name}", target, signature, spellings=(name,), summary=summary, traits=traits)
