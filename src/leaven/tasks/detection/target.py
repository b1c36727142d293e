"""The target of detection: the objects in an image, each with a category and a box."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from leaven.formats.target import BadTarget, Doubt, check_names, each_sample, shown
from leaven.formats.target_kind import TargetKind
from leaven.tasks.classification.target import listed

Box = tuple[float, float, float, float]  # left, top, right, bottom
SLACK = 2.0  # pixels by which a box may be outside of its image: annotations are rounded
RELATIVE_SLACK = 0.01
_WRONG = "wrong-annotation"


class Object(NamedTuple):
    """An object: the index of its category, its box, and what else it has: a mask as polygons or COCO's run lengths.

    A crowd is a region with many objects that are not told apart. Nothing is trained on it, and what is found in it is
    neither right nor wrong.
    """

    category: int
    box: Box
    part: Any = None
    is_crowd: bool = False


class Objects(NamedTuple):
    """The objects of an image; their places are in pixels, or relative to its width and height."""

    each: tuple[Object, ...] = ()
    is_relative: bool = False


@dataclass(frozen=True)
class Categories:
    """The categories in the order of the outputs."""

    names: tuple[str, ...]
    columns: ClassVar[tuple[str, ...]] = ()
    task: ClassVar[str] = "detection"
    kind: ClassVar[TargetKind] = "boxes"
    part: ClassVar[str] = ""  # what an object has besides its box, as data names it: "mask"
    parts: ClassVar[str] = ""  # and those of several objects

    @property
    def brief(self) -> str:
        return f"{len(self.names)} categor{'y' if len(self.names) == 1 else 'ies'}"

    def value(self, given: Any) -> Objects:
        """The objects of a sample: `{"boxes": …, "labels": …}` as torchvision has them, or a list of objects."""
        match given:
            case Objects():
                return given
            case {"boxes": boxes, "labels": labels, **rest}:
                given_parts: Any = rest.get(self.parts)
                parts = [None] * len(boxes) if given_parts is None else given_parts
                each = zip(_plain(labels), _plain(boxes), parts, strict=True)
                return Objects(tuple(Object(self._category(label), box_of(box), part) for label, box, part in each))
            case list() | tuple():
                return Objects(tuple(map(self._object, given)))
        raise BadTarget(_WRONG, f"has `{shown(given)}` in place of its objects", "give `boxes` and `labels`")

    def _object(self, given: Any) -> Object:
        match given:
            case {"label": label, "box": box, **rest}:
                return Object(self._category(label), box_of(box), rest.get(self.part), bool(rest.get("crowd", False)))
        raise BadTarget(_WRONG, f"has `{shown(given)}` in place of an object", "an object has a `label` and a `box`")

    def _category(self, given: Any) -> int:
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(self.names):
            return given
        if given in self.names:
            return self.names.index(given)
        near = difflib.get_close_matches(str(given), self.names, n=1)
        which = f"labels are names, or their indices from 0: {listed(self.names)}"
        raise BadTarget(
            _WRONG,
            f"has an object of the category `{shown(given)}`, which is not one of the {len(self.names)} known ones",
            f"did you mean `{near[0]}`?" if near else which,
        )

    def plain(self, value: Objects) -> Any:
        if value.is_relative:  # only the image tells where they are
            return value
        return [
            {
                "label": self.names[one.category],
                "box": list(one.box),
                **({self.part: one.part} if one.part is not None else {}),
                **({"crowd": True} if one.is_crowd else {}),
            }
            for one in value.each
        ]

    def fitted(self, values: Sequence[Objects], train: Sequence[int]) -> tuple["Categories", Sequence[Objects]]:
        return self, values

    def strata(self, values: Sequence[Objects]) -> Sequence[int]:
        """The rarest category of each image, so that rare ones are in every split; empty images go together."""
        there = [{one.category for one in value.each} for value in values]
        counts = [sum(at in each for each in there) for at in range(len(self.names))]
        return [min(each, key=lambda at: (counts[at], at), default=len(counts)) for each in there]

    def stratum(self, number: int) -> str:
        return self.names[number] if number < len(self.names) else "no object"

    def unseen(self, train: Sequence[Objects], other: Sequence[Objects]) -> str:
        """Nothing: a detector may be measured on categories that it seldom saw, and rare ones are in few images."""
        return ""

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names)}


def read_names(data: Any) -> tuple[str, ...]:
    """The names of categories, as a bundle stores them."""
    match data:
        case {"names": [*names]} if names:
            return tuple(map(str, names))
    raise ValueError("the categories can't be read")


def read_target(data: Any) -> Categories:
    return Categories(read_names(data))


@dataclass(frozen=True)
class Annotations:
    """The objects in a user's dataset, whose categories are its `classes`."""

    argument: ClassVar[str] = "boxes"
    attribute: ClassVar[str] = "classes"
    columns: ClassVar[tuple[str, ...]] = ()
    target: ClassVar[type[Categories]] = Categories

    def told(self, dataset: Any) -> Categories | None:
        names = getattr(dataset, self.attribute, None)
        return self.target(tuple(map(str, names))) if isinstance(names, Sequence) and names else None

    def read(self, given: Sequence[Any]) -> tuple[Categories, list[Objects]]:
        names = sorted({name for one in given for name in _names(one)})
        if not names:
            fact = "does not tell what its categories are called"
            raise BadTarget(_WRONG, fact, "give it an attribute `classes`: the names in the order of the labels")
        check_names(names)
        target = self.target(tuple(names))
        return target, each_sample(target.value, given)

    def doubt(self, target: Categories, values: Sequence[Objects]) -> Doubt | None:
        return None


def box_of(given: Any) -> Box:
    """Four numbers, from left to right and from top to bottom."""
    try:
        left, top, right, bottom = map(float, _plain(given))
    except (TypeError, ValueError):
        raise BadTarget(_WRONG, f"has the box `{shown(given)}`, which is not four numbers") from None
    if not (left < right and top < bottom):  # not a number is not less either
        raise BadTarget(_WRONG, f"has the box `{shown(given)}`, which has no size", "give left, top, right and bottom")
    return left, top, right, bottom


def box_fault(box: Box, size: tuple[float, float] | None) -> str:
    """The fault of a box, such as `has the box …, which is outside of its image`; empty where there is none.

    `size` is that of the image, 1 by 1 where the box is relative to it, None where it is not known.
    """
    edges = ", ".join(f"{number:g}" for number in box)
    if not all(map(math.isfinite, box)):
        return f"has a box with {edges}, which are not all numbers"
    left, top, right, bottom = box
    if size is not None:
        width, height = size
        slack = SLACK if max(size) > 1 else RELATIVE_SLACK
        if min(left, top) < -slack or right > width + slack or bottom > height + slack:
            at = f"an image of {width:g}×{height:g}" if max(size) > 1 else "its image"
            return f"has the box {edges}, which is outside of {at}"
        left, top, right, bottom = within(box, size)
    return f"has the box {edges}, which has no size" if right <= left or bottom <= top else ""


def within(box: Box, size: tuple[float, float]) -> Box:
    """A box cut off at the edges of its image."""
    left, top, right, bottom = box
    width, height = size
    return min(max(left, 0.0), width), min(max(top, 0.0), height), min(right, width), min(bottom, height)


def _names(given: Any) -> Iterable[str]:
    labels = given.get("labels", ()) if isinstance(given, Mapping) else [one.get("label") for one in given]
    return (label for label in _plain(labels) if isinstance(label, str))


def _plain(given: Any) -> Any:
    return given.tolist() if hasattr(given, "tolist") else given
