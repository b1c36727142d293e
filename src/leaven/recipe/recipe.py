"""The typed recipe: what is to be done, with every default filled in and the origin of each choice.

Only the checker builds these values, so whoever holds a `Recipe` may rely on all that a check promises. All are frozen;
states that make no sense can't be said.
"""

from dataclasses import dataclass, field

from leaven.catalog.selectors import Selector
from leaven.catalog.values import Arg, FilePath, Invocation, Origin, Setting, UserDefinition, UserModule


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
