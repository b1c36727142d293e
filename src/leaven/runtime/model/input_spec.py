"""Which inputs a model was trained on, and how to convert the inputs of another model to them.

A teacher may have been trained at another image size and with another normalisation than the student. What is known
of its inputs is stored on the teacher itself; batches prepared for the student are converted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.formats.trained import bundle_facts, normalisation
from leaven.runtime.failures import Failure

_SPEC = "_leaven_input_spec"  # the attribute in which a model keeps its input spec


@dataclass(frozen=True)
class InputSpec:
    """Image size (height, width), normalisation, and the classes of a model; None where that is not known."""

    size: tuple[int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    classes: tuple[str, ...] | None = None


def set_input_spec(model: nn.Module, size: Sequence[int], mean: Sequence[float], std: Sequence[float]) -> None:
    """Store on a model which inputs it was trained on."""
    model.__dict__[_SPEC] = InputSpec((size[0], size[1]), tuple(mean), tuple(std))


def read_input_spec(model: nn.Module, file: str | Path) -> None:
    """Store on a model the input spec of the bundle that it comes from; other weight files have none."""
    bundle = bundle_facts(Path(file))
    if bundle is None:
        return
    mean, std = normalisation(bundle.preprocess) or (None, None)
    channels = bundle.shape[0] if len(bundle.shape) == 3 else 0
    if mean == ():
        mean, std = (0.0,) * channels, (1.0,) * channels
    size = (bundle.shape[-2], bundle.shape[-1]) if channels else None
    model.__dict__[_SPEC] = InputSpec(size, mean or None, std or None, bundle.classes)


def input_spec_of(model: nn.Module) -> InputSpec:
    """The input spec that was stored on a model."""
    stored = model.__dict__.get(_SPEC)
    return stored if isinstance(stored, InputSpec) else InputSpec()


def input_spec_after(transform: Any) -> InputSpec:
    """The normalisation at the end of torchvision's transforms; not known where other code is among them."""
    from torchvision.transforms import v2

    inner = transform.transforms if isinstance(transform, v2.Compose) else [transform]
    if any(isinstance(one, v2.Compose) or not isinstance(one, v2.Transform) for one in inner):
        return InputSpec()
    last = next((one for one in reversed(inner) if isinstance(one, v2.Normalize)), None)
    return InputSpec(None, (0.0,), (1.0,)) if last is None else InputSpec(None, tuple(last.mean), tuple(last.std))


class InputConverter:
    """Converts batches from the input spec of one model to that of another."""

    def __init__(self, wanted: InputSpec, given: InputSpec, device: torch.device) -> None:
        self.size = wanted.size
        self.channels = len(wanted.mean or ())
        self.scale: Tensor | None = None
        if wanted.mean is None or wanted.std is None or given.mean is None or given.std is None:
            return
        mean, std = _per_channel(wanted.mean, device), _per_channel(wanted.std, device)
        self.scale = _per_channel(given.std, device) / std
        self.shift = (_per_channel(given.mean, device) - mean) / std
        if torch.equal(self.scale, torch.ones_like(self.scale)) and not self.shift.any():
            self.scale = None

    def __call__(self, images: Any) -> Any:
        if not isinstance(images, Tensor) or images.ndim != 4:  # texts, or features
            return images
        if self.channels and images.shape[1] != self.channels:
            if images.shape[1] != 1:
                raise Failure(f"the images have {images.shape[1]} channels, but the teacher takes {self.channels}")
            images = images.expand(-1, self.channels, -1, -1)
        if self.scale is not None:
            images = images * self.scale + self.shift
        if self.size is not None and images.shape[-2:] != self.size:
            images = F.interpolate(images, self.size, mode="bilinear", antialias=True)
        return images


def _per_channel(values: Sequence[float], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).view(1, -1, 1, 1)
