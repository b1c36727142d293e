"""An input whose answer is explained, and the attribution of its parts: the pixels of an image, the tokens of a text.

Decides how parts are covered from coarse to fine, with what, and how an attribution is shown. How it is computed is
left to `attribution.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from leaven.bundle import Bundle
from leaven.formats.finite_json import as_json
from leaven.lab.edits.edited import as_edited
from leaven.lab.forward import batch_of, outputs
from leaven.pictures.attribution import Box, draw_map
from leaven.runtime.data.places import prepared, size_of
from leaven.runtime.failures import Failure
from leaven.tasks.scored import OutputScore
from leaven.terminal.colors import Paint
from leaven.terminal.visible import visible

GRIDS = (2, 4, 8)  # rows and columns of patches
SPANS = (8, 4, 2, 1)  # tokens that are covered together
_LISTED = 28  # rows and columns of a map in JSON
_STRONG, _WEAK = 0.5, 0.15  # of the largest value, from which a token is coloured


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(ABC):
    """How much each part of an input supports the score of `target`; negative values speak against it."""

    model: str
    input: Any
    target: str
    score: float
    method: str
    values: np.ndarray
    is_final: bool

    @as_json
    def to_json(self) -> dict[str, Any]:
        about = {"model": self.model, "target": self.target, "score": self.score, "method": self.method}
        return {**about, "final": self.is_final}

    @abstractmethod
    def picture(self) -> bytes | None:
        """A PNG file; None for what has no picture."""

    def painted(self, paint: Paint) -> str:
        """For a terminal: what is explained, by which method."""
        return f"{visible(self.model)}: {visible(self.target)} (score {self.score:.4g}), by {self.method}"

    def __repr__(self) -> str:
        return f"<Attribution of {visible(self.target)} by {self.method}>"


@dataclass(frozen=True, eq=False, repr=False)
class ImageAttribution(Attribution):
    """A value for each pixel that the model was given; `crop` says where these lie in the image."""

    image: Image.Image
    crop: Box

    def picture(self) -> bytes:
        """The map over the image, with a frame around the part that the model was given."""
        content = BytesIO()
        draw_map(self.image, self.values, self.crop).save(content, "PNG")
        return content.getvalue()

    @as_json
    def to_json(self) -> dict[str, Any]:
        """The map has at most 28 rows and columns, each the sum of its pixels."""
        rows, columns = (np.array_split(np.arange(side), min(side, _LISTED)) for side in self.values.shape)
        sums = [[float(self.values[np.ix_(row, column)].sum()) for column in columns] for row in rows]
        return {**super().to_json(), "size": list(self.image.size), "crop": list(self.crop), "map": sums}


@dataclass(frozen=True, eq=False, repr=False)
class TextAttribution(Attribution):
    """A value for each token."""

    tokens: tuple[str, ...]

    def picture(self) -> None:
        return None

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "tokens": [{"token": token, "value": value} for token, value in self._pairs]}

    @property
    def _pairs(self) -> list[tuple[str, float]]:
        return list(zip(self.tokens, map(float, self.values), strict=True))

    def painted(self, paint: Paint) -> str:
        """Tokens in favour are green, those against red; without colours, each has its value."""
        most = float(abs(self.values).max(initial=0)) or 1.0
        words = [_painted(visible(token), value / most, paint) for token, value in self._pairs]
        return f"{super().painted(paint)}\n{' '.join(words)}"


def _painted(token: str, share: float, paint: Paint) -> str:
    if abs(share) < _WEAK:
        return token
    painted = paint("error" if share < 0 else "help" if share >= _STRONG else "string", token)
    return painted if painted != token else f"{token} ({share:+.2f})"


# -- questions


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """An input and the score to be explained, as a function of a tensor whose parts have attributions.

    `tensor` is a batch of one; `channels` the dimension of one sample that is summed.
    """

    bundle: Bundle
    given: Any
    tensor: Tensor
    score: float
    wanted: OutputScore
    channels: ClassVar[int]

    @property
    @abstractmethod
    def places(self) -> tuple[int, ...]:
        """The shape of an attribution."""

    @property
    @abstractmethod
    def baseline(self) -> Tensor:
        """The tensor without information, which covers parts."""

    @abstractmethod
    def scores(self, batch: Tensor) -> Tensor:
        """The score for each of several tensors."""

    @abstractmethod
    def attribution(self, values: Tensor, method: str, *, is_final: bool = True) -> Attribution: ...

    @abstractmethod
    def levels(self) -> Sequence[Sequence[Tensor]]:
        """The parts to be covered, from coarse to fine; a part is true where it is."""

    def covered(self, parts: Sequence[Tensor]) -> Tensor:
        """A batch in which each has another part covered."""
        masks = torch.stack(list(parts)).unsqueeze(self.channels + 1).to(self.tensor.device)
        return torch.where(masks, self.baseline, self.tensor)


class ImageQuestion(Question):
    """An image, whose parts are the pixels that the model is given."""

    channels: ClassVar[int] = 0

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape[-2:])

    @cached_property
    def baseline(self) -> Tensor:
        """The mean colour of the image."""
        return self.tensor.mean(dim=(2, 3), keepdim=True).expand_as(self.tensor)

    def scores(self, batch: Tensor) -> Tensor:
        samples = self.bundle.manifest.task.Samples()
        return self.wanted.each(outputs(self.bundle, samples.inputs(list(batch))))

    def levels(self) -> Sequence[Sequence[Tensor]]:
        return [_rectangles(self.places, grid) for grid in GRIDS]

    def attribution(self, values: Tensor, method: str, *, is_final: bool = True) -> Attribution:
        image = self.bundle.manifest.takes.shown(self.given)
        about = (self.bundle.path.name, self.given, self.wanted.name, self.score, method, values.numpy(), is_final)
        return ImageAttribution(*about, image, self._crop(image))

    def _crop(self, image: Image.Image) -> Box:
        """Where the model's input lies in the image: all of it, where the transforms can't tell."""
        taken = self.bundle.manifest.takes.converted(self.given)
        width, height = size_of(taken)
        try:
            _, place = prepared(taken, self.bundle.preprocess)
        except Exception:  # custom transforms may raise anything for the boxes with which places are found
            return 0.0, 0.0, float(image.size[0]), float(image.size[1])
        edges = (0, 0, self.places[1], self.places[0])
        scale = image.size[0] / width, image.size[1] / height
        moved = [(edge * place.scale[at % 2] + place.shift[at % 2]) * scale[at % 2] for at, edge in enumerate(edges)]
        return moved[0], moved[1], moved[2], moved[3]


@dataclass(frozen=True, eq=False)
class TextQuestion(Question):
    """A text, whose parts are its tokens: `tensor` has their vectors, as the layer `embedding` puts them out."""

    inputs: Mapping[str, Tensor]
    embedding: nn.Module
    tokens: tuple[str, ...]
    channels: ClassVar[int] = 1

    @property
    def places(self) -> tuple[int, ...]:
        return (len(self.tokens),)

    @cached_property
    def baseline(self) -> Tensor:
        """Embeddings of zeros."""
        return torch.zeros_like(self.tensor)

    def scores(self, batch: Tensor) -> Tensor:
        inputs = {name: each.expand(len(batch), *each.shape[1:]) for name, each in self.inputs.items()}
        hook = self.embedding.register_forward_hook(lambda layer, given, output: batch)
        try:
            return self.wanted.each(outputs(self.bundle, inputs))
        finally:
            hook.remove()

    def levels(self) -> Sequence[Sequence[Tensor]]:
        spans = [length for length in SPANS if length < len(self.tokens)] or [1]
        places = torch.arange(len(self.tokens))
        return [
            [(places >= start) & (places < start + length) for start in range(0, len(places), length)]
            for length in spans
        ]

    def attribution(self, values: Tensor, method: str, *, is_final: bool = True) -> Attribution:
        about = (self.bundle.path.name, self.given, self.wanted.name, self.score, method, values.numpy(), is_final)
        return TextAttribution(*about, self.tokens)


def question_of(bundle: Bundle, given: Any, target: str | None) -> Question:
    """The question for an input and a target, None for the answer; a Failure where the outputs have no such score."""
    value = as_edited(given).value
    made = bundle.prepare(value)
    batch = batch_of(bundle, made)
    embeddings: list[tuple[nn.Module, Tensor]] = []
    with torch.no_grad():
        if isinstance(made, dict):
            embeddings = _embeddings(bundle, batch)
        found = outputs(bundle, batch)
        wanted = bundle.manifest.task.output_score(found, bundle.target, target)
        score = float(wanted.each(found)[0])
    if not isinstance(made, dict):
        return ImageQuestion(bundle, value, batch[0][None], score, wanted)
    if not embeddings:
        raise Failure("the model has no layer of word embeddings, so its tokens can't be explained")
    layer, tensor = embeddings[0]
    return TextQuestion(bundle, value, tensor, score, wanted, batch, layer, _tokens(bundle, made))


def _embeddings(bundle: Bundle, batch: Mapping[str, Tensor]) -> list[tuple[nn.Module, Tensor]]:
    """The layers that turn token ids into vectors, with these for a batch."""
    found: list[tuple[nn.Module, Tensor]] = []

    def note(layer: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
        if given and isinstance(given[0], Tensor) and torch.equal(given[0], batch["input_ids"]):
            found.append((layer, output.clone()))

    layers = [layer for layer in bundle.model.modules() if isinstance(layer, nn.Embedding)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        outputs(bundle, batch)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _tokens(bundle: Bundle, made: Mapping[str, Tensor]) -> tuple[str, ...]:
    named = getattr(bundle.preprocess, "tokens", None)
    return tuple(named(made)) if named is not None else tuple(map(str, made["input_ids"].tolist()))


def _rectangles(size: Sequence[int], grid: int) -> list[Tensor]:
    """Masks of the rectangles into which a grid divides an image, in reading order."""
    down, across = (torch.arange(side) * grid // side for side in size)
    return [
        (down == row)[:, None] & (across == column)[None, :]
        for row in range(min(grid, size[0]))
        for column in range(min(grid, size[1]))
    ]
