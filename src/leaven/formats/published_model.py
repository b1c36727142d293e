"""A model with published weights, as plain data: what the catalog knows of it, and a bundle is made of."""

from typing import NamedTuple


class PublishedModel(NamedTuple):
    """How to build it, where its weights are, and which images it takes. `classes` is the set of its outputs."""

    name: str
    library: str  # timm or torchvision
    built_as: str  # what the library calls it
    tag: str | None  # of weights that the library publishes
    package: str | None  # that has the weights, where the library does not fetch them
    classes: str | None
    size: tuple[int, int]
    resize: int  # the shorter side before the crop
    is_squashed: bool  # to a square of that side, whatever its shape
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
