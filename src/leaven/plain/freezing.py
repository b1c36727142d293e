"""Which parameters are trainable, and which layers stay in evaluation mode: as much as most recipes need."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn


def freeze(model: nn.Module, *, all_but: Sequence[str] = (), only: Sequence[str] | None = None) -> None:
    """Freeze parameters; a path means whole names. Layers that are frozen as a whole stay in evaluation mode."""
    paths = all_but if only is None else only
    named = model.named_parameters(remove_duplicate=False)
    chosen = {value for name, value in named if any(fnmatchcase(f"{name}.", f"{path}.*") for path in paths)}
    for parameter in model.parameters():
        parameter.requires_grad_(parameter in chosen if only is None else parameter not in chosen)
    model.train()
    for module in model.modules():
        if {parameter.requires_grad for parameter in module.parameters()} == {False}:
            module.eval()


def unfreeze(model: nn.Module) -> None:
    """Make all parameters trainable."""
    freeze(model, only=[])


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
