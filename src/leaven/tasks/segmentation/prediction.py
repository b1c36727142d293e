"""The prediction of a segmentation model for one image: the class of each pixel, and the share of each class."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from PIL import Image
from torch import Tensor

from leaven.tasks import protocol
from leaven.tasks.reports import aligned_percent, largest_first, percent, ranked_cells, share_lines
from leaven.tasks.segmentation.masks import shares
from leaven.tasks.segmentation.overlay import overlay, unmarked, with_legend
from leaven.tasks.segmentation.target import MaskClasses

LEAST = 0.0005  # share of an image from which a class is shown
PRESENT = 0.01  # share from which it is part of the answer


class Prediction(protocol.Prediction):
    """The class of each pixel, in the size of the image.

    `prediction.mask` is an array of numbers of classes, `prediction.shares` says how much of the image each class has.
    """

    has_places: ClassVar[bool] = True

    def __init__(self, target: MaskClasses, mask: np.ndarray) -> None:
        self.target = target
        self.mask = mask

    @cached_property
    def shares(self) -> dict[str, float]:
        """The share of the image that each class has, the largest first."""
        names = self.target.names
        return dict(largest_first(names, shares(self.mask, len(names)), len(names)))

    def drawn(self, image: Image.Image) -> Image.Image:
        """The image with the classes in colours over it, and a legend."""
        pixels = np.asarray(image.convert("RGB"))
        index = {name: at for at, name in enumerate(self.target.names)}
        found = [(f"{name} {percent(share)}", index[name]) for name, share in self._largest(len(index))]
        there = [(text, at) for text, at in found if at >= unmarked(self.target)]
        return with_legend(Image.fromarray(overlay(pixels, self.mask, self.target)), there, self.target)

    def save(self, file: str) -> None:
        """Write the mask as an image whose pixels are numbers of classes."""
        Image.fromarray(self.mask.astype(np.uint8 if self.mask.max(initial=0) < 256 else np.int32)).save(file)

    def _largest(self, top: int) -> list[tuple[str, float]]:
        found = [(name, share) for name, share in self.shares.items() if share >= LEAST]
        return (found or list(self.shares.items()))[:top]

    def describe(self, top: int) -> str:
        return "\n".join(share_lines(self._largest(top)))

    def cells(self, top: int, *, on_screen: bool = False) -> dict[str, str]:
        if on_screen:
            return ranked_cells(self._largest(max(top, 3)), "class", "share", aligned_percent)
        return {name: f"{self.shares[name]:.6f}" for name in self.target.names}

    def to_json(self, top: int) -> dict[str, Any]:
        return {"size": list(self.mask.shape[::-1]), "shares": dict(self.shares)}

    # -- compared with another

    @property
    def answer(self) -> str:
        """The classes with at least a hundredth of the pixels, by name."""
        return ", ".join(sorted(name for name, share in self.shares.items() if share >= PRESENT))

    def numbers(self) -> dict[str, float]:
        return dict(self.shares)

    def agreement(self, other: Any) -> str:
        if self.mask.shape != other.mask.shape or self.target.names != other.target.names:
            return ""
        return f"{percent(float((self.mask == other.mask).mean()))} of the pixels have the same class"

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {percent(share)}" for name, share in self._largest(3))
        return f"<Prediction: {shown}>"


def predictions(outputs: Sequence[Tensor], target: MaskClasses) -> list[Prediction]:
    """The predictions from a batch of outputs: the classes of each image, in its own size."""
    return [Prediction(target, one.cpu().numpy()) for one in outputs]
