"""What is the same for all trials of a group, made once: the data, the model as it is built, and its stored outputs.

A trial gets the data itself, if it would be built from the same arguments; a copy of the model; and the outputs, if its
model is such a copy whose frozen layers are those of the first. Their weights are then in memory once for all trials.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from leaven.runtime.model.graph import over
from leaven.runtime.model.looking import NotCopied, copy_to_look_at
from leaven.runtime.model.state import state_of
from leaven.runtime.seeding import Generators, are_same_generators, generators, set_generators
from leaven.runtime.stored.frozen import FrozenPart, Unchanged, continue_from_stored, share_weights
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
        setattr(program, name, _built_once(function, is_copied=name == "build_model"))


def _built_once(function: Callable[..., Any], *, is_copied: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def build(*args: Any) -> Any:
        trial = current_trial()
        if trial is None:
            return function(*args)
        made: list[_Built] = trial.group.shared.setdefault(function, [])
        found = next((each for each in made if each.fits(args)), None)
        if found is None:
            found = _Built.by(function, args)
            made.append(found)
            if is_copied:
                found.result.__dict__[_BUILT_AS] = len(made)
        return _copied(found, function, args) if is_copied else _given(found)

    return build


def _given(found: "_Built") -> Any:
    set_generators(found.after)
    return found.result


def _copied(found: "_Built", function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A copy of a model; where there can be none, a model that is built again."""
    try:
        copied = copy_to_look_at(found.result)
    except NotCopied:
        set_generators(found.before)
        return function(*args)
    set_generators(found.after)
    return copied


@dataclass(frozen=True, eq=False)
class _Built:
    """What a function has built, with all that it depends on: its arguments, and the generators before it."""

    given: tuple[Any, ...]  # of the arguments of the program, only those that were read
    before: Generators
    result: Any
    after: Generators

    @classmethod
    def by(cls, function: Callable[..., Any], args: tuple[Any, ...]) -> "_Built":
        given = tuple(_Read({}) if isinstance(one, argparse.Namespace) else one for one in args)
        noting = [one.noting(arg) if isinstance(one, _Read) else arg for one, arg in zip(given, args, strict=True)]
        before = generators()
        return cls(given, before, function(*noting), generators())

    def fits(self, args: tuple[Any, ...]) -> bool:
        """Whether these arguments would lead to the same."""
        pairs = zip(self.given, args, strict=True)
        is_given = all(one.fits(arg) if isinstance(one, _Read) else one == arg for one, arg in pairs)
        return is_given and are_same_generators(self.before, generators())


@dataclass(frozen=True, eq=False)
class _Read:
    """The arguments of a program that a function has read, with their values."""

    values: dict[str, Any]

    def noting(self, args: argparse.Namespace) -> argparse.Namespace:
        """The same arguments, each noted when it is read."""
        values = self.values

        class Noting(argparse.Namespace):
            def __getattribute__(self, name: str) -> Any:
                found = object.__getattribute__(self, name)
                values.update(found if name == "__dict__" else {name: found} if not name.startswith("__") else {})
                return found

        noting = Noting(**vars(args))
        values.clear()
        return noting

    def fits(self, args: argparse.Namespace) -> bool:
        return all(name in args and getattr(args, name) == value for name, value in self.values.items())


def shared_frozen(
    trial: Trial,
    phase: "Phase",
    splits: Sequence["Split"],
    store: Callable[[], dict[str, StoredSplit]],
    *,
    exact: bool,
) -> dict[str, StoredSplit]:
    """The stored splits of a trial that was here before, if this one would get the same; else its own."""
    model = phase.model
    key = (_BUILT_AS, model.__dict__.get(_BUILT_AS), phase.number, tuple(map(id, splits)), exact, str(model))
    modes = _modes(model)
    known: list[_Stored] = trial.group.shared.setdefault(key, [])
    for one in known if model.__dict__.get(_BUILT_AS) is not None else ():
        if one.modes == modes and _has_same_frozen(model, one.model):
            if one.part is not None and one.unchanged is not None:
                part = _part_like(one.part, model)
                share_weights(model, one.model, dict(part.before.named_parameters()))
                continue_from_stored(model, part)
                phase.unchanged = Unchanged(model, part, one.unchanged.weights, has_same=True)
            return one.splits
    with trial.alone():
        found = store()
    own: FrozenPart | None = model.__dict__["forward"].args[1] if found else None
    known.append(_Stored(model, modes, own, phase.unchanged, found))
    return found


@dataclass(frozen=True, eq=False)
class _Stored:
    """What the first trial has; no part if nothing is stored."""

    model: nn.Module
    modes: list[bool]  # of training, as the model was before
    part: FrozenPart | None
    unchanged: Unchanged | None
    splits: dict[str, StoredSplit]


def _modes(model: nn.Module) -> list[bool]:
    return [each.training for each in model.modules()]


def _has_same_frozen(model: nn.Module, other: nn.Module) -> bool:
    """Whether two models of the same layers have the same frozen parameters, buffers and plain state."""
    named = zip(model.named_parameters(), other.named_parameters(), strict=True)
    if not all(a == b and p.requires_grad == q.requires_grad for (a, p), (b, q) in named):
        return False
    frozen = [(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True) if not p.requires_grad]
    pairs = (*frozen, *zip(model.buffers(), other.buffers(), strict=True))
    return all(torch.equal(a, b) for a, b in pairs) and state_of(model) == state_of(other)


def _part_like(part: FrozenPart, model: nn.Module) -> FrozenPart:
    """The parts of a model, by the graphs of another of the same layers."""
    parts = (part.before, part.after, part.after_in_evaluation)
    before, after, in_evaluation = (over(model, each.graph, each) for each in parts)
    return FrozenPart(before, after, in_evaluation, part.names)
