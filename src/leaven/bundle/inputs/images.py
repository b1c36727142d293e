"""An image model: the transforms take an image, an array or a tensor.

Decides how an input becomes what the transforms were written for, and which random images a model is compared on.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from leaven.bundle.inputs.image_arguments import find_files, find_images, is_folder_or_pattern
from leaven.bundle.inputs.opening import as_image
from leaven.bundle.inputs.protocol import Example, Exported, InputKind, Meant, Measured, Size
from leaven.bundle.inputs.tables import table_of, table_to_json
from leaven.formats.tables import layout_like, open_table
from leaven.formats.target import Known, Target
from leaven.runtime.data.datasets import Dataset, table
from leaven.runtime.failures import Failure
from leaven.sources.columns import ImageColumn
from leaven.tasks.protocol import Task

GOLDEN = 3  # images
LARGEST = 1024  # pixels
_PROBES = ((200, 240), (260, 230))  # heights and widths
_MODES = {"1": "L", "L": "L", "LA": "L", "I": "L", "F": "L", "I;16": "L", "RGBA": "RGBA"}
_READY: dict[str, tuple[type, ...]] = {"image": (), "array": (np.ndarray,), "tensor": (Tensor,)}


@dataclass(frozen=True)
class Images(InputKind):
    """Images, in the form in which the transforms take them.

    `size` is that of the training samples where the transforms don't change it (so all had one size, or they would not
    have made a batch), in the order of its kind: width and height of an image, the shape of an array or a tensor. It
    is empty where the transforms decide the size.
    """

    kind: Literal["image", "array", "tensor"] = "image"
    mode: str = "RGB"
    size: tuple[int, ...] = ()

    noun: ClassVar[str] = "image"
    heading: ClassVar[str] = "file"
    forms: ClassVar[tuple[str, ...]] = ("images", "arrays", "tensors")

    # -- in the file

    @classmethod
    def like(cls, example: Any) -> Self | None:
        match example:
            case Image.Image():
                return cls("image", _MODES.get(example.mode, "RGB"), example.size)
            case np.ndarray():
                return cls("array", "L" if example.ndim == 2 else "RGB", example.shape)
            case Tensor():
                return cls("tensor", "L" if example.ndim == 2 or example.shape[0] == 1 else "RGB", tuple(example.shape))
        return None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self | None:
        match data:
            case {"kind": "image" | "array" | "tensor" as kind, "mode": str(mode), "size": list(size)}:
                return cls(kind, mode, tuple(map(int, size)), **table_of(data))
        return None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "mode": self.mode, "size": list(self.size), **table_to_json(self)}

    # -- when it is saved

    def probes(self) -> Sequence[Self]:
        """Images of two sizes; arrays and tensors have the size of the example."""
        return [replace(self, size=(width, height)) for height, width in _PROBES] if self.kind == "image" else []

    def of_any_size(self) -> Self:
        return replace(self, size=()) if self.kind == "image" else self

    def golden_inputs(self, near: tuple[int, int], generator: torch.Generator) -> list[Tensor]:
        if self.kind == "tensor":
            return [torch.rand(self.size, generator=generator) for _ in range(GOLDEN)]
        channels = 1 if self.mode in ("L", "1") else len(self.mode)
        height, width = near
        sizes = [(height, width), (height + height // 4, width), (height, width + width // 3)]
        if self.kind == "array" or self.size:
            height, width = self.size[:2] if self.kind == "array" else self.size[::-1]
            sizes = [(height, width)] * GOLDEN
        return [_drawn(height, width, channels, generator) for height, width in sizes]

    def as_input(self, made: Tensor) -> Any:
        if self.kind == "tensor":
            return made
        pixels = made.numpy()
        pixels = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
        return pixels.copy() if self.kind == "array" else Image.fromarray(pixels).convert(self.mode)

    # -- for the card

    @property
    def example(self) -> Example:
        return Example('"photo.jpg"', "photo.jpg")

    def described(self, shape: Sequence[int], preprocess: Any) -> str:
        what = {"image": "An image", "array": "An array", "tensor": "A tensor"}[self.kind]
        mode = {"L": "greyscale", "RGB": "RGB", "RGBA": "RGBA"}.get(self.mode, "")
        made = "×".join(map(str, shape))
        size = self.image_size
        first = f" It is resized to {size[0]}×{size[1]} pixels first, the size of all training images." if size else ""
        return f"{what} ({mode}), which the transforms in `bundle.json` turn into a tensor of {made}.{first}"

    # -- to predict

    @property
    def image_size(self) -> tuple[int, int] | None:
        """The width and height that an image must have; None where any will do."""
        match self.kind, self.size:
            case "image", (width, height):
                return width, height
            case ("array", (height, width, *_)) | ("tensor", (_, height, width)) | ("tensor", (height, width)):
                return width, height
        return None

    def is_one(self, given: Any) -> bool:
        return not isinstance(given, list | tuple)

    def files(self, given: Any) -> list[str] | None:
        if not isinstance(given, str | os.PathLike) or not is_folder_or_pattern(os.fspath(given)):
            return None
        files, problems = find_files([os.fspath(given)])
        for problem in problems:
            raise problem
        return files

    def converted(self, given: Any) -> Any:
        """An array or a tensor is taken as it is where the transforms take one; anything else is opened as an image."""
        if isinstance(given, _READY[self.kind]):
            return given
        image = as_image(given, self.mode)
        size = self.image_size
        if size is not None and image.size != size:
            image = image.resize(size, Image.Resampling.BILINEAR)
        match self.kind:
            case "image":
                return image
            case "array":
                return np.asarray(image)
            case "tensor":
                pixels = np.atleast_3d(np.asarray(image, dtype=np.float32) / 255)
                return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def meant(self, arguments: Sequence[str], columns: Sequence[str], root: Path | None = None) -> Meant:
        (column,) = tuple(columns[:1]) or self.columns[:1] or ("image",)
        images, problems = find_images(arguments, self._column(column), self.layout, root)
        return Meant(list(images.items()), problems, len(images) == len(arguments) == 1)

    def named(self, names: Sequence[str], folder: Path) -> str:
        if len(names) != 1:
            raise Failure("expected one image, got several names")
        return str(folder / names[0])

    def name_in(self, folder: Path, given: Any) -> Any:
        if not isinstance(given, str | os.PathLike) or not os.path.exists(given):
            return given
        return Path(os.path.relpath(given, folder)).as_posix()

    def shortened(self, name: str, width: int) -> str:
        """The end of a path says more than its beginning."""
        return name if len(name) <= width else "…" + name[1 - width :]

    # -- to evaluate

    def folder(self, path: Path, measured: Measured, task: Task, target: Target) -> Dataset | None:
        """A folder, or a file of annotations, as the task reads it."""
        is_annotations = path.suffix == ".json" and path.is_file()
        return task.folder(path, target, measured.columns) if path.is_dir() or is_annotations else None

    def table(self, path: Path, measured: Measured, target: Known) -> Dataset:
        names = (measured.image,) if measured.image is not None else (*self.columns, "image")
        image = next((name for name in names if self._has_column(path, name)), names[0])
        layout = layout_like(path, (image, *target.columns), self.layout)
        ending, on_bad_file = self._column(image).ending, measured.on_bad_file
        options = {"root": measured.root, "ending": ending, "on_bad_file": on_bad_file, **layout._asdict()}
        return table(path, image=image, target=target, **options)

    def _column(self, name: str) -> ImageColumn:
        """A column of a table; that of the training leaves out the same ending."""
        return ImageColumn(name, self.ending if (name,) == self.columns else "")

    def _has_column(self, path: Path, name: str) -> bool:
        try:
            return name in open_table(path, layout_like(path, (name,), self.layout)).columns()
        except (OSError, ValueError):  # reported when it is read
            return False

    def shown(self, sample: Any) -> Image.Image:
        return as_image(sample, "RGB")

    # -- to export

    def exported(
        self, model: nn.Module, prepared: Sequence[Any], size: Size, *, shape: Sequence[int], preprocess: Any
    ) -> Exported:
        """Batches of any number of images, all of one size."""
        height, width = (size, size) if isinstance(size, int) else size or shape[-2:]
        fitted = [
            nn.functional.interpolate(one[None].float(), size=(height, width), mode="bilinear", antialias=True)
            for one in prepared
        ]
        return Exported(model, ("images",), (torch.cat(fitted),), ({0: torch.export.Dim("batch", min=1)},))


def _drawn(height: int, width: int, channels: int, generator: torch.Generator) -> Tensor:
    """Patches of colour and a little noise: like a photo, it has edges, surfaces and grain."""
    height, width = (min(side, LARGEST) for side in (height, width))
    coarse = torch.rand((1, channels, 5, 5), generator=generator)
    smooth = nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")[0]
    blocks = torch.rand((1, channels, 3, 4), generator=generator)
    edges = nn.functional.interpolate(blocks, size=(height, width), mode="nearest")[0]
    grain = torch.rand((channels, height, width), generator=generator) - 0.5
    values = 0.5 * smooth + 0.4 * edges + 0.2 * grain
    return (values.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
