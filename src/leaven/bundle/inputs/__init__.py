"""The inputs of models: images or texts, each a class that knows all that differs between them.

    protocol.py        what such a class must offer
    images.py          images, arrays and tensors; `opening.py` opens them, `image_arguments.py` reads a command line
    texts.py           texts and pairs of them; `text_arguments.py` reads a command line

Decides which of the classes an example, or the description in a bundle, is of. Another kind of input is another class.
"""

from collections.abc import Mapping
from typing import Any

from leaven.bundle.inputs.images import Images
from leaven.bundle.inputs.protocol import Exported, InputKind, Meant
from leaven.bundle.inputs.texts import Texts
from leaven.runtime.failures import Failure

__all__ = ["KINDS", "Exported", "Images", "InputKind", "Meant", "Texts", "candidates", "like", "read"]

KINDS: tuple[type[InputKind], ...] = (Images, Texts)


def like(example: Any) -> InputKind:
    """The kind of input of an example, whose content is not used."""
    if (found := next(filter(None, (kind.like(example) for kind in KINDS)), None)) is not None:
        return found
    *first, last = (form for kind in KINDS for form in kind.forms)
    raise Failure(f"a bundle's model takes {', '.join(first)} or {last}, not {type(example).__name__}")


def candidates(example: Any) -> list[InputKind]:
    """The kinds of input to be tried in turn; without an example, images in colour, or else in grey."""
    return [like(example)] if example is not None else [Images(mode="RGB"), Images(mode="L")]


def read(data: Mapping[str, Any]) -> InputKind:
    """The kind of input from what its `to_json` wrote; a ValueError where it can't be read."""
    if (found := next(filter(None, (kind.read(data) for kind in KINDS)), None)) is not None:
        return found
    raise ValueError("`takes` can't be read")
