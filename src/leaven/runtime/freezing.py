"""Which parameters move and which modules keep still.

A selection is a set of parameters; a module's path means everything below it. A module is still when it has parameters
below it and all of them are frozen: then it is in evaluation mode whatever `.train()` is called, so that its dropout
is off and its statistics stay as they are. A module without parameters follows its parent.

Stillness is an attribute `train` on each still module itself, in place of its class's method. Hooks would run with
every forward pass and break compiled graphs; another class would change what a module is and how it is saved. Whoever
wraps the model (Fabric, DDP, torch.compile) passes `.train()` down to its children and so comes to this attribute,
as does whoever calls it on a single layer. It is no part of the state dict, and copies and pickles of a module bring
their own.

What is chosen are the model's own parameters, by the names that they have in the model as it was built. An adapter
that was put around a layer changes the path to its weights (`fc.base_layer.weight`), and so does a mask
(`fc.parametrizations.weight.original`), but not what they are called here. The weights that an adapter brings belong
to the layer, move with its optimizer group, and are never frozen. Layers that are frozen because of an adapter alone
can be named in `dropout`: their statistics stay as they are, and their dropout goes on.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import distributed, nn

from leaven.formats.layer_names import is_under
from leaven.runtime.failures import Failure
from leaven.runtime.masks import Mask, plain_name

Norms = Literal["frozen", "train"]
Dropout = Literal["off", "on"] | Sequence[str]
_NOTE = "_leaven_frozen"  # the attribute in which a module keeps what was frozen in it


@dataclass(frozen=True)
class _Frozen:
    """What a freeze did: the parameters that it holds, and those of them that moved before."""

    held: frozenset[str]
    moved_before: frozenset[str]
    norms: Norms
    dropout: Dropout


class _Named(NamedTuple):
    """A parameter under its name in the model as it was built, and whether it is the model's own."""

    name: str
    parameter: nn.Parameter
    is_own: bool


def freeze(
    module: nn.Module,
    *,
    all_but: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    norms: Norms = "frozen",
    dropout: Dropout = "off",
) -> None:
    """Keep parameters still, all of them unless told otherwise, by their names or by the paths of modules.

    What an earlier freeze held is let go first. With `norms="train"`, the statistics of frozen layers go on moving;
    with `dropout="on"`, so does the dropout in them, or in those below the paths that it names.
    """
    if all_but is not None and only is not None:
        raise ValueError("say either what to freeze or what not to")
    lift(module)
    if only is not None:
        _hold(module, below(module, only), norms, dropout)
    else:
        _hold(module, below(module, [""]) - below(module, all_but or ()), norms, dropout)


def unfreeze(module: nn.Module, paths: Sequence[str]) -> None:
    """Let parameters move again, and wake the modules that are no longer all frozen."""
    chosen = below(module, paths)
    before = module.__dict__.get(_NOTE, _Frozen(frozenset(), frozenset(), "frozen", "off"))
    lift(module)
    for parameter in chosen:
        parameter.requires_grad_(True)
    _hold(module, below(module, sorted(before.held)) - chosen, before.norms, before.dropout)


def wake(module: nn.Module, epoch: int, *later: tuple[int, Sequence[str]], norms: Norms = "frozen") -> None:
    """Keep still what joins after this epoch, besides what was frozen for good, and let all else of it move.

    What joins is given with the number of epochs that come before; what is named twice joins at the first.
    """
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        # those who share gradients agree beforehand for which weights there are any
        raise Failure("on several devices, no layers can join in the middle of a phase", "write two phases instead")
    before = module.__dict__.get(_NOTE, _Frozen(frozenset(), frozenset(), norms, "off"))
    due = below(module, [path for at, paths in later if at <= epoch for path in paths])
    waiting = below(module, [path for at, paths in later if at > epoch for path in paths])
    lift(module)
    for parameter in due:
        parameter.requires_grad_(True)
    _hold(module, (below(module, sorted(before.held)) | waiting) - due, before.norms, before.dropout)


def lift(module: nn.Module) -> None:
    """End a freeze: what it held moves again, unless it stood still before."""
    for inner in list(module.modules()):
        if is_still(inner):
            del inner.__dict__["train"]
        before = inner.__dict__.pop(_NOTE, None)
        if isinstance(before, _Frozen):
            for name, parameter, is_own in _named(inner):
                if is_own and name in before.moved_before:
                    parameter.requires_grad_(True)
    module.train(module.training)


