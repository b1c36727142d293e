"""The typed recipe: what is to be done, with every default filled in and the origin of each choice.

Only the checker builds these values, so whoever holds a `Recipe` may rely on all that a check promises. All are frozen;
states that make no sense can't be said.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leaven.catalog.card import Card
from leaven.language.source import SourceKind, Span
from leaven.language.syntax import Value as Syntax

# -- where a choice comes from


@dataclass(frozen=True, slots=True)
class Written:
    """It stands in a recipe file or in an option on the command line."""

    span: Span

    def __str__(self) -> str:
        source = self.span.source
        if source.kind is SourceKind.OPTION:
            return f"option {source.name}"
        return f"{source.name}, line {self.span.line}" if source.kind is SourceKind.BASE else f"line {self.span.line}"


@dataclass(frozen=True, slots=True)
class Default:
    """Nobody said; this is why it is so."""

    reason: str

    def __str__(self) -> str:
        if self.reason.startswith("of "):
            return f"default {self.reason}"
        return f"default: {self.reason}" if self.reason else "default"


Origin = Written | Default

# -- values


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, in the plural: `5 epochs`, `30%`."""

    amount: int | float
    unit: str


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path as written, and where it leads."""

    text: str
    place: Path = field(compare=False)
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Score:
    """A number that training watches: `val.accuracy`."""

    split: str
    metric: str

    def __str__(self) -> str:
        return f"{self.split}.{self.metric}"


@dataclass(frozen=True, slots=True)
class FromData:
    """`classes` or `channels`: known at the latest when the data is there."""

    name: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Pending:
    """A value that an `arg` without a default, or the data, gives when the recipe runs.

    `name` is its name, or a calculation with it as it would be written: `size * 2`.
    """

    name: str


@dataclass(frozen=True, slots=True)
class UserDefinition:
    """A function or class in a file of the user's."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One argument of a call or statement. `syntax` is what was written, where it depends on an `arg`."""

    name: str
    value: Any
    origin: Origin = field(compare=False)
    syntax: Syntax | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A card put to use with its arguments."""

    card: Card
    settings: tuple[Setting, ...]
    origin: Origin = field(compare=False)

    def value(self, name: str, default: Any = None) -> Any:
        """The value of an argument."""
        found = self.setting(name)
        return default if found is None else found.value

    def __getitem__(self, name: str) -> Setting:
        """An argument that the card has."""
        found = self.setting(name)
        if found is None:
            raise KeyError(name)
        return found

    def setting(self, name: str) -> Setting | None:
        return next((setting for setting in self.settings if setting.name == name), None)


# -- selectors: sets of parameters


@dataclass(frozen=True, slots=True)
class Word:
    """`all`, `head`, `backbone`, `stem`, `norms`, `biases`."""

    word: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A module path, with all below it, or a glob over paths."""

    pattern: str
    is_glob: bool


@dataclass(frozen=True, slots=True)
class Stages:
    numbers: tuple[int | Pending, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The first or last layers in forward order: a count of layers, or a percentage of parameters."""

    end: str
    amount: Quantity | Pending


@dataclass(frozen=True, slots=True)
class OfType:
    type: str


@dataclass(frozen=True, slots=True)
class Joined:
    left: "Selector"
    right: "Selector"


@dataclass(frozen=True, slots=True)
class Without:
    left: "Selector"
    right: "Selector"


Selector = Word | Layer | Stages | Share | OfType | Joined | Without

# -- the parts of a recipe


@dataclass(frozen=True, slots=True)
class FitHead:
    """The head is fitted to the data's classes and starts anew; `path` names it where the model does not tell."""

    path: str | None = None


@dataclass(frozen=True, slots=True)
class KeepHead:
    """The head stays as it was trained."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model to reuse or to train: one call, or a pipeline of components."""

    source: Invocation | tuple[Invocation, ...]
    pretrained: bool
    weights: FilePath | None
    head: FitHead | KeepHead
    origin: Origin = field(compare=False)
    chosen_weights: Setting | None = field(default=None, compare=False)  # `pretrained` or `weights`, as it was said


@dataclass(frozen=True, slots=True)
class Steps:
    """A pipeline of transforms."""

    stages: tuple[Invocation, ...]
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Data:
    """The data set, how it is divided, and what happens to each item."""

    source: Invocation
    split: Invocation
    train: Steps | None
    eval: Steps | None
    sampler: Invocation
    workers: Invocation
    on_bad_file: Invocation
    tokenize: Invocation | None
    classes: int | None
    channels: int | None = None
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Freeze:
    layers: Selector
    norms: str
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unfreeze:
    layers: Selector
    at: Setting | None  # after how many epochs; None from the beginning
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Reinit:
    layers: Selector
    how: str
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Technique:
    """Any other technique: its card says what it does."""

    invocation: Invocation


AnyTechnique = Freeze | Unfreeze | Reinit | Technique


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with optimizer settings of their own."""

    layers: Selector
    settings: tuple[Setting, ...]
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Optimizer:
    invocation: Invocation
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Override:
    hook: str
    function: UserDefinition
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of training, complete: what the recipe says for every phase is already in it."""

    name: str
    epochs: Setting
    techniques: tuple[AnyTechnique, ...]
    loss: Invocation
    optimizer: Optimizer
    schedule: Invocation
    early_stop: Invocation | None
    overrides: tuple[Override, ...]
    keeps_optimizer: bool
    precision: str | None  # where it has its own
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of the recipe, and the value it has now."""

    name: str
    type: str
    choices: tuple[str, ...]
    value: Any
    help: str
    origin: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class UserModule:
    """An imported file or package of the user's."""

    alias: str
    target: str
    is_file: bool
    place: Path | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A whole, checked recipe."""

    name: str
    modules: tuple[UserModule, ...]
    args: tuple[Arg, ...]
    model: Model
    data: Data
    metrics: tuple[Invocation, ...]
    phases: tuple[Phase, ...]
    train: Invocation
    checkpoint: Invocation
    logs: tuple[Invocation, ...]
    output: FilePath
    output_origin: Origin = field(compare=False)
    sweeps: tuple[Invocation, ...] = ()
