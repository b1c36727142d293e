"""What a sample is at one point of its way: an image of any kind in numbers and as pixels, or a text and its tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2 as T

from leaven.formats.finite_json import as_json

_SLACK = 0.05  # by which pixels may leave the range from 0 to 1, as interpolation makes them


@dataclass(frozen=True)
class Content:
    """A value in numbers. `size` is the width and height of an image; what is not an image has only its kind."""

    kind: str  # `RGB`, `float32`, or the name of a class
    shape: tuple[int, ...] = ()
    size: tuple[int, int] | None = None
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    deviation: float | None = None

    @property
    def dimensions(self) -> str:
        """`300×200, RGB` of an image, width first."""
        return self.kind if self.size is None else f"{self.size[0]}×{self.size[1]}, {self.kind}"

    @property
    def range(self) -> str:
        """`-2.1 to 2.6`."""
        return "" if self.low is None or self.high is None else f"{self.low:.4g} to {self.high:.4g}"

    @property
    def spread(self) -> str:
        """`0.45 ± 0.22`: mean and deviation."""
        return "" if self.mean is None or self.deviation is None else f"{self.mean:.3g} ± {self.deviation:.3g}"

    @property
    def is_constant(self) -> bool:
        return self.low is not None and self.low == self.high

    @as_json
    def to_json(self) -> dict[str, Any]:
        numbers = {"low": self.low, "high": self.high, "mean": self.mean, "deviation": self.deviation}
        return {"kind": self.kind, "shape": list(self.shape), "size": self.size and list(self.size), **numbers}


def content_of(value: Any) -> Content:
    """A value in numbers."""
    match value:
        case Image.Image():
            return _measured(np.asarray(value), value.mode, value.size)
        case Tensor():
            size = (int(value.shape[-1]), int(value.shape[-2])) if value.ndim >= 2 else None
            plain = value.detach().as_subclass(Tensor).cpu()
            return _measured(plain.to(_readable(plain)).numpy(), str(value.dtype).removeprefix("torch."), size)
        case np.ndarray():
            size = (int(value.shape[1]), int(value.shape[0])) if value.ndim >= 2 else None
            return _measured(value, str(value.dtype), size)
    return Content(type(value).__name__)


def _readable(tensor: Tensor) -> torch.dtype:
    """A type that NumPy has."""
    return torch.float32 if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.dtype


def _measured(numbers: np.ndarray, kind: str, size: tuple[int, int] | None) -> Content:
    if not numbers.size or numbers.dtype.kind not in "biuf":
        return Content(kind, numbers.shape, size)
    exact = numbers.astype(np.float64)
    with np.errstate(all="ignore"):  # of NaN and infinity, whose numbers are the same again
        found = map(float, (exact.min(), exact.max(), exact.mean(), exact.std()))
        return Content(kind, numbers.shape, size, *found)


# -- pixels


def pixels(stage: Any, applied: Sequence[Any]) -> np.ndarray | None:
    """The pixels of an image of any kind, from 0 to 255, with normalisation undone; None for what is not an image."""
    match stage:
        case Image.Image():
            return np.asarray(stage.convert("L" if stage.mode in ("1", "L") else "RGB"))
        case np.ndarray() if stage.ndim == 2 or (stage.ndim == 3 and stage.shape[2] in (1, 3, 4)):
            return _eight_bits(torch.from_numpy(np.atleast_3d(stage).astype(np.float64)).permute(2, 0, 1), stage.dtype)
        case Tensor() if stage.ndim in (2, 3):
            values = (stage if stage.ndim == 3 else stage[None]).as_subclass(Tensor)
            return _eight_bits(_undone(values, applied), values.dtype)
    return None


def _undone(values: Tensor, applied: Sequence[Any]) -> Tensor:
    """The values before the last normalisation that was applied to them."""
    last = next((one for one in reversed(applied) if isinstance(one, T.Normalize)), None)
    if last is None or not values.is_floating_point():
        return values.double()
    mean, std = (torch.tensor(list(each), dtype=torch.float64)[:, None, None] for each in (last.mean, last.std))
    return (values.double() * std + mean).clamp(0, 1)


def _eight_bits(values: Tensor, dtype: Any) -> np.ndarray:
    """Channels × height × width as height × width × 3, or without channels where it is grey."""
    values = values[:3] if len(values) >= 3 else values[:1]
    values = values.nan_to_num()
    low, high = float(values.min()), float(values.max())
    if str(dtype).removeprefix("torch.") in ("uint8", "bool"):
        low, high = 0.0, 1.0 if high <= 1 and "bool" in str(dtype) else 255.0
    elif low >= -_SLACK and high <= 1 + _SLACK:
        low, high = 0.0, 1.0
    scaled = ((values - low) / ((high - low) or 1.0)).clamp(0, 1) * 255
    made = scaled.round().to(torch.uint8).permute(1, 2, 0).numpy()
    return made[:, :, 0] if made.shape[2] == 1 else made
