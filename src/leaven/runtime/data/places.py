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


def prepared(taken: Any, steps: Callable[..., Any] | None) -> tuple[Tensor, Place]:
    """What the transforms make of an image, and its place in it."""
    width, height = _size(taken)
    if steps is None:
        return _plain(taken), Place((width, height))
    probes = _probes(width, height)
    try:
        made, moved = steps(taken, {"boxes": probes, "labels": torch.zeros(len(probes), dtype=torch.int64)})
    except (TypeError, ValueError):  # user code that takes an image alone
        made, moved = steps(taken), {"boxes": probes[:0]}
    tensor, found = _plain(made), moved["boxes"].as_subclass(Tensor)
    if len(found) < len(probes):
        return tensor, _stretched((width, height), tensor)
    return tensor, _fitted((width, height), probes.as_subclass(Tensor), found)


def _probes(width: int, height: int) -> Any:
    from torchvision import tv_tensors

    middles = [((0.5 - _APART) * width, (0.5 - _APART) * height), ((0.5 + _APART) * width, (0.5 + _APART) * height)]
    side = 0.02 * min(width, height)
    boxes = torch.tensor([[x - side, y - side, x + side, y + side] for x, y in middles])
    return tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))


def _fitted(size: tuple[int, int], before: Tensor, after: Tensor) -> Place:
    """The place by which boxes came from `before` to `after`."""
    one, other = ((each[:, :2] + each[:, 2:]).double() / 2 for each in (before, after))
    scale = (one[1] - one[0]) / (other[1] - other[0])
    shift = one[0] - other[0] * scale
    return Place(size, (float(scale[0]), float(scale[1])), (float(shift[0]), float(shift[1])))


def _stretched(size: tuple[int, int], tensor: Tensor) -> Place:
    """The whole image, resized."""
    height, width = tensor.shape[-2:]
    return Place(size, (size[0] / width, size[1] / height))


def _plain(made: Any) -> Tensor:
    return torch.as_tensor(made).as_subclass(Tensor)


def _size(taken: Any) -> tuple[int, int]:
    if isinstance(taken, Image.Image):
        return taken.size
    height, width = taken.shape[-2:] if isinstance(taken, Tensor) else taken.shape[:2]
    return int(width), int(height)
