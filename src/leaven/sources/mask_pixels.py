"""What is in the masks of a folder, before anything is trained on them.

Decides which masks can't be used, and what their pixels say of the classes. What single numbers and colours mean is
decided in `tasks/segmentation/target.py`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from leaven.files.regular import open_regular
from leaven.tasks.segmentation.target import NUMBER_MODES

if TYPE_CHECKING:
    from PIL.Image import Image

    from leaven.tasks.segmentation.target import MaskClasses

_ORIENTATION = 0x0112  # the EXIF tag
_SIDEWAYS = (5, 6, 7, 8)
_MOST_COLOURS = 65_536
_SHOWN = 3
_COLOURS = "write the colour of each class into `classes.txt`: `road 128 64 128`"


class Pair(NamedTuple):
    """The files of an image and of its mask."""

    image: str
    mask: str


class Seen(NamedTuple):
    """What is in one mask: the classes of its pixels, or why it can't be used."""

    pair: Pair
    classes: frozenset[int] = frozenset()
    has_ignored: bool = False
    fault: str = ""
    help: str = ""
    pixels: int = 0


def look_at_masks(pairs: Sequence[Pair], target: "MaskClasses", most: int, most_pixels: int | None) -> list[Seen]:
    """What is in the masks, or in so many of them, from first to last."""
    step = max(1, -(-len(pairs) // most))
    chosen = pairs[::step]
    if most_pixels is not None:
        return list(_few(chosen, target, most_pixels))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda pair: _seen(pair, target), chosen))


def _few(pairs: Iterable[Pair], target: "MaskClasses", most_pixels: int) -> Iterator[Seen]:
    total = 0
    for pair in pairs:
        if total > most_pixels:
            return
        seen = _seen(pair, target)
        total += seen.pixels
        yield seen


def _seen(pair: Pair, target: "MaskClasses") -> Seen:
    from PIL import Image  # only masks need it

    try:
        with open_regular(pair.image) as stream, Image.open(stream) as image:
            size = _upright_size(image)
    except Exception:  # reported when the image is read: it is not the mask's fault
        size = None
    try:
        with open_regular(pair.mask) as stream, Image.open(stream) as mask:
            if size is not None and mask.size != size:
                return Seen(pair, fault=target.other_size(mask.size, size), help="a mask has the size of its image")
            return _judged(pair, mask, target)
    except Exception as problem:  # a damaged file makes Pillow raise nearly anything
        reason = getattr(problem, "strerror", None) or "it is not an image that Pillow can read"
        return Seen(pair, fault=f"the mask can't be read: {reason}")


def _upright_size(image: "Image") -> tuple[int, int]:
    """The size of an image as its transforms get it."""
    width, height = image.size
    return (height, width) if image.getexif().get(_ORIENTATION) in _SIDEWAYS else (width, height)


def _judged(pair: Pair, mask: "Image", target: "MaskClasses") -> Seen:
    values = _colours(mask) if target.colours or mask.mode not in NUMBER_MODES else _numbers(mask)
    if values is None:
        return Seen(pair, fault=target.no_colours, help=_COLOURS)
    if not target.colours and values and isinstance(next(iter(values)), tuple):
        if any(len(set(colour)) > 1 for colour in values):
            return Seen(pair, fault=target.no_colours, help=_COLOURS)
        values = {colour[0] for colour in values}
    meant = {value: target.meaning(value) for value in values}
    wrong = [value for value, at in meant.items() if at is None]
    if wrong:
        help = _COLOURS if target.colours else "name a class for each number"
        return Seen(pair, fault=target.unknown(wrong), help=help, pixels=mask.size[0] * mask.size[1])
    classes = frozenset(at for at in meant.values() if at is not None and at >= 0)
    return Seen(pair, classes, len(classes) < len(meant), pixels=mask.size[0] * mask.size[1])


def _numbers(mask: "Image") -> set[Any]:
    """The numbers that the pixels of a grey or palette image have."""
    if mask.mode in ("P", "L"):
        return {value for _, value in mask.getcolors() or ()}
    if mask.mode == "1":
        return {int(value > 0) for _, value in mask.getcolors() or ()}  # type: ignore[operator, unused-ignore]
    import numpy as np

    return set(np.unique(np.asarray(mask)).tolist())


def _colours(mask: "Image") -> set[Any] | None:
    """The colours of the pixels; None where they are more than any set of classes has."""
    found = mask.convert("RGB").getcolors(_MOST_COLOURS)
    return None if found is None else {colour for _, colour in found}


def listed(seen: Sequence[Seen]) -> str:
    """The names of some masks."""
    names = ", ".join(f"`{os.path.basename(one.pair.mask)}`" for one in islice(seen, _SHOWN))
    return names + (f" and {len(seen) - _SHOWN:,} more" if len(seen) > _SHOWN else "")
