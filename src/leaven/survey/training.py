"""Optimizers, schedules and losses of torch, and timm's optimizers.

Leaves out the parameters that the program supplies (an optimizer's `params`, a schedule's `optimizer`).
"""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn, optim
from torch.optim import lr_scheduler

from leaven.survey import signature as signatures
from leaven.survey.card_file import CardFile
from leaven.survey.docstring import first_sentence
from leaven.survey.names import spellings

_NOT_CHOSEN = ("Optimizer", "LRScheduler", "ChainedScheduler", "SequentialLR")  # abstract, or made of other schedules


def survey_optimizers(cards: CardFile) -> None:
    """torch's optimizers."""
    for class_ in _classes(optim, optim.Optimizer):
        facts = {"closure": True} if class_ is optim.LBFGS else {}
        _add(cards, f"torch.{class_.__name__}", f"torch.optim.{class_.__name__}", class_, {"params"}, facts)


def survey_schedules(cards: CardFile) -> None:
    """torch's schedules."""
    for class_ in _classes(lr_scheduler, lr_scheduler.LRScheduler):
        facts = {"score": True} if class_ is lr_scheduler.ReduceLROnPlateau else {}
        target = f"torch.optim.lr_scheduler.{class_.__name__}"
        _add(cards, f"torch.{class_.__name__}", target, class_, {"optimizer"}, facts)


def survey_losses(cards: CardFile) -> None:
    """torch's losses, apart from those that hold weights of their own."""
    for class_ in _classes(nn, nn.Module):
        if class_.__name__.endswith("Loss") and "in_features" not in signatures.read(class_).names():
            _add(cards, f"torch.{class_.__name__}", f"torch.nn.{class_.__name__}", class_, set(), {})


def _classes(module: Any, parent: type) -> Iterator[type]:
    """A module's public classes below `parent`, by name."""
    for name, class_ in sorted(vars(module).items(), key=lambda item: str(item[0]).lower()):
        if not inspect.isclass(class_) or not issubclass(class_, parent) or name != class_.__name__:
            continue
        if name not in _NOT_CHOSEN and not name.startswith("_"):
            yield class_


def _add(cards: CardFile, name: str, target: str, class_: type, supplied: set[str], facts: dict[str, Any]) -> None:
    cards.add(
        name,
        target,
        signatures.read(class_).without(supplied),
        spellings=spellings(class_.__name__, cards.kind),
        summary=first_sentence(class_.__doc__),
        facts=facts,
    )


def survey_timm_optimizers(cards: CardFile) -> None:
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
        cards.add(f"timm.{name}", target, signature, spellings=(name,), summary=described, facts=facts)