def still_copy(module: nn.Module) -> nn.Module:
    """A copy of a model that never changes."""
    copied = deepcopy(module)
    freeze(copied)
    return copied


def trainable(module: nn.Module, paths: Sequence[str] | None = None, but: Sequence[str] = ()) -> list[nn.Parameter]:
    """The parameters that move, those below `paths` only if given, and not those below `but`."""
    chosen = below(module, [""] if paths is None else paths, with_adapters=True) - below(
        module, but, with_adapters=True
    )
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


def below(module: nn.Module, paths: Sequence[str], *, with_adapters: bool = False) -> set[nn.Parameter]:
    """The parameters that are named, or lie below a module that is; the empty path is the model itself.

    A path may be a glob, in which a star stands for anything: `blocks.*.bn1`. The weights that adapters brought are
    among them only `with_adapters`.
    """
    named = list(_named(module))
    chosen: set[nn.Parameter] = set()
    for path in paths:
        found = [one for one in named if not path or is_under(one.name, [path])]
        if not any(one.is_own for one in found):
            raise Failure(f"the model has no parameters called {path}, nor any in a layer of that name")
        chosen |= {one.parameter for one in found if one.is_own or with_adapters}
    return chosen


def has_adapter(module: nn.Module) -> bool:
    """Whether a module is an adapter around a layer, as PEFT makes them."""
    return bool(getattr(type(module), "adapter_layer_names", ())) and "base_layer" in module._modules


def _named(module: nn.Module, prefix: str = "", is_own: bool = True) -> Iterator[_Named]:
    """Every parameter; one that is used in two places under both names."""
    is_masked = any(isinstance(part, Mask) for part in module.children())
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield _Named(plain_name(prefix + name) if is_masked else prefix + name, parameter, is_own)
    for name, child in module._modules.items():
        if child is None:
            continue
        if has_adapter(module):
            is_layer = name == "base_layer"
            yield from _named(child, prefix if is_layer else f"{prefix}{name}.", is_own and is_layer)
        else:
            yield from _named(child, f"{prefix}{name}.", is_own)


def _hold(module: nn.Module, held: set[nn.Parameter], norms: Norms, dropout: Dropout) -> None:
    named = [one for one in _named(module) if one.parameter in held]
    moved_before = frozenset(one.name for one in named if one.parameter.requires_grad)
    for parameter in held:
        parameter.requires_grad_(False)
        parameter.grad = None  # else a gradient's norm would still count the last phase's
    module.__dict__[_NOTE] = _Frozen(frozenset(one.name for one in named), moved_before, norms, dropout)
    lively = set() if dropout == "off" else held if dropout == "on" else below(module, dropout)
    own = {one.parameter for one in _named(module) if one.is_own}
    modes = list(_Modes(own, held, lively, norms).of(module, is_held=False, is_still=False))
    # a module that is used in two places keeps still only if both do
    awake = {inner for inner, stays in modes if not stays}
    for inner, _ in modes:
        if inner not in awake:
            inner.__dict__["train"] = partial(_stay_still, inner)
    module.train(module.training)


@dataclass(frozen=True)
class _Modes:
    """Which modules keep still, by the model's own parameters, those that are held, and those whose dropout goes on."""

    own: set[nn.Parameter]
    held: set[nn.Parameter]
    lively: set[nn.Parameter]
    norms: Norms

    def of(self, module: nn.Module, *, is_held: bool, is_still: bool) -> Iterator[tuple[nn.Module, bool]]:
        """Every module at and below one, with whether it is to keep still; what has no parameters does as its parent
        does."""
        if parameters := self.own.intersection(module.parameters()):
            is_held = parameters <= self.held
            is_still = is_held and not parameters & self.lively
        stays = is_still
        if _keeps_statistics(module):
            stays = is_held and self.norms == "frozen"
        if has_adapter(module):
            yield module, False  # an adapter is trained, and its own dropout with it
            yield from self.of(module.get_submodule("base_layer"), is_held=is_held, is_still=is_still)
            return
        yield module, stays
        for child in module.children():
            yield from self.of(child, is_held=is_held, is_still=is_still)


def _keeps_statistics(module: nn.Module) -> bool:
    """Whether a module is a normalisation that learns by looking: BatchNorm, and whatever works like it."""
    return any(name.startswith("running_") for name, _ in module.named_buffers(recurse=False))


def _stay_still(module: nn.Module, mode: bool = True) -> nn.Module:
    """What `train` does on a still module. Below it, statistics may have been set free, so all are asked."""
    module.training = False
    for child in module.children():
        child.train(mode)
    return module
