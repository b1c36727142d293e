"""Which parameters move and which modules keep still.

A selection is a set of parameters; a module's path means everything below it. A module is still when it has parameters
below it and all of them are frozen: then it is in evaluation mode whatever `.train()` is called, so that its dropout
is off and its statistics stay as they are. A module without parameters follows its parent.

Stillness is an attribute `train` on each still module itself, in place of its class's method. Hooks would run with
every forward pass and break compiled graphs; another class would change what a module is and how it is saved. Whoever
wraps the model (Fabric, DDP, torch.compile) passes `.train()` down to its children and so comes to this attribute,
as does whoever calls it on a single layer. It is no part of the state dict, and copies and pickles of a module bring
their own.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal

from torch import nn

from leaven.runtime.failures import Failure

Norms = Literal["still", "train"]
_NOTE = "_leaven_frozen"  # the attribute in which a module keeps what was frozen in it


@dataclass(frozen=True)
class _Frozen:
    """What a freeze did: the parameters that it holds, and those of them that moved before."""

    held: frozenset[str]
    moved_before: frozenset[str]
    norms: Norms


def freeze(
    module: nn.Module,
    *,
    all_but: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    norms: Norms = "still",
) -> None:
    """Keep parameters still, all of them unless told otherwise, by their names or by the paths of modules.

    What an earlier freeze held is let go first. With `norms="train"`, the statistics of frozen layers go on moving.
    """
    if all_but is not None and only is not None:
        raise ValueError("say either what to freeze or what not to")
    lift(module)
    if only is not None:
        _hold(module, below(module, only), norms)
    else:
        _hold(module, below(module, [""]) - below(module, all_but or ()), norms)


def unfreeze(module: nn.Module, paths: Sequence[str]) -> None:
    """Let parameters move again, and wake the modules that are no longer all frozen."""
    chosen = below(module, paths)
    before = module.__dict__.get(_NOTE, _Frozen(frozenset(), frozenset(), "still"))
    lift(module)
    for parameter in chosen:
        parameter.requires_grad_(True)
    _hold(module, below(module, sorted(before.held)) - chosen, before.norms)


def lift(module: nn.Module) -> None:
    """End a freeze: what it held moves again, unless it stood still before."""
    for inner in list(module.modules()):
        if is_still(inner):
            del inner.__dict__["train"]
        before = inner.__dict__.pop(_NOTE, None)
        if isinstance(before, _Frozen):
            for name, parameter in inner.named_parameters():
                if name in before.moved_before:
                    parameter.requires_grad_(True)
    module.train(module.training)


def still_copy(module: nn.Module) -> nn.Module:
    """A copy of a model that never changes."""
    copied = deepcopy(module)
    freeze(copied)
    return copied


def trainable(module: nn.Module, paths: Sequence[str] | None = None, but: Sequence[str] = ()) -> list[nn.Parameter]:
    """The parameters that move, those below `paths` only if given, and not those below `but`."""
    chosen = below(module, [""] if paths is None else paths) - below(module, but)
    return [parameter for parameter in module.parameters() if parameter in chosen and parameter.requires_grad]


def groups(module: nn.Module, *chosen: tuple[Sequence[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The parameters that move, as an optimizer takes them: those below the given paths with settings of their own,
    before them all others."""
    named = [path for paths, _ in chosen for path in paths]
    own = [{"params": trainable(module, paths), **settings} for paths, settings in chosen]
    return [{"params": trainable(module, but=named)}, *own]


def is_still(module: nn.Module) -> bool:
    """Whether a module keeps to evaluation mode."""
    instead = module.__dict__.get("train")
    return isinstance(instead, partial) and instead.func is _stay_still


def below(module: nn.Module, paths: Sequence[str]) -> set[nn.Parameter]:
    """The parameters that are named, or lie below a module that is; the empty path is the model itself.

    A path may be a glob, in which a star stands for anything: `blocks.*.bn1`.
    """
    named = dict(module.named_parameters(remove_duplicate=False))
    chosen: set[nn.Parameter] = set()
    for path in paths:
        found = {named[name] for name in named if not path or fnmatchcase(name, path) or fnmatchcase(name, f"{path}.*")}
        if not found:
            raise Failure(f"the model has no parameters called {path}, nor any in a layer of that name")
        chosen |= found
    return chosen


def _hold(module: nn.Module, held: set[nn.Parameter], norms: Norms) -> None:
    named = [(name, parameter) for name, parameter in module.named_parameters() if parameter in held]
    moved_before = frozenset(name for name, parameter in named if parameter.requires_grad)
    for parameter in held:
        parameter.requires_grad_(False)
        parameter.grad = None  # else a gradient's norm would still count the last phase's
    module.__dict__[_NOTE] = _Frozen(frozenset(name for name, _ in named), moved_before, norms)
    modes = list(_modes(module, False, held, norms))
    # a module that is used in two places keeps still only if both do
    awake = {inner for inner, stays in modes if not stays}
    for inner, _ in modes:
        if inner not in awake:
            inner.__dict__["train"] = partial(_stay_still, inner)
    module.train(module.training)


def _modes(
    module: nn.Module, parent_is_still: bool, held: set[nn.Parameter], norms: Norms
) -> Iterator[tuple[nn.Module, bool]]:
    """Every module at and below one, with whether it is to keep still."""
    parameters = list(module.parameters())
    stays = held.issuperset(parameters) if parameters else parent_is_still
    if norms == "train" and _keeps_statistics(module):
        stays = False
    yield module, stays
    for child in module.children():
        yield from _modes(child, stays, held, norms)


def _keeps_statistics(module: nn.Module) -> bool:
    """Whether a module is a normalisation that learns by looking: BatchNorm, and whatever works like it."""
    return any(name.startswith("running_") for name, _ in module.named_buffers(recurse=False))


def _stay_still(module: nn.Module, mode: bool = True) -> nn.Module:
    """What `train` does on a still module. Below it, statistics may have been set free, so all are asked."""
    module.training = False
    for child in module.children():
        child.train(mode)
    return module
