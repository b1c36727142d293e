"""Which parameters are trainable, and which layers stay in evaluation mode."""

from collections.abc import Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any

from torch import nn


def freeze(
    model: nn.Module,
    *,
    all_but: Sequence[str] = (),
    only: Sequence[str] | None = None,  #: if freeze_only
) -> None:
    """Freeze parameters. Layers that are frozen as a whole stay in evaluation mode."""  #: if freeze_only
    """Freeze all parameters but those in some layers. Layers that are frozen as a whole stay in evaluation mode."""  #: if not freeze_only
    unfreeze(model)  #: if unfreezes
    for parameter in model.__dict__.pop("frozen", ()):  #: if not unfreezes
        parameter.requires_grad_(True)
    model.train()  #: if not unfreezes
    frozen = {*model.parameters()} - parameters_under(model, all_but) if only is None else parameters_under(model, only)  #: if globs and freeze_only
    frozen = set(model.parameters()) - parameters_under(model, all_but)  #: if globs and not freeze_only
    prefixes = tuple(f"{path}." for path in all_but)  #: if not globs
    named = model.named_parameters(remove_duplicate=False)  #: if not globs
    frozen = set(model.parameters()) - {each for name, each in named if f"{name}.".startswith(prefixes)}  #: if not globs
    frozen = frozen if only is None else parameters_under(model, only)  #: if freeze_only and not globs
    model.__dict__["frozen"] = [parameter for parameter in frozen if parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    for module in model.modules():
        if (parameters := set(module.parameters())) and parameters <= frozen:
            module.eval()


def unfreeze(model: nn.Module) -> None:
    """End a freeze."""
    for parameter in model.__dict__.pop("frozen", ()):
        parameter.requires_grad_(True)
    model.train()


def frozen_copy(model: nn.Module) -> nn.Module:
    """A copy of a model that never changes."""
    copied = deepcopy(model)
    freeze(copied)
    return copied


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def parameter_groups(model: nn.Module, *chosen: tuple[Sequence[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The trainable parameters as optimizer groups: first all that are in no group, then each group."""
    named = [(parameters_under(model, paths), settings) for paths, settings in chosen]
    rest = [each for each in trainable(model) if not any(each in parameters for parameters, _ in named)]
    groups = [{"params": [each for each in trainable(model) if each in these], **own} for these, own in named]
    return [{"params": rest}, *groups]


def parameters_under(model: nn.Module, paths: Sequence[str]) -> set[nn.Parameter]:
    """The parameters in some layers; a star in a path matches anything."""
    named = model.named_parameters(remove_duplicate=False)
    return {value for name, value in named if any(fnmatchcase(f"{name}.", f"{path}.*") for path in paths)}
