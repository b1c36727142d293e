"""Shared by all trials of a group, and made once: the data, the model as it is built, and its stored outputs.

A trial gets the data itself, if it would be built from the same arguments; a copy of the model; and the outputs, if its
model is such a copy whose frozen layers are those of the first. Their weights are then in memory once for all trials.
"""

import argparse
import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from leaven.runtime.model.builder import built, noting, record
from leaven.runtime.model.looking import NotCopied, copy_to_look_at
from leaven.runtime.model.outside import UserVariables, holds_variables
from leaven.runtime.model.state import state_of
from leaven.runtime.seeding import are_same_generators, generators, set_generators
from leaven.runtime.stored.frozen import StoredPart
from leaven.runtime.trials.fused import has_hooks
from leaven.runtime.trials.group import Trial, current_trial

if TYPE_CHECKING:
    from leaven.runtime.data.batches import Split
    from leaven.runtime.run.phase import Phase

_built_as: WeakKeyDictionary[nn.Module, "_Built"] = WeakKeyDictionary()  # of which model each is a copy


def share_building(program: ModuleType) -> None:
    """Let the functions of a program that build data and models do so once for all trials that ask for the same."""
    for name in ("build_data", "build_model"):
        function = getattr(program, name)
        setattr(program, name, _built_once(function, is_copied=name == "build_model"))


def _built_once(function: Callable[..., Any], *, is_copied: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def build(*args: Any) -> Any:
        trial = current_trial()
        if trial is None:
            return function(*args)
        earlier: list[_Built] = trial.group.shared.setdefault(function, [])
        built = next((each for each in earlier if each.fits(args)), None)
        if built is None:
            built = _Built.by(function, args)
            earlier.append(built)
        result = _copied(built.result) if is_copied else built.result
        if result is None:
            built.before.restore()
            return function(*args)
        if is_copied:
            _built_as[result] = built
        built.after.restore()
        return result

    return build


def _copied(model: nn.Module) -> nn.Module | None:
    """A copy of a model; None where it has to be built again."""
    if holds_variables(model) or any(map(has_hooks, model.parameters())):  # which are not copied
        return None
    try:
        copied = copy_to_look_at(model)
    except NotCopied:
        return None
    record(copied, **vars(built(model)))
    return copied


@dataclass(frozen=True, eq=False)
class _Built:
    """The result of a function that builds, with all that it depends on: the arguments, and the state before it."""

    given: tuple[Any, ...]  # of the arguments of the program, only those that were read
    before: "_State"
    result: Any
    after: "_State"

    @classmethod
    def by(cls, function: Callable[..., Any], args: tuple[Any, ...]) -> "_Built":
        given = tuple({} if isinstance(arg, argparse.Namespace) else arg for arg in args)
        pairs = zip(given, args, strict=True)
        noted = [noting(arg, known) if isinstance(arg, argparse.Namespace) else arg for known, arg in pairs]
        return cls(given, _State(), function(*noted), _State())

    def fits(self, args: tuple[Any, ...]) -> bool:
        """Whether these arguments would lead to the same."""
        return all(map(_fits, self.given, args)) and self.before.is_now()


def _fits(known: Any, arg: Any) -> bool:
    if not isinstance(arg, argparse.Namespace):
        return bool(known == arg)
    return all(name in arg and getattr(arg, name) == value for name, value in known.items())


class _State:
    """The state of a process: its generators of random numbers, and the variables of the user's files."""

    def __init__(self) -> None:
        self._generators = generators()
        self._outside = UserVariables()

    def is_now(self) -> bool:
        return are_same_generators(self._generators, generators()) and self._outside.is_now()

    def restore(self) -> None:
        set_generators(self._generators)
        self._outside.restore()


def shared_frozen(
    trial: Trial,
    phase: "Phase",
    model: nn.Module,
    splits: Sequence["Split"],
    store: Callable[[], StoredPart | None],
    *,
    exact: bool,
) -> StoredPart | None:
    """What a trial that was here before has stored, if this one would get the same; else its own."""
    built_as = _built_as.get(model)
    key = (built_as, phase.number, tuple(map(id, splits)), exact, str(model))
    modes = [module.training for module in model.modules()]
    known: list[_Stored] = trial.group.shared.setdefault(key, [])
    for first in known if built_as is not None else ():
        if first.modes == modes and first.before.is_now() and _has_same_frozen(model, first.model):
            first.after.restore()
            if first.stored is None:
                return None
            stored = first.stored.of_copy(model)
            share_weights(model, first.model, dict(stored.part.before.named_parameters()))
            return stored
    before = UserVariables()
    trial.is_alone = True
    try:
        own = store()
    finally:
        trial.is_alone = False
    known.append(_Stored(model, modes, own, before, UserVariables()))
    return own


@dataclass(frozen=True, eq=False)
class _Stored:
    """What a trial has stored, for others; None if there was nothing to store."""

    model: nn.Module
    modes: list[bool]  # of training, as the model was before
    stored: StoredPart | None
    before: UserVariables  # the variables of the user's files
    after: UserVariables


def _has_same_frozen(model: nn.Module, other: nn.Module) -> bool:
    """Whether two models of the same layers have the same frozen parameters, buffers and plain state."""
    named = zip(model.named_parameters(), other.named_parameters(), strict=True)
    if not all(a == b and p.requires_grad == q.requires_grad for (a, p), (b, q) in named):
        return False
    frozen = [(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True) if not p.requires_grad]
    pairs = (*frozen, *zip(model.buffers(), other.buffers(), strict=True))
    return all(torch.equal(a, b) for a, b in pairs) and state_of(model) == state_of(other)


# -- frozen weights in the same memory: 32 trials of a large model need little more than one
#
# Only weights whose outputs are stored are shared, as nobody writes to them. Other frozen layers run with every batch,
# and may have code that changes their weights.

_shared: WeakKeyDictionary[nn.Module, list[nn.Parameter]] = WeakKeyDictionary()  # by the model that they belong to


def share_weights(model: nn.Module, other: nn.Module, names: Collection[str]) -> None:
    """Let some parameters of a model be in memory where those of another one are, which are equal."""
    _shared[model] = [model.get_parameter(name) for name in names]
    for name in names:
        model.get_parameter(name).data = other.get_parameter(name).data


def shared_weights(model: nn.Module) -> Sequence[nn.Parameter]:
    """The parameters of a model that are in memory where those of another one are."""
    return _shared.get(model, ())


def own_weights(model: nn.Module) -> None:
    """Let all parameters of a model be in memory of their own again."""
    for parameter in _shared.pop(model, ()):
        parameter.data = parameter.data.clone()
