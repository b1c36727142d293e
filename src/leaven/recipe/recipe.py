"""The typed recipe: every default filled in, and the origin of each choice.

Only the checker builds these values, so a `Recipe` has passed all checks. All are frozen.
"""

from collections.abc import Iterable
from dataclasses import field, fields
from functools import cached_property
from typing import Self, get_args

from leaven.catalog.layers import LayerParameter, Layers
from leaven.catalog.selectors import Selection
from leaven.catalog.traits import ModelTraits
from leaven.catalog.values import (
    Arg,
    FilePath,
    Invocation,
    Origin,
    Quantity,
    Setting,
    UserDefinition,
    UserModule,
    Written,
)
from leaven.language.record import Record
from leaven.recipe.task import Task

BACKBONE = "weights_backbone"  # the argument of torchvision's detectors


class Fixed(Record):
    """A statement whose settings are the same in every recipe: each is a field.

    The part of a recipe that has it has a field of its name, by which it is read and shown.
    """

    statement: Invocation = field(compare=False)  # as it is shown

    @classmethod
    def read(cls, statement: Invocation) -> Self:
        names = [each.name for each in fields(cls) if each.name != "statement"]
        return cls(statement, **{name: statement[name] for name in names})


def fixed_statements(part: type[Record]) -> dict[str, type[Fixed]]:
    """The fixed statements that a part of a recipe has, or may have, by name."""
    types = {each.name: next(iter(get_args(each.type)), each.type) for each in fields(part)}  # type: ignore[arg-type]
    return {name: kind for name, kind in types.items() if isinstance(kind, type) and issubclass(kind, Fixed)}


class NewHead(Record):
    """The head is replaced by a new one for the data; `path` names it if the model does not tell."""

    path: str | None = None


class KeepHead(Record):
    """The head stays as it was trained."""


class Model(Record):
    """A model to reuse or to train: one call, or a pipeline of components."""

    source: Invocation | tuple[Invocation, ...]
    pretrained: bool
    weights: FilePath | None
    head: NewHead | KeepHead
    origin: Origin = field(compare=False)
    chosen_weights: Setting | None = field(default=None, compare=False)  # `pretrained` or `weights`, as written
    layers: Layers | None = field(default=None, compare=False)  # with the head fitted; None where they are not known

    @property
    def traits(self) -> ModelTraits:
        """The traits of the model that one call builds; none where it is a pipeline."""
        return self.source.card.model if isinstance(self.source, Invocation) else ModelTraits()

    @property
    def has_weights(self) -> bool:
        """Whether it starts from trained weights, if only those of its backbone."""
        return self.pretrained or self.weights is not None or self.has_published_backbone

    @property
    def has_published_backbone(self) -> bool:
        """Whether the backbone of a detector starts from published weights, and the rest from scratch."""
        return isinstance(self.source, Invocation) and self.source.value(BACKBONE) is not None


class Transforms(Record):
    """A pipeline of transforms."""

    stages: tuple[Invocation, ...]
    origin: Origin = field(compare=False)


class Split(Fixed):
    """The shares of the splits, None where the data decides."""

    train: Setting
    val: Setting
    test: Setting
    seed: Setting

    @property
    def is_written(self) -> bool:
        return isinstance(self.statement.origin, Written)


class Workers(Fixed):
    """How many processes load batches."""

    count: Setting


class OnBadFile(Fixed):
    """How files that can't be read are treated."""

    action: Setting


class Data(Record):
    """The dataset, and the statements of its block in the order in which they are shown."""

    source: Invocation
    split: Split
    train: Transforms | None
    eval: Transforms | None
    tokenize: Invocation | None
    sampler: Invocation
    workers: Workers
    on_bad_file: OnBadFile
    task: Task
    target: tuple[Setting, ...]  # the arguments by which the recipe asks for the task
    outputs: int | None  # how many the model needs, where that is known
    channels: int | None = None
    size: tuple[int, int] | None = None
    splits: tuple[str, ...] = ()  # that it comes with, where that is known
    samples: tuple[int, int, int] | None = field(default=None, compare=False)  # in train, val and test, where known


class Freeze(Record):
    layers: Selection
    norms: str
    origin: Origin = field(compare=False)


class Unfreeze(Record):
    layers: Selection
    at: Setting | None  # after how many epochs; None from the beginning
    origin: Origin = field(compare=False)


class Reinit(Record):
    layers: Selection
    method: str
    origin: Origin = field(compare=False)


class Technique(Record):
    """Any other technique: its card says what it does."""

    invocation: Invocation


AnyTechnique = Freeze | Unfreeze | Reinit | Technique


class Group(Record):
    """Layers with optimizer settings of their own."""

    layers: Selection
    settings: tuple[Setting, ...]
    origin: Origin = field(compare=False)


class Optimizer(Record):
    invocation: Invocation
    groups: tuple[Group, ...] = ()


