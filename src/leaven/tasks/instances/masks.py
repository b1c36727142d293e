"""Masks of objects: from polygons and run lengths to pixels, and from the model's pixels to those of the image."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torchvision import tv_tensors

from leaven.runtime.data.places import Place
from leaven.runtime.failures import BadSample
from leaven.tasks.detection import parts
from leaven.tasks.detection.metrics import MeanAP
from leaven.tasks.detection.parts import Size
from leaven.tasks.detection.target import Object

CERTAIN = 0.5  # the probability from which a pixel belongs to an object


class MaskAP(MeanAP):
    """Mean average precision of masks: `mask_map`, `mask_map_50`."""

    prefix = "mask_"

    def __init__(self, **options: Any) -> None:
        super().__init__(iou_type="segm", **options)


class Masks(parts.Part):
    """The pixels of objects: objects × height × width; in outputs, probabilities (objects × 1 × height × width)."""

    name: ClassVar[str] = "masks"
    metrics: ClassVar[tuple[type[MeanAP], ...]] = (MaskAP,)

    def tensors(self, objects: Sequence[Object], size: Size, scale: Size) -> dict[str, Tensor]:
        masks = np.stack([_pixels(one, size, scale) for one in objects]) if objects else np.zeros((0, *size[::-1]))
        return {self.name: tv_tensors.Mask(torch.from_numpy(masks.astype(np.uint8, copy=False)))}

    def placed(self, output: Mapping[str, Tensor], place: Place) -> dict[str, Tensor]:
        return {self.name: pasted(output[self.name], place)}

    def measured(self, tensors: Mapping[str, Tensor], crowds: int = 0) -> dict[str, Tensor]:
        masks = tensors[self.name]
        masks = masks[:, 0] >= CERTAIN if masks.is_floating_point() else masks.bool()
        return {self.name: torch.cat([masks, masks.new_zeros((crowds, *masks.shape[1:]))])}

    def drawn(self, tensors: Mapping[str, Tensor]) -> Sequence[Mapping[str, Any]]:
        return [{"mask": mask} for mask in tensors[self.name].cpu().numpy()]


def _pixels(one: Object, size: Size, scale: Size) -> np.ndarray:
    """The pixels of an object."""
    if one.part is None:
        raise BadSample("", "has an object without a mask", "give a mask for each box")
    try:
        pixels = bitmap(one.part, *size, scale)
    except (TypeError, ValueError) as problem:
        raise BadSample("", f"has a mask that can't be read: {problem}") from None
    if pixels.shape != size[::-1]:
        own, wanted = ("×".join(map(str, each)) for each in (pixels.shape[::-1], size))
        raise BadSample("", f"has a mask of {own} pixels, but its image is {wanted}")
    return pixels


def bitmap(mask: Any, width: int, height: int, scale: Sequence[float] = (1, 1)) -> np.ndarray:
    """A mask as height × width zeros and ones: of polygons, of COCO's run-length encoding, or of pixels."""
    match mask:
        case (int(rows), int(columns), tuple() | str() as counts):
            return _from_runs(rows, columns, counts)
        case tuple():
            return _from_polygons(mask, width, height, scale)
    return np.asarray(mask, dtype=np.uint8)


def _from_runs(height: int, width: int, counts: Any) -> np.ndarray:
    from pycocotools import mask as coco  # type: ignore[import-untyped, unused-ignore]

    size = [height, width]
    if isinstance(counts, str):
        runs: Any = {"size": size, "counts": counts.encode()}
    elif sum(counts) != height * width:
        raise ValueError(f"its run lengths add up to {sum(counts)}, but it has {height * width} pixels")
    else:
        runs = coco.frPyObjects({"size": size, "counts": list(counts)}, height, width)
    return np.asarray(coco.decode(runs), dtype=np.uint8)


def _from_polygons(polygons: Sequence[Sequence[float]], width: int, height: int, scale: Sequence[float]) -> np.ndarray:
    drawn = Image.new("L", (width, height))
    pen = ImageDraw.Draw(drawn)
    for polygon in polygons:
        corners = [(x * scale[0], y * scale[1]) for x, y in zip(polygon[::2], polygon[1::2], strict=True)]
        pen.polygon(corners, fill=1, outline=1)
    return np.asarray(drawn, dtype=np.uint8)


def pasted(masks: Tensor, place: Place) -> Tensor:
    """Probabilities (objects × 1 × height × width) as masks (objects × height × width) of the image at a place."""
    width, height = place.size
    rows, columns = masks.shape[-2:]
    tall, wide = round(rows * place.scale[1]), round(columns * place.scale[0])
    left, top = round(place.shift[0]), round(place.shift[1])
    made = torch.zeros((len(masks), height, width), dtype=torch.bool, device=masks.device)
    if not len(masks) or tall < 1 or wide < 1:
        return made
    if (tall, wide) != (rows, columns):
        masks = nn.functional.interpolate(masks.float(), size=(tall, wide), mode="bilinear", align_corners=False)
    sharp = masks[:, 0] >= CERTAIN
    x, y = max(0, left), max(0, top)
    part = sharp[:, y - top : height - top, x - left : width - left]
    made[:, y : y + part.shape[1], x : x + part.shape[2]] = part
    return made
