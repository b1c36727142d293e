"""The prediction of a detector for one image: the objects that it finds, the most certain first."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from leaven.pictures.objects import Mark, draw_objects
from leaven.tasks import protocol
from leaven.tasks.detection.parts import Part, part_of
from leaven.tasks.detection.samples import FIRST, counted
from leaven.tasks.detection.target import Box, Categories
from leaven.tasks.reports import percent, share_lines

THRESHOLD = 0.5  # confidence from which objects are reported
OVERLAP = 0.5  # intersection over union from which boxes are those of one object
_EDGES = ("left", "top", "right", "bottom")


@dataclass(frozen=True, eq=False)
class Detection:
    """An object: its category, how certain it is, its box in pixels (left, top, right, bottom), and its mask."""

    label: str
    score: float
    box: Box
    category: int
    mask: np.ndarray | None = None  # height × width, true where the object is

    def to_json(self) -> dict[str, Any]:
        area = {} if self.mask is None else {"area": int(self.mask.sum())}
        return {"label": self.label, "score": self.score, "box": [round(edge, 2) for edge in self.box], **area}

    def __repr__(self) -> str:
        return f"<{self.label} {percent(self.score)} at {_edges(self.box)}>"


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(protocol.Prediction):
    """The objects in an image: `for found in prediction: found.label, found.box`.

    `every` has all detections of the model, `above` those with enough confidence; by default, 0.5.
    """

    every: tuple[Detection, ...]
    size: tuple[int, int]
    threshold: float = THRESHOLD
    most: ClassVar[int] = 100
    columns: ClassVar[tuple[str, ...]] = ("label", "score", *_EDGES)
    has_places: ClassVar[bool] = True

    def above(self, threshold: float | None = None) -> list[Detection]:
        least = self.threshold if threshold is None else threshold
        return [one for one in self.every if one.score >= least]

    def above_threshold(self, threshold: float) -> "Prediction":
        return replace(self, threshold=threshold)

    def __iter__(self) -> Iterator[Detection]:
        return iter(self.above())

    def __len__(self) -> int:
        return len(self.above())

    def __getitem__(self, at: int) -> Detection:
        return self.above()[at]

    @property
    def counts(self) -> dict[str, int]:
        """How many objects of each category there are."""
        return dict(Counter(one.label for one in self))

    def drawn(self, image: Image.Image, threshold: float | None = None) -> Image.Image:
        """A copy of the image with the objects, the most certain on top."""
        return draw_objects(image, [mark(one) for one in reversed(self.above(threshold))])

    def describe(self, top: int) -> str:
        objects = self.above()[:top]
        if not objects:
            return "no object"
        lines = share_lines([(one.label, one.score) for one in objects])
        return "\n".join(f"{line}  {_edges(one.box)}" for line, one in zip(lines, objects, strict=True))

    def cells(self, top: int, *, on_screen: bool = False) -> dict[str, str]:
        return {"objects": counted(dict(Counter(one.label for one in self.above()[:top])))}

    def rows(self, top: int) -> list[dict[str, str]]:
        """A row of a table for each object."""
        return [
            {"label": one.label, "score": f"{one.score:.6f}"}
            | {name: f"{edge:.2f}" for name, edge in zip(_EDGES, one.box, strict=True)}
            for one in self.above()[:top]
        ]

    def to_json(self, top: int) -> dict[str, Any]:
        width, height = self.size
        return {"width": width, "height": height, "objects": [one.to_json() for one in self.above()[:top]]}

    # -- compared with another

    @property
    def answer(self) -> str:
        return counted(dict(sorted(self.counts.items())))

    def numbers(self) -> dict[str, float]:
        """The confidence in the most certain object of each category."""
        best: dict[str, float] = {}
        for one in self.every:
            best.setdefault(one.label, one.score)
        return best

    def agreement(self, other: "Prediction") -> str:
        own, others = self.above(), other.above()
        if not own and not others:
            return "no object in both"
        left = list(others)
        for one in own:
            near = max(left, key=partial(_overlap, one), default=None)
            if near is not None and _overlap(one, near) >= OVERLAP:
                left.remove(near)
        both = len(others) - len(left)
        return f"{both} of {len(own) + len(left)} objects are in both (same category, boxes overlap by half)"

    def __repr__(self) -> str:
        return f"<Prediction: {counted(self.counts)}>"


def mark(one: Detection) -> Mark:
    return Mark(one.box, f"{one.label} {100 * one.score:.0f} %", one.category, one.mask)


def predictions(outputs: Sequence[Mapping[str, Any]], target: Categories) -> list[Prediction]:
    """The predictions from the outputs for some images."""
    part = part_of(target)
    return [_prediction(output, target, part) for output in outputs]


def _prediction(output: Mapping[str, Any], target: Categories, part: Part) -> Prediction:
    boxes, labels, scores = (output[name].cpu().tolist() for name in ("boxes", "labels", "scores"))
    found = [
        Detection(target.names[label - FIRST], score, tuple(box), label - FIRST, **more)
        for box, label, score, more in zip(boxes, labels, scores, part.drawn(output), strict=True)
        if FIRST <= label < FIRST + len(target.names)
    ]
    return Prediction(tuple(sorted(found, key=lambda one: -one.score)), output["size"])


def _overlap(one: Detection, other: Detection) -> float:
    """The intersection over union of two boxes; 0 for objects of different categories."""
    if one.label != other.label:
        return 0.0
    pairs = list(zip(one.box, other.box, strict=True))
    sides = [min(pairs[at + 2]) - max(pairs[at]) for at in (0, 1)]
    both = max(0.0, sides[0]) * max(0.0, sides[1])
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one.box, other.box)]
    return both / (sum(areas) - both) if both else 0.0


def _edges(box: Box) -> str:
    left, top, right, bottom = (f"{edge:.0f}" for edge in box)
    return f"{left}, {top} to {right}, {bottom}"
