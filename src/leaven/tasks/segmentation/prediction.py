"""The prediction of a segmentation model for one image: the class of each pixel, and the share of each class."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from leaven.tasks import protocol
from leaven.tasks.segmentation.masks import shares
from leaven.tasks.segmentation.overlay import overlay, unmarked, with_legend
from leaven.tasks.segmentation.target import MaskClasses
from leaven.terminal.visible import visible

LEAST = 0.0005  # share of an image from which a class is shown


class Prediction(protocol.Prediction):
    """The class of each pixel, in the size of the image.

    `prediction.mask` is an array of numbers of classes, `prediction.shares` says how much of the image each class has.
    """

    def __init__(self, target: MaskClasses, mask: np.ndarray) -> None:
        self.target = target
        self.mask = mask

    @cached_property
    def shares(self) -> dict[str, float]:
        """The share of the image that each class has, the largest first."""
        by_class = shares(self.mask, len(self.target.names))
        return {self.target.names[at]: float(by_class[at]) for at in np.argsort(-by_class, kind="stable")}

    def drawn(self, image: Image.Image) -> Image.Image:
        """The image with the classes in colours over it, and a legend."""
        pixels = np.asarray(image.convert("RGB"))
        index = {name: at for at, name in enumerate(self.target.names)}
        shown = {
            name: share for name, share in self._largest(len(index)).items() if index[name] >= unmarked(self.target)
        }
        there = [(f"{name} {100 * share:.1f} %", index[name]) for name, share in shown.items()]
        return with_legend(Image.fromarray(overlay(pixels, self.mask, self.target)), there, self.target)

    def save(self, file: str) -> None:
        """Write the mask as an image whose pixels are numbers of classes."""
        Image.fromarray(self.mask.astype(np.uint8 if self.mask.max(initial=0) < 256 else np.int32)).save(file)

    def _largest(self, top: int) -> dict[str, float]:
        found = {name: share for name, share in self.shares.items() if share >= LEAST}
        return dict(list((found or self.shares).items())[:top])

    def describe(self, top: int) -> str:
        shown = {visible(name): share for name, share in self._largest(top).items()}
        width = max(map(len, shown))
        return "\n".join(f"{name:<{width}}  {100 * share:5.1f} %" for name, share in shown.items())

    def cells(self, top: int) -> dict[str, str]:
        return {name: f"{self.shares[name]:.6f}" for name in self.target.names}

    def shown_cells(self, top: int) -> dict[str, str]:
        cells: dict[str, str] = {}
        for rank, (name, share) in enumerate(self._largest(max(top, 3)).items(), 1):
            end = f"_{rank}" if rank > 1 else ""
            cells |= {f"class{end}": name, f"share{end}": f"{100 * share:5.1f} %"}
        return cells

    def to_json(self, top: int) -> dict[str, Any]:
        return {"size": list(self.mask.shape[::-1]), "shares": dict(self.shares)}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {100 * share:.1f} %" for name, share in self._largest(3).items())
        return f"<Prediction: {shown}>"


def predictions(outputs: Sequence[Tensor], target: MaskClasses) -> list[Prediction]:
    """The predictions from a batch of outputs: the classes of each image, in its own size."""
    return [Prediction(target, one.cpu().numpy()) for one in outputs]
