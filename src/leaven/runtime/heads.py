"""Fitting a model's head to the classes of the data."""

from torch import nn

from leaven.runtime.failures import Failure


def fit_head(model: nn.Module, path: str, classes: int) -> None:
    """Replace the layer at a path by a new one of its kind with one output per class."""
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
        raise Failure(f"the layer {path} is a {type(old).__name__}, and only linear ones can be fitted")
    above, _, name = path.rpartition(".")
    setattr(model.get_submodule(above), name, new)


def drop_side_outputs(model: nn.Module) -> None:
    """Take off the outputs that some nets have for training only, beside their own."""
    setattr(model, "aux_logits", False)  # noqa: B010 — a plain attribute, which the types of modules do not know
    for name in ("aux1", "aux2", "AuxLogits"):
        if hasattr(model, name):
            setattr(model, name, None)
