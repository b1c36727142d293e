"""Which part of the original image is left after a transform: found by moving a map of its places along.

Every pixel of the map has the number of its place in the original. Transforms of torchvision move it as they move the
mask of a segmentation, whatever they do: crop, flip, rotate, distort.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

from leaven.formats.finite_json import as_json

_MOST = 160  # places on each side
_PIXELS = 2  # of the result on each side, that a cell should have to be seen in it
_ENOUGH = 5000  # pixels, to find how a transform moves them
_STRAIGHT = 0.02  # how much of an edge a crop may be tilted to have a box of its own


@dataclass(frozen=True, eq=False)
class Area:
    """The part of an image that is left. `seen` says of each cell of a grid over it whether anything is."""

    share: float  # of the original image
    box: tuple[float, float, float, float]  # around it: left, top, right, bottom, in pixels of the original
    enlarged: float  # how many times longer the side of a pixel of the original is now
    seen: np.ndarray

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {"share": self.share, "box": list(self.box), "enlarged": self.enlarged}


class PlaceMap:
    """The places of an image of this width and height; what transforms make of it is given back to `area`."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.columns, self.rows = (max(1, min(_MOST, side)) for side in size)
        down, across = (
            torch.arange(side) * count // side for side, count in ((size[1], self.rows), (size[0], self.columns))
        )
        numbers = 1 + down[:, None] * self.columns + across[None, :]
        self.start: Any = tv_tensors.Mask(numbers.to(torch.int16)[None])

    def area(self, moved: Any) -> Area | None:
        """The part that a moved map shows; None where it shows nothing."""
        numbers = np.asarray(moved.as_subclass(Tensor)).reshape(moved.shape[-2:]).astype(np.int64)
        is_shown = (numbers > 0) & (numbers <= self.rows * self.columns)
        if not is_shown.any():
            return None
        places = np.argwhere(is_shown)[:, ::-1].astype(np.float64) + 0.5  # in the result: x, y
        down, across = np.divmod(numbers[is_shown] - 1, self.columns)
        size = np.array(self.size, dtype=np.float64)
        originals = (np.stack([across, down], axis=1) + 0.5) * size / (self.columns, self.rows)
        slope, shift = _fitted(places, originals)
        scale = abs(float(np.linalg.det(slope))) or 1.0  # pixels of the original in one of the result
        share = min(1.0, scale * len(places) / float(size.prod()))
        enlarged = scale**-0.5
        across_cells, down_cells = (
            max(1, min(count, int(side * enlarged / _PIXELS)))
            for side, count in zip(self.size, (self.columns, self.rows), strict=True)
        )
        seen = np.zeros((down_cells, across_cells), dtype=bool)
        seen[down * down_cells // self.rows, across * across_cells // self.columns] = True
        is_straight = abs(slope[0, 1]) + abs(slope[1, 0]) <= _STRAIGHT * (abs(slope[0, 0]) + abs(slope[1, 1]))
        edges = np.stack([places.min(axis=0) - 0.5, places.max(axis=0) + 0.5])
        corners = edges @ slope.T + shift if is_straight else originals
        low, high = (np.clip(each, 0, size) for each in (corners.min(axis=0), corners.max(axis=0)))
        return Area(share, (float(low[0]), float(low[1]), float(high[0]), float(high[1])), enlarged, seen)


def _fitted(places: np.ndarray, originals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The affine map from the result to the original: exact for crops, flips and rotations."""
    known = np.concatenate([places, np.ones((len(places), 1))], axis=1)
    if len(places) > _ENOUGH:
        chosen = np.linspace(0, len(places) - 1, _ENOUGH).astype(int)
        known, originals = known[chosen], originals[chosen]
    found = np.linalg.lstsq(known, originals, rcond=None)[0]
    return found[:2].T, found[2]


def moved_by(transform: Any, given: tuple[Any, ...], places: Any) -> Any:
    """The map of places after a transform that gets it beside its other arguments; None where it can't be moved.

    The generators must be as they were when the transform was applied.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is passed through is said of every kind of mark
        try:
            *_, moved = transform(*given, places)
        except Exception:  # operations that take an image alone, or whose code expects other arguments
            return None
    return moved if isinstance(moved, tv_tensors.Mask) else None
