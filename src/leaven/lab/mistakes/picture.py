"""The worst mistakes as a picture: each image with its label, what was predicted, and how confidently."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leaven.lab.mistakes.samples import Samples
from leaven.pictures.batch import Rows, Tile, draw_batch

if TYPE_CHECKING:
    from leaven.lab.mistakes.errors import Mistake

_SIDE = 256  # pixels


def tiles(samples: Samples, mistakes: "Sequence[Mistake]") -> bytes:
    """The picture, as a PNG; where an image can't be opened, its place says so."""
    title = f"{len(mistakes)} worst mistakes of {samples.subject}" if mistakes else "no mistakes"
    shown = [Tile(image_of(samples, one.at), _caption(one)) for one in mistakes] or [Tile(None, "no mistakes")]
    with tempfile.TemporaryDirectory(prefix="leaven-") as folder:
        file = Path(folder, "errors.png")
        draw_batch([Rows(_one_line(title), shown)], file)
        return file.read_bytes()


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _caption(one: "Mistake") -> str:
    sure = "" if one.confidence is None else f" {100 * one.confidence:.0f} %"
    return f"{os.path.basename(one.file)}\nlabel: {one.label}\nmodel: {one.prediction}{sure}"


def image_of(samples: Samples, at: int) -> Any:
    """The pixels of a sample, small; None where its file is missing or no image."""
    from PIL import Image, ImageOps

    file = samples.path(at)
    try:
        if not os.path.isfile(file):
            return _from_data(samples, at)
        with Image.open(file) as opened:
            opened.draft("RGB", (2 * _SIDE, 2 * _SIDE))
            upright = ImageOps.exif_transpose(opened).convert("RGB")
            upright.thumbnail((_SIDE, _SIDE))
            return np.asarray(upright)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _from_data(samples: Samples, at: int) -> Any:
    """An image that has no file of its own, as those of scikit-learn's digits: from the data of the run."""
    if samples.words("digest")[at] is None:
        return None
    from leaven.lab.subject import Subject  # which needs torch
    from leaven.runtime.failures import Failure

    try:
        with Subject(samples.subject).data() as dataset:
            return np.asarray(dataset.load(int(samples.numbers("index")[at])).convert("RGB"))
    except (Failure, AttributeError, IndexError):
        return None
