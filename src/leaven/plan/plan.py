"""The plan: what a program will do, step by step, each step with the reasons for it.

A plan is made of a checked recipe and of what is known about its model; it knows no Python text. `explain.py` prints
it for people, and the room `program` writes it as a program.
"""

from dataclasses import dataclass, field

from leaven.catalog.values import Invocation, Origin, Setting
from leaven.recipe.recipe import Override, Recipe

# -- the model


@dataclass(frozen=True, slots=True)
class HubWeights:
    """Those that the library's authors published, fetched by the library itself."""

    tag: str | None = None


@dataclass(frozen=True, slots=True)
class StarterWeights:
    """Those in an installed package."""

    package: str


@dataclass(frozen=True, slots=True)
class FileWeights:
    """Those in a file of the user's."""

    file: Setting


Weights = HubWeights | StarterWeights | FileWeights


@dataclass(frozen=True, slots=True)
class Call:
    """A model that one call builds: timm's, torchvision's, the user's, or the one in a bundle.

    `classes_by` is the argument that fits it."""

    invocation: Invocation
    library: str  # timm, torchvision, user, bundle
    name: str
    classes_by: str | None


@dataclass(frozen=True, slots=True)
class Chain:
    """A model of components; each comes with the number of channels that reach it."""

    stages: tuple[tuple[Invocation, int | None], ...]


@dataclass(frozen=True, slots=True)
class BuildModel:
    """How the model comes to be: built, filled, and its head fitted. `new` are the layers that start anew."""

    source: Call | Chain
    weights: Weights | None
    new: tuple[str, ...]
    replaced_head: str | None  # the layer that is put in place of the published head, where no argument does it
    because: Origin = field(compare=False)
    because_weights: Origin = field(compare=False)


# -- the data


@dataclass(frozen=True, slots=True)
class ReadData:
    """Where the items come from, how they are divided and what is done to each."""

    source: Invocation
    split: Invocation
    redivide: bool
    train: tuple[Invocation, ...]
    eval: tuple[Invocation, ...]
    is_random: bool
    because_train: Origin = field(compare=False)
    because_eval: Origin = field(compare=False)

    @property
    def is_same(self) -> bool:
        """Whether training and evaluation treat an item alike."""
        return self.train == self.eval


# -- phases


@dataclass(frozen=True, slots=True)
class FreezeLayers:
    """Freeze parameters for the whole phase: those under the given paths, or all but these."""

    paths: tuple[str, ...]
    is_all_but: bool
    norms: str  # whether normalisation statistics of frozen layers are frozen too, or go on: "train"
    dropout: str | tuple[str, ...]  # off, on, or on in these layers, which are frozen because of an adapter alone
    trainable: int  # how many parameters are trained, those of adapters included
    total: int
    because: tuple[Origin, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class UnfreezeLater:
    """Freeze parameters at first, and unfreeze them after some epochs."""

    paths: tuple[str, ...]
    at: Setting
    norms: str
    because: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Reinitialise:
    """Give parameters new random values."""

    paths: tuple[str, ...]
    how: str
    because: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class FormerSelf:
    """The model itself, still, as it was when a phase of the recipe began."""

    phase: str


@dataclass(frozen=True, slots=True)
class UseTechnique:
    """A technique of a phase. In its call, layers are paths; `models` are the arguments that a model answers."""

    invocation: Invocation
    hooks: tuple[str, ...]
    wants: tuple[str, ...]
    models: tuple[tuple[str, BuildModel | FormerSelf], ...] = ()
    layers: tuple[str, ...] = ()  # the ones that it changes, where it changes the model
    stages: tuple[tuple[str, ...], ...] = ()  # from the stem to the head, where the technique asks for them


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters with optimizer settings of their own."""

    paths: tuple[str, ...]
    settings: tuple[Setting, ...]
    because: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class TrainPhase:
    """A stretch of training."""

    name: str
    epochs: Setting
    preparations: tuple[Reinitialise | UseTechnique, ...]  # what changes the model before anything is trained
    trains: bool  # whether there is a training loop, or the phase only prepares the model
    freeze: FreezeLayers | None
    unfreeze_later: tuple[UnfreezeLater, ...]
    unfreezes_all: bool  # whether a freeze of the phase before ends here and nothing is frozen
    techniques: tuple[UseTechnique, ...]
    loss: Invocation
    optimizer: Invocation
    groups: tuple[ParameterGroup, ...]
    schedule: Invocation
    steps_schedule_by: str  # step, epoch, score
    early_stop: Invocation | None
    train_step: Override | None
    eval_step: Override | None
    after_epoch: Override | None
    is_last: bool
    is_remembered: bool  # whether a later phase asks for the model as it is when this one begins
    precision: str | None  # where the phase has its own
    takes_optimizer: bool  # whether what the optimizer of the phase before gathered goes on
    gives_optimizer: bool
    because: Origin = field(compare=False)


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric under the name by which it is recorded."""

    label: str
    invocation: Invocation
    lower_is_better: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a program does, in order."""

    recipe: Recipe
    summary: str
    data: ReadData
    model: BuildModel
    metrics: tuple[Measure, ...]
    watch: str
    phases: tuple[TrainPhase, ...]
