"""An input with its edits: the changed image or text, and how to say it again in Python, in a recipe and in words."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from leaven.bundle.inputs.opening import as_image
from leaven.formats.finite_json import as_json
from leaven.lab.edits.edit import Edit, written
from leaven.lab.edits.kinds import make_edit
from leaven.runtime.failures import Failure
from leaven.terminal.visible import visible

LONGEST = 80  # letters of an input in a summary


@dataclass(frozen=True, repr=False, eq=False)
class Edited:
    """A photo or a text as it was given, and the edits that are applied to it in turn."""

    input: Any
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        nouns = {one.kind.noun for one in self.edits}
        if len(nouns) > 1:
            image, text = (next(one for one in self.edits if one.kind.noun == noun) for noun in ("image", "text"))
            raise Failure(f"`{image.name}` changes images and `{text.name}` texts; an input is one or the other")

    @cached_property
    def value(self) -> Any:
        """What a model is given: without edits the input as it is, else a changed image or text."""
        value = self.opened if self.edits else self.input
        for one in self.edits:
            value = one.apply(value)
        return value

    @cached_property
    def opened(self) -> Any:
        """The input as edits change it: an upright image in colour, or a text."""
        if self.edits and self.edits[0].kind.noun == "text":
            return tuple(self.input) if isinstance(self.input, list) else self.input
        image = as_image(self.input, "RGBA")
        is_opaque = image.getchannel("A").getextrema() == (255, 255)
        return image.convert("RGB") if is_opaque else image

    def then(self, *edits: Edit) -> "Edited":
        """The same with more edits."""
        return Edited(self.input, (*self.edits, *edits))

    # -- in words

    @property
    def name(self) -> str:
        """The file or the text, as checks write it."""
        match self.input:
            case str() | os.PathLike():
                return written(os.fspath(self.input))
            case tuple() | list() if all(isinstance(part, str) for part in self.input):
                return " / ".join(map(written, self.input))
        return f"({type(self.input).__name__} in memory)"

    @property
    def words(self) -> str:
        """`"cat.jpg" padded by 8 px, in grey`."""
        return " ".join(filter(None, [self.name, ", ".join(one.words for one in self.edits)]))

    def __repr__(self) -> str:
        shown = visible(self.words)
        return f"<Edited: {shown if len(shown) <= LONGEST else f'{shown[: LONGEST - 1]}…'}>"

    # -- as code

    def as_python(self, name: str = "changed") -> str:
        """Lines of Python that assign the same input to a variable."""
        given = self._given()
        if not self.edits:
            return f"{name} = {given}\n"
        return f"{name} = {_chained(given, self.edits)}.value\n"

    def as_recipe(self) -> str | None:
        """The transforms for `train` that prepare a model for such inputs; None where no transform does."""
        steps = [step for one in self.edits if (step := one.as_recipe())]
        steps.sort(key=lambda step: step.startswith("to_tensor()"))  # then only tensors are accepted
        return " -> ".join(steps) or None

    def _given(self) -> str:
        """The input as Python writes it."""
        if isinstance(self.input, str | os.PathLike):
            return repr(os.fspath(self.input))
        if isinstance(self.input, tuple | list) and all(isinstance(part, str) for part in self.input):
            return repr(tuple(self.input))
        raise Failure("an image in memory can't be written as Python", "save it, and give its file")

    @as_json
    def to_json(self) -> dict[str, Any]:
        match self.input:
            case str() | os.PathLike():
                given: Any = os.fspath(self.input)
            case tuple() | list() if all(isinstance(part, str) for part in self.input):
                given = list(self.input)
            case _:
                given = None
        return {"input": given, "edits": [one.to_json() for one in self.edits], "words": self.words}

    def picture(self) -> bytes:
        """The changed image as the content of a PNG file; a Failure for a text."""
        shown = self.value if self.edits else self.opened
        if not isinstance(shown, Image.Image):
            raise Failure("a changed text has no picture")
        content = BytesIO()
        shown.save(content, "PNG")
        return content.getvalue()


def edit(given: Any, **changes: Any) -> Edited:
    """A changed input: `edit("photo.jpg", brightness=0.5, rotate=10)`. The changes are applied in their order.

    `given` may itself be edited; several values of one change are a tuple: `cover=(0.1, 0.1, 0.3, 0.3)`.
    """
    before = as_edited(given)
    return before.then(*(make_edit(name, value) for name, value in changes.items()))


def as_edited(given: Any) -> Edited:
    """An input without edits, or one that has some already."""
    return given if isinstance(given, Edited) else Edited(Path(given) if isinstance(given, os.PathLike) else given)


def _chained(given: str, edits: Sequence[Edit]) -> str:
    """Calls of `edit`; one has each keyword only once."""
    calls: list[list[Edit]] = [[]]
    for one in edits:
        if any(other.name == one.name for other in calls[-1]):
            calls.append([])
        calls[-1].append(one)
    for call in calls:
        given = f"edit({', '.join([given, *(one.keyword for one in call)])})"
    return given
