"""How a model was used to be shown its pictures, and how others are shown to it in the same way.

A model that teaches may have been trained at another size and with another normalisation than the one that learns.
What is known of it is noted in the model itself; who shows it pictures of another model's data translates them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.formats.run_folder import BUNDLE, newest
from leaven.formats.trained import bundle_tells, normalisation
from leaven.runtime.failures import Failure

_NOTE = "_leaven_sight"  # the attribute in which a model keeps how it sees


@dataclass(frozen=True)
class Sight:
    """The height and width of a model's pictures, by what they are normalised, and which classes it tells apart; None
    where that is not known."""

    size: tuple[int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    classes: tuple[str, ...] | None = None


def sees(model: nn.Module, size: Sequence[int], mean: Sequence[float], std: Sequence[float]) -> None:
    """Note how a model's pictures were prepared when it was trained."""
    model.__dict__[_NOTE] = Sight((size[0], size[1]), tuple(mean), tuple(std))


def sees_as_in(model: nn.Module, file: str | Path) -> None:
    """Note it as the bundle tells from which the model comes; any other file of weights tells nothing."""
    told = bundle_tells(newest(Path(file), BUNDLE) or Path(file))
    if told is None:
        return
    mean, std = normalisation(told.preprocess) or (None, None)
    channels = told.shape[0] if len(told.shape) == 3 else 0
    if mean == ():
        mean, std = (0.0,) * channels, (1.0,) * channels
    size = (told.shape[-2], told.shape[-1]) if channels else None
    model.__dict__[_NOTE] = Sight(size, mean or None, std or None, told.classes)


def sight_of(model: nn.Module) -> Sight:
    """What was noted of a model."""
    noted = model.__dict__.get(_NOTE)
    return noted if isinstance(noted, Sight) else Sight()


def sight_through(steps: Any) -> Sight:
    """The normalisation at the end of torchvision's transforms; unknown where code of another kind is among them."""
    from torchvision.transforms import v2

    inner = steps.transforms if isinstance(steps, v2.Compose) else [steps]
    if any(isinstance(step, v2.Compose) or not isinstance(step, v2.Transform) for step in inner):
        return Sight()
    last = next((step for step in reversed(inner) if isinstance(step, v2.Normalize)), None)
    return Sight(None, (0.0,), (1.0,)) if last is None else Sight(None, tuple(last.mean), tuple(last.std))


class Glasses:
    """Pictures that were prepared for one model, as another is used to see them."""

    def __init__(self, worn_by: Sight, given: Sight, device: torch.device) -> None:
        self.size = worn_by.size
        self.channels = len(worn_by.mean or ())
        self.scale: Tensor | None = None
        if worn_by.mean is None or worn_by.std is None or given.mean is None or given.std is None:
            return
        mean, std = _per_channel(worn_by.mean, device), _per_channel(worn_by.std, device)
        self.scale = _per_channel(given.std, device) / std
        self.shift = (_per_channel(given.mean, device) - mean) / std
        if torch.equal(self.scale, torch.ones_like(self.scale)) and not self.shift.any():
            self.scale = None

    def __call__(self, images: Tensor) -> Tensor:
        if images.ndim != 4:
            return images
        if self.channels and images.shape[1] != self.channels:
            if images.shape[1] != 1:
                raise Failure(f"the pictures have {images.shape[1]} channels, and the teacher takes {self.channels}")
            images = images.expand(-1, self.channels, -1, -1)
        if self.scale is not None:
            images = images * self.scale + self.shift
        if self.size is not None and images.shape[-2:] != self.size:
            images = F.interpolate(images, self.size, mode="bilinear", antialias=True)
        return images


def _per_channel(numbers: Sequence[float], device: torch.device) -> Tensor:
    return torch.tensor(numbers, device=device).view(1, -1, 1, 1)
