"""The content of the masks of a folder, before anything is trained on them: which can't be used, and their classes.

The meaning of single numbers and colours is decided in `tasks/segmentation/target.py`.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from leaven.files.regular import open_regular
from leaven.tasks.segmentation.target import NUMBER_MODES

if TYPE_CHECKING:
    from PIL.Image import Image

    from leaven.tasks.segmentation.target import MaskClasses

_ORIENTATION = 0x0112  # the EXIF tag
_SIDEWAYS = (5, 6, 7, 8)
_MOST_COLOURS = 65_536
_COLOURS = "write the colour of each class into `classes.txt`: `road 128 64 128`"


class Pair(NamedTuple):
    """The files of an image and of its mask."""

    image: str
    mask: str


class MaskFacts(NamedTuple):
    """The classes of the pixels of a mask, or why it can't be used."""

    pair: Pair
    classes: frozenset[int] = frozenset()
    has_ignored: bool = False
    fault: str = ""
    help: str = ""
    pixels: int = 0


def look_at_masks(pairs: Sequence[Pair], target: "MaskClasses", most: int, most_pixels: int | None) -> list[MaskFacts]:
    """The classes in the masks, or in so many of them, from first to last."""
    step = max(1, -(-len(pairs) // most))
    chosen = pairs[::step]
    if most_pixels is None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda pair: _facts(pair, target), chosen))
    few: list[MaskFacts] = []
    for pair in chosen:
        if sum(mask.pixels for mask in few) <= most_pixels:
            few.append(_facts(pair, target))
    return few


def _facts(pair: Pair, target: "MaskClasses") -> MaskFacts:
    from PIL import Image  # only masks need it

    try:
        with open_regular(pair.image) as stream, Image.open(stream) as image:
            is_sideways = image.getexif().get(_ORIENTATION) in _SIDEWAYS  # its transforms get it upright
            size = image.size[::-1] if is_sideways else image.size
    except Exception:  # reported when the image is read: it is not the mask's fault
        size = None
    try:
        with open_regular(pair.mask) as stream, Image.open(stream) as mask:
            if size is not None and mask.size != size:
                return MaskFacts(
                    pair, fault=target.other_size(mask.size, size), help="a mask has the size of its image"
                )
            return _judged(pair, mask, target)
    except Exception as problem:  # a damaged file makes Pillow raise nearly anything
        reason = getattr(problem, "strerror", None) or "it is not an image that Pillow can read"
        return MaskFacts(pair, fault=f"the mask can't be read: {reason}")


def _judged(pair: Pair, mask: "Image", target: "MaskClasses") -> MaskFacts:
    values: set[Any] | None
    if target.colours or mask.mode not in NUMBER_MODES:
        colours = mask.convert("RGB").getcolors(_MOST_COLOURS)  # None: more than any set of classes has
        values = None if colours is None else {colour for _, colour in colours}
    else:
        values = _numbers(mask)
    if values is None:
        return MaskFacts(pair, fault=target.no_colours, help=_COLOURS)
    if not target.colours and values and isinstance(next(iter(values)), tuple):
        if any(len(set(colour)) > 1 for colour in values):
            return MaskFacts(pair, fault=target.no_colours, help=_COLOURS)
        values = {colour[0] for colour in values}
    meant = {value: target.meaning(value) for value in values}
    wrong = [value for value, at in meant.items() if at is None]
    if wrong:
        help = _COLOURS if target.colours else "name a class for each number"
        return MaskFacts(pair, fault=target.unknown(wrong), help=help, pixels=mask.size[0] * mask.size[1])
    classes = frozenset(at for at in meant.values() if at is not None and at >= 0)
    return MaskFacts(pair, classes, len(classes) < len(meant), pixels=mask.size[0] * mask.size[1])


def _numbers(mask: "Image") -> set[Any]:
    """The numbers that the pixels of a grey or palette image have."""
    if mask.mode in ("P", "L"):
        return {value for _, value in mask.getcolors() or ()}
    if mask.mode == "1":
        return {int(value > 0) for _, value in mask.getcolors() or ()}  # type: ignore[operator, unused-ignore]
    import numpy as np

    return set(np.unique(np.asarray(mask)).tolist())
