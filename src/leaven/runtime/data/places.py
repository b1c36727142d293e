"""Where the image that a model was given lies in the one that it was made from.

Transforms may resize and crop. Two small boxes near the middle are moved along with the image; where they end up tells
how to get from the model's coordinates back to those of the image.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

_APART = 0.125  # of an edge, from the middle: inside of what crops usually leave


@dataclass(frozen=True)
class Place:
    """`x * scale + shift` of the model's coordinates are those of the image, whose width and height are its `size`."""

    size: tuple[int, int]
    scale: tuple[float, float] = (1.0, 1.0)
    shift: tuple[float, float] = (0.0, 0.0)

    def boxes(self, given: Tensor) -> Tensor:
        """Boxes (left, top, right, bottom) in the coordinates of the image, cut off at its edges."""
        scale, shift = (given.new_tensor([*each, *each]) for each in (self.scale, self.shift))
        width, height = self.size
        return (given * scale + shift).clamp(min=0).minimum(given.new_tensor([width, height, width, height]))


def size_of(image: Any) -> tuple[int, int]:
    """The width and height of an image: of Pillow, a tensor (channels first) or an array (channels last)."""
    if isinstance(image, Image.Image):
        return image.size
    height, width = image.shape[-2:] if isinstance(image, Tensor) else image.shape[:2]
    return int(width), int(height)


def prepared(image: Any, steps: Callable[..., Any] | None) -> tuple[Tensor, Place]:
    """An image after the transforms, and where the result lies in it."""
    width, height = size_of(image)
    if steps is None:
        return torch.as_tensor(image).as_subclass(Tensor), Place((width, height))
    probes = _probes(width, height)
    try:
        made, moved = steps(image, {"boxes": probes, "labels": torch.zeros(len(probes), dtype=torch.int64)})
    except (TypeError, ValueError):  # user code that takes an image alone
        made, moved = steps(image), {"boxes": probes[:0]}
    tensor, boxes = torch.as_tensor(made).as_subclass(Tensor), moved["boxes"].as_subclass(Tensor)
    if len(boxes) < len(probes):  # the whole image, resized
        return tensor, Place((width, height), (width / tensor.shape[-1], height / tensor.shape[-2]))
    before, after = ((each[:, :2] + each[:, 2:]).double() / 2 for each in (probes.as_subclass(Tensor), boxes))
    scale = (before[1] - before[0]) / (after[1] - after[0])
    shift = before[0] - after[0] * scale
    place = Place((width, height), (float(scale[0]), float(scale[1])), (float(shift[0]), float(shift[1])))
    return tensor, place


def _probes(width: int, height: int) -> Any:
    from torchvision import tv_tensors

    middles = [((0.5 - _APART) * width, (0.5 - _APART) * height), ((0.5 + _APART) * width, (0.5 + _APART) * height)]
    side = 0.02 * min(width, height)
    boxes = torch.tensor([[x - side, y - side, x + side, y + side] for x, y in middles])
    return tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))
