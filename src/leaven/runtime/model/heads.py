"""A head with as many outputs as the data has classes."""

from torch import nn

from leaven.runtime.failures import Failure


def replace_head(model: nn.Module, path: str, classes: int) -> None:
    """Replace the layer at a path by a new one of the same kind with one output per class."""
    try:
        old = model.get_submodule(path)
    except AttributeError:
        raise Failure(f"the model has no layer {path}") from None
    new: nn.Module
    if isinstance(old, nn.Linear):
        new = nn.Linear(old.in_features, classes, bias=old.bias is not None)
    elif isinstance(old, nn.Conv2d):
        new = nn.Conv2d(old.in_channels, classes, old.kernel_size, bias=old.bias is not None)  # type: ignore[arg-type]
    else:
        raise Failure(f"the head {path} is a {type(old).__name__}; only linear layers and convolutions can be replaced")
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, new)


def remove_auxiliary_heads(model: nn.Module) -> None:
    """Remove the outputs that some of torchvision's models have in training, besides their own."""
    setattr(model, "aux_logits", False)  # noqa: B010 — a plain attribute, which the types of modules do not know
    for name in ("aux1", "aux2", "AuxLogits"):
        if hasattr(model, name):
            setattr(model, name, None)
