"""What a name means, as plain data: a `Card` and its `Parameter`s.

A card comes from one of two places: a file of Leaven's own (`own.py` reads those) or the index of what the installed
libraries offer (`library.py`). Nothing here knows which; the checker, the encyclopedia and completion read cards only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = (
    "statement",
    "technique",
    "model",
    "component",
    "data",
    "transform",
    "loss",
    "metric",
    "optimizer",
    "schedule",
    "sampler",
    "logger",
    "range",
    "pruning",
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a card.

    `type` holds one or more words joined by `|`. Plain values: `int`, `float`, `bool`, `text`, `path`, `list`, `none`,
    `any`. Values of the language: `choice` (one of `choices`), `quantity` (a number in one of `units`, the first is
    meant when none is written), `selector`, `score` (`val.accuracy`), `function` (of the user's), `transforms` (a
    pipeline), `name`, `statement`, or a kind of card (`model`, `optimizer`, …).
    """

    name: str
    type: str = "any"
    required: bool = False
    default: Any = None
    summary: str = ""
    choices: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None  # like minimum and maximum, but the bound itself is not allowed
    below: float | None = None
    items: str = "any"  # the type of what a list holds, and how much that is
    length: int | None = None
    positional: bool = True
    variadic: bool = False
    target: str | None = None  # the library's name of it, where Leaven's differs

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self.type.split("|"))


@dataclass(frozen=True, slots=True)
class Card:
    """What one name means. `name` is the qualified one; `target` is what a program imports and calls."""

    kind: str
    name: str
    source: str  # leaven, timm, torchvision, torch, torchmetrics, transformers
    summary: str = ""
    target: str = ""
    friendly: str = ""  # the name as Leaven spells it: `random_resized_crop` of `torchvision.RandomResizedCrop`
    parameters: tuple[Parameter, ...] = ()
    open_ended: bool = False  # takes keyword arguments beyond `parameters` that can't be known without running it
    facts: Mapping[str, Any] = field(default_factory=dict)  # what is particular to the kind
    article: str = ""

    def parameter(self, name: str) -> Parameter | None:
        return next((parameter for parameter in self.parameters if parameter.name == name), None)

    @property
    def bare_name(self) -> str:
        """The name without its library: `resnet50.a1_in1k` of `timm.resnet50.a1_in1k`."""
        return self.name.partition(".")[2] or self.name