class Adapter(Record):
    """An adapter, and the weights that it adapts. It stays in later phases."""

    invocation: Invocation
    weights: tuple[LayerParameter, ...] | None  # None where it is not known which
    added: int  # parameters that it adds


class Pruning(Record):
    """A pruning, and the parameters that it may remove. What it removes stays removed in later phases."""

    invocation: Invocation
    parameters: frozenset[str] | None  # None where the model's layers are not known
    removes_channels: bool  # whole channels; otherwise it masks individual weights


class Unfreezing(Record):
    """Parameters that are frozen when a phase begins, and trainable after some of its epochs."""

    parameters: frozenset[str]
    at: Setting
    origin: Origin


class FrozenBy(Record):
    """A statement that freezes, and all the parameters that it selects."""

    parameters: frozenset[str]
    origin: Origin


class WithoutEffect(Record):
    """An `unfreeze` that does nothing: none of its layers is frozen, or a later statement replaces it."""

    origin: Origin
    replaced_by: Origin | None = None


class Freezing(Record):
    """Which parameters are frozen in which epoch of a phase; rules, plan, program and `inspect` all read this."""

    frozen: frozenset[str] = frozenset()  # for the whole phase
    later: tuple[Unfreezing, ...] = ()  # disjoint from each other and from `frozen`
    norms_on: frozenset[str] = frozenset()  # frozen by `norms=train`: normalisation statistics are still updated
    dropout_on: frozenset[str] = frozenset()  # frozen because of an adapter alone: dropout stays on
    causes: tuple[FrozenBy, ...] = ()
    origins: tuple[Origin, ...] = ()  # of all that decides what is frozen for the whole phase
    without_effect: tuple[WithoutEffect, ...] = ()

    @property
    def at_first(self) -> frozenset[str]:
        """The parameters that are frozen when the phase begins."""
        return self.frozen.union(*(one.parameters for one in self.later))


class Override(Record):
    hook: str
    function: UserDefinition
    origin: Origin = field(compare=False)


class EarlyStop(Fixed):
    """When a phase ends early: `score` has not improved by `at_least` for as long as `patience`."""

    score: Setting
    patience: Setting
    at_least: Setting


class Phase(Record):
    """One phase of training, complete with what the recipe says for all phases."""

    name: str
    epochs: Setting
    techniques: tuple[AnyTechnique, ...]
    loss: Invocation
    optimizer: Optimizer
    schedule: Invocation
    overrides: tuple[Override, ...]
    keeps_optimizer: bool
    precision: str | None  # where it has its own
    origin: Origin = field(compare=False)
    freezing: Freezing | None = field(compare=False)  # None where the model's layers are not known
    adapters: tuple[Adapter, ...] = field(compare=False)  # its own, and those that earlier phases left
    prunings: tuple[Pruning, ...] = field(compare=False)  # its own
    early_stop: EarlyStop | None

    @property
    def trains(self) -> bool:
        """Whether there is a training loop; a phase of 0 epochs only prepares the model.

        If the number of epochs depends on an `arg`, there is a loop, whatever its value is now.
        """
        return self.epochs.syntax is not None or self.epochs.value != Quantity(0, "epochs")

    @cached_property
    def calls(self) -> tuple[Invocation, ...]:
        """Its techniques, without `freeze`, `unfreeze` and `reinit`."""
        return tuple(one.invocation for one in self.techniques if isinstance(one, Technique))

    @property
    def solver(self) -> Invocation | None:
        """The technique by which the head is solved, in place of a training loop."""
        return solver_among(self.techniques)


def solver_among(techniques: Iterable[AnyTechnique]) -> Invocation | None:
    """The technique that solves the head, if one of them does."""
    calls = (technique.invocation for technique in techniques if isinstance(technique, Technique))
    return next((call for call in calls if call.value(call.card.technique.solver) is not None), None)


class Train(Fixed):
    """The settings of the training loop. How long it is, its phases say."""

    batch: Setting
    precision: Setting
    seed: Setting
    accumulate: Setting
    clip: Setting
    devices: Setting
    strategy: Setting
    threads: Setting
    compile: Setting
    cache: Setting
    exact: Setting
    deterministic: Setting


class Checkpoint(Fixed):
    """How often a run is saved, what it keeps, and by which score it tells the best epoch."""

    every: Setting
    keep: Setting
    by: Setting


class Watch(Fixed):
    """Which layers are measured during training, None for some of all stages, and how often; None for never."""

    layers: Setting
    every: Setting


class Recipe(Record):
    """A checked recipe."""

    name: str
    modules: tuple[UserModule, ...]
    args: tuple[Arg, ...]
    model: Model
    data: Data
    metrics: tuple[Invocation, ...]
    phases: tuple[Phase, ...]
    train: Train
    checkpoint: Checkpoint
    watch: Watch
    logs: tuple[Invocation, ...]
    output: FilePath
    output_origin: Origin = field(compare=False)
    sweeps: tuple[Invocation, ...] = ()
    summary: str = field(default="", compare=False)  # the comment that it begins with
