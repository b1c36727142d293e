"""What is the same for all trials of a group, made once: the data, the model as it is built, and its stored outputs.

A trial gets the data itself, a copy of the model, and the outputs if its model is such a copy whose frozen layers are
those of the first.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from leaven.runtime.seeding import are_same_generators, generators, set_generators
from leaven.runtime.stored.frozen import FrozenPart, continue_from_stored
from leaven.runtime.stored.split import StoredSplit
from leaven.runtime.trials.group import Trial, current_trial

if TYPE_CHECKING:
    from leaven.runtime.data.batches import Split
    from leaven.runtime.run.phase import Phase

_BUILT_AS = "_leaven_built_as"  # the attribute of a copy that holds the number of the model that it is a copy of


def share_building(program: ModuleType) -> None:
    """Let the functions of a program that build data and models do so once for all trials that ask for the same."""
    for name in ("build_data", "build_model"):
        function = getattr(program, name)
        if "args" not in inspect.signature(function).parameters:
            setattr(program, name, _built_once(function, is_copied=name == "build_model"))


def _built_once(function: Callable[..., Any], *, is_copied: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def build(*args: Any) -> Any:
        trial = current_trial()
        if trial is None:
            return function(*args)
        before = generators()
        made = trial.group.shared.setdefault(function, [])
        found = next((each for each in made if each[0] == args and are_same_generators(each[1], before)), None)
        if found is None:
            built = function(*args)
            if is_copied:
                built.__dict__[_BUILT_AS] = len(made)
            found = (args, before, built, generators())
            made.append(found)
        set_generators(found[3])
        return copy.deepcopy(found[2]) if is_copied else found[2]

    return build


def shared_frozen(
    trial: Trial,
    phase: "Phase",
    splits: Sequence["Split"],
    how: tuple[int, bool],
    store: Callable[[], dict[str, StoredSplit]],
) -> dict[str, StoredSplit]:
    """The stored splits of a trial that was here before, if this one would get the same; else its own.

    `how` are the number of views and whether outputs are exact.
    """
    model = phase.model
    key = (_BUILT_AS, model.__dict__.get(_BUILT_AS), phase.number, tuple(map(id, splits)), how, str(model))
    known: list[_Stored] = trial.group.shared.setdefault(key, [])
    for one in known if model.__dict__.get(_BUILT_AS) is not None else ():
        if _has_same_frozen(model, one.model):
            if one.part is not None:
                continue_from_stored(model, _part_like(one.part, model))
            return one.splits
    with trial.alone():
        found = store()
    known.append(_Stored(model, model.__dict__["forward"].args[1] if found else None, found))
    return found


@dataclass(frozen=True, eq=False)
class _Stored:
    """What the first trial has; no part if nothing is stored."""

    model: nn.Module
    part: FrozenPart | None
    splits: dict[str, StoredSplit]


def _has_same_frozen(model: nn.Module, other: nn.Module) -> bool:
    """Whether two models of the same layers have the same frozen parameters, modes and buffers."""
    pairs = zip(model.named_parameters(), other.named_parameters(), strict=True)
    if not all(a == b and p.requires_grad == q.requires_grad for (a, p), (b, q) in pairs):
        return False
    if [each.training for each in model.modules()] != [each.training for each in other.modules()]:
        return False
    frozen = [(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True) if not p.requires_grad]
    return all(torch.equal(a, b) for a, b in (*frozen, *zip(model.buffers(), other.buffers(), strict=True)))


def _part_like(part: FrozenPart, model: nn.Module) -> FrozenPart:
    """The parts of a model, by the graphs of another of the same layers."""
    after, in_evaluation = (fx.GraphModule(model, each.graph) for each in (part.after, part.after_in_evaluation))
    return FrozenPart(part.before, after, in_evaluation, part.names)
