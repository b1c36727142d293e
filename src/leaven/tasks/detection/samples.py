"""Images with objects: boxes move with the image, and a batch is a list, since images differ in size."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors

from leaven.formats.target import Target
from leaven.pictures.objects import Mark, draw_objects
from leaven.runtime.data import samples
from leaven.runtime.data.places import Place, size_of
from leaven.runtime.failures import BadSample, Failure
from leaven.tasks.detection.parts import BOX_ALONE, Part
from leaven.tasks.detection.target import Objects, box_fault

SMALLEST = 1.0  # pixels: of a box that a crop leaves less of, nothing is trained
ENLARGED = 2.5  # labels in a figure of a batch, which shows images small
FIRST = 1  # the number of the first category: 0 is the background


@dataclass(frozen=True)
class Samples(samples.Samples):
    """Samples as torchvision's detectors are trained on: `{"boxes": …, "labels": …}`, where label 0 is the background.

    Crowds are in `crowd_boxes` and `crowd_labels`, which only evaluation looks at.
    """

    is_placed: ClassVar[bool] = True
    part: ClassVar[Part] = BOX_ALONE

    def given(self, image: Any, value: Objects) -> tuple[Any, ...]:
        width, height = size_of(image)
        for marked in () if value.is_relative else value.each:  # before an image is read, its size is often not known
            if fault := box_fault(marked.box, (width, height)):
                raise BadSample("", fault, "boxes are in pixels: left, top, right, bottom")
        return image, tensors_of(value, (width, height), self.part)

    def inputs(self, images: Sequence[Any]) -> list[Tensor]:
        for image in images:
            if not isinstance(image, Tensor) or not image.is_floating_point():
                raise Failure("the transforms must end with a tensor", "let them end with `to_tensor()`", "data.train")
        return [image.as_subclass(Tensor) for image in images]

    def targets(self, moved: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> list[dict[str, Tensor]]:
        return [_sound(target, self.part) for (target,) in moved]

    def caption(self, one: Mapping[str, Tensor], target: Target) -> str:
        counts = Counter(target.names[label - FIRST] for label in one["labels"].tolist())
        return counted(counts)

    def shown(self, pixels: np.ndarray, one: Mapping[str, Tensor], target: Target) -> np.ndarray:
        labels = [label - FIRST for label in one["labels"].tolist()]
        each = zip(one["boxes"].tolist(), labels, self.part.drawn(one), strict=True)
        marks = [Mark(box, target.names[at], at, **part) for box, at, part in each]
        return np.asarray(draw_objects(Image.fromarray(pixels), marks, ENLARGED))

    def count(self, one: Mapping[str, Tensor]) -> int:
        return len(one["labels"])

    def outputs(self, model: Callable[[Any], Any], inputs: Sequence[Tensor]) -> list[dict[str, Tensor]]:
        return one_by_one(model, inputs)

    def placed(self, outputs: Sequence[Mapping[str, Tensor]], places: Sequence[Place]) -> list[dict[str, Any]]:
        """The outputs in the pixels of the images, with their width and height."""
        return [
            {**output, "boxes": place.boxes(output["boxes"]), "size": place.size, **self.part.placed(output, place)}
            for output, place in zip(outputs, places, strict=True)
        ]


def tensors_of(value: Objects, size: tuple[int, int], part: Part) -> dict[str, Any]:
    """The objects in an image of that width and height, as they are trained on and measured."""
    width, height = size
    scale = size if value.is_relative else (1, 1)
    single = [one for one in value.each if not one.is_crowd]
    target: dict[str, Any] = {}
    for prefix, each in (("", single), ("crowd_", [one for one in value.each if one.is_crowd])):
        boxes = torch.tensor([one.box for one in each], dtype=torch.float32).reshape(-1, 4)
        boxes = boxes * torch.tensor([*scale, *scale])
        target[f"{prefix}boxes"] = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))
        target[f"{prefix}labels"] = torch.tensor([one.category + FIRST for one in each], dtype=torch.int64)
    return target | part.tensors(single, size, scale)


def one_by_one(model: Callable[[Any], Any], images: Sequence[Tensor]) -> list[dict[str, Tensor]]:
    """The outputs of a detector for each image alone: a batch is padded to one size, which changes the outputs."""
    return [found for image in images for found in model([image])]


def counted(counts: Mapping[str, int]) -> str:
    """`2 car, 1 person`."""
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no object"


def _sound(target: Mapping[str, Any], part: Part) -> dict[str, Tensor]:
    """The target as plain tensors, without the objects that the transforms moved out of the image."""
    plain = {name: value.as_subclass(Tensor) for name, value in target.items()}
    for prefix, more in (("", (part.name,)), ("crowd_", ())):
        boxes = plain[f"{prefix}boxes"]
        kept = (boxes[:, 2:] - boxes[:, :2] >= SMALLEST).all(dim=1)
        for name in (f"{prefix}boxes", f"{prefix}labels", *more):
            if name in plain:
                plain[name] = plain[name][kept]
    return plain
