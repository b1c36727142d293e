"""The samples of a task: the arguments of the transforms for an image and its value, and batches of their results.

Where a value is a class or numbers, no transform changes it: the transforms get the image alone, and batches are two
tensors. A task whose values have a place in the image, such as boxes, has a class of its own, which its card names
(`samples`): its transforms get both and move them together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from leaven.formats.target import Target
from leaven.runtime.data.places import Place
from leaven.runtime.data.tokens import Tokens
from leaven.runtime.failures import Failure


class Samples:
    """How the samples of a task are transformed, made into batches, and shown to people. It can be pickled.

    As it is, for images with a value that the transforms leave as it is.
    """

    is_placed: ClassVar[bool] = False  # whether outputs have a place in the image

    def given(self, image: Any, value: Any) -> tuple[Any, ...]:
        """The arguments of the transforms: the image, and what they move with it."""
        return (image,)

    def inputs(self, images: Sequence[Any]) -> Any:
        """The model's inputs for some images after the transforms."""
        return collate(images)

    def targets(self, moved: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> Any:
        """The targets, one for each image; `moved` is what the transforms returned with each."""
        return torch.tensor(values)

    def caption(self, one: Any, target: Target) -> str:
        """One of the targets of a batch, for people: a class, labels, or numbers with their names."""
        match target.plain(one.tolist()):
            case dict() as numbers:
                return "\n".join(f"{name} {number:.6g}" for name, number in numbers.items())
            case list() | tuple() as labels:
                return ", ".join(map(str, labels)) or "no label"
            case label:
                return str(label)

    def shown(self, pixels: np.ndarray, one: Any, target: Target) -> np.ndarray:
        """The pixels of an image with what is marked in it by one of the targets of a batch."""
        return pixels

    def count(self, one: Any) -> int | None:
        """How many things are marked in an image by one of the targets of a batch; None where nothing has a place."""
        return None

    def outputs(self, model: Callable[[Any], Any], inputs: Any) -> Any:
        """The outputs of a model for what `inputs` returned."""
        return model(inputs)

    def placed(self, outputs: Any, places: Sequence[Place]) -> Any:
        """The outputs of a model for some images, in the coordinates of the images before the transforms."""
        return outputs


LABELLED = Samples()
_IN_BATCHES = (Tensor, np.ndarray, np.generic, int, float, Mapping, Sequence)  # what torch makes batches of


def collate(images: Sequence[Any]) -> Any:
    """One tensor of many; a failure where the transforms leave them different. Texts are padded to one length."""
    first = images[0]
    if isinstance(first, Tokens):
        return first.together(images)
    if not isinstance(first, _IN_BATCHES):
        kind = type(first)
        raise Failure(
            f"the transforms end with a {kind.__module__.partition('.')[0]} {kind.__name__}, not with a tensor",
            "let them end with `to_image() -> to_dtype(float32, scale=true)`",
        )
    shapes = {tuple(image.shape) for image in images if isinstance(image, Tensor | np.ndarray)}
    if len(shapes) > 1:
        some = " and ".join("×".join(map(str, shape)) for shape in sorted(shapes)[:2])
        help = "let the transforms end with one size: `resize(256) -> center_crop(224)`"
        raise Failure(f"the images of a batch differ in size: {some}", help)
    return default_collate(list(images))
