"""The plan: what a program will do, step by step, each step with the reasons for it.

A plan is closed: whoever has it needs neither the recipe nor a card. It knows no Python text. `plan_json.py` writes it
to a file and reads it back, and both halves read it: the room `program` writes it as a program, bundles and failure
reports ask it what was done.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar, Literal

from leaven.plan.values import Argument, Because, Bound, Call, Part, Plain, Value

Reasons = tuple[Because, ...]

# -- the model


class HubWeights(Part):
    """Weights that the library's authors published, fetched by the library itself."""

    tag: str | None = None


class StarterWeights(Part):
    """Weights in an installed package."""

    package: str


class FileWeights(Part):
    """Weights in a file of the user's."""

    file: Value
    text: str = field(compare=False)  # the file as the recipe names it


Weights = HubWeights | StarterWeights | FileWeights


class Chain(Part):
    """A model of components, one after the other."""

    components: tuple[Call, ...]


class PublishedInputs(Part):
    """The images that a published model was trained on."""

    size: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


class StoredInputs(Part):
    """A file that says which images its model was trained on, if it does."""

    file: Value


Maker = Literal["timm", "torchvision", "transformers", "components", "bundle", "user"]


class BuildModel(Part):
    """How the model is built, filled with weights, and its head fitted. `new` are the layers that are not loaded."""

    source: Call | Chain
    weights: Weights | None
    new: tuple[str, ...]
    replaced_head: str | None  # the layer that is put in place of the published head, where no argument does it
    fitted_head: Call | None  # what fits a head that is more than a layer, where no argument does it
    removes_auxiliary_heads: bool
    inputs: PublishedInputs | StoredInputs | None
    by: Maker
    because: Reasons = field(compare=False)
    because_weights: Reasons = field(compare=False)

    @property
    def name(self) -> str:
        """The name under which its library has it: `resnet18`."""
        if isinstance(self.source, Chain):
            return ""
        return str(self.source.arguments[0].value) if self.by == "timm" else self.source.name


# -- the data


class Transforms(Part):
    """The transforms of an item."""

    calls: tuple[Call | Bound, ...]
    text: str = field(compare=False)  # in the recipe's words
    because: Reasons = field(compare=False)
    random: tuple[str, ...] = ()  # those that draw random numbers
    own: tuple[str, ...] = ()  # those that are the user's code
    is_tokenizing: bool = False  # whether items are texts, which a tokenizer prepares


class StoreDecoded(Part):
    """Decode the images of a split once, apply the first transforms, and store the result."""

    split: str
    transforms: int
    text: str = field(compare=False)  # what these do: " and resized"
    approximate: Argument | None = None  # where files that become smaller are decoded at a smaller size


class ReadData(Part):
    """Where the items come from, how they are split, what is done to each, and how batches are made of them."""

    source: Call
    matching: Call | None  # of labels with the outputs of a published head
    split: Call
    has_test: bool
    train: Transforms
    eval: Transforms
    loading: tuple[Argument, ...]
    samples: tuple[int, int, int] | None = None  # in train, val and test, where the data told
    images_in: Literal["", "files", "memory"] = ""  # where the images are in a run; empty where that is unknown
    decoded: tuple[StoreDecoded, ...] = ()
    measured_batch: Argument | None = None  # where the size of batches is chosen by measurement
    table: str = ""  # the format of the table that it is read from: csv, tsv, jsonl, parquet
    is_user: bool = False  # whether the dataset is the user's code

    @property
    def noun(self) -> str:
        """The word for an item: image or text."""
        return "text" if self.eval.is_tokenizing else "image"

    @property
    def is_same(self) -> bool:
        """Whether training and evaluation treat an item alike."""
        return self.train == self.eval


# -- phases


class FreezeLayers(Part):
    """Freeze parameters for the whole phase: those under the given paths, or all but these."""

    paths: tuple[str, ...]
    is_all_but: bool
    norms: str | tuple[str, ...]  # their statistics: "frozen", "train" (updated), or updated in these layers
    dropout: str | tuple[str, ...]  # off, on, or on in these layers, which are frozen because of an adapter alone
    has_adapters: bool  # they are never frozen
    counts: tuple[int, int] | None  # of trainable parameters and of all, with adapters; None after channels were pruned
    because: Reasons = field(compare=False)
    has_first_layer: bool = True  # whether they begin with the layer that sees the images, as far as is known

    @property
    def arguments(self) -> dict[str, bool | str | tuple[str, ...]]:
        """The arguments of `leaven.runtime.freeze`, where they differ from its defaults."""
        named: dict[str, bool | str | tuple[str, ...]] = {"all_but" if self.is_all_but else "only": self.paths}
        if self.norms != "frozen":
            named["norms"] = self.norms
        if self.dropout != "off":
            named["keep_dropout"] = True if self.dropout == "on" else self.dropout
        return named

    @property
    def counted(self) -> str:
        """`; 12,810 of 3,383,818 parameters trainable`, where that is known."""
        return f"; {self.counts[0]:,} of {self.counts[1]:,} parameters trainable" if self.counts is not None else ""


class UnfreezeLater(Part):
    """Freeze parameters at first, and unfreeze them after some epochs."""

    paths: tuple[str, ...]
    at: Argument
    norms: str | tuple[str, ...]  # of all that is unfrozen later in the phase
    because: Reasons = field(compare=False)


class Reinitialise(Part):
    """Give parameters new random values."""

    paths: tuple[str, ...]
    method: str
    because: Reasons = field(compare=False)


class EarlierModel(Part):
    """The model itself, frozen, as it was when a phase of the recipe began."""

    phase: str


class UseTechnique(Part):
    """A technique of a phase. In its call, layers are paths; `models` are the arguments that are models."""

    name: str
    call: Call
    hooks: tuple[str, ...]
    wants: tuple[str, ...]
    models: tuple[tuple[str, BuildModel | EarlierModel], ...] = ()
    layers: tuple[str, ...] = ()  # the ones that it changes, where it changes the model
    stages: tuple[tuple[str, ...], ...] = ()  # from the stem to the head, where the technique asks for them
    is_adapter: bool = False
    is_merged: bool = False  # whether it becomes part of the weights at the end
    changes: str = ""  # the input, the loss, the model, … as its card says
    compares_features: bool = False  # by looking into layers as they run
    asks_once: bool = False  # its teacher, about every image of training
    remarks: tuple[tuple[str, str], ...] = ()  # what hooks do whose names don't say it


class ParameterGroup(Part):
    """Parameters with optimizer settings of their own."""

    paths: tuple[str, ...]
    settings: tuple[Argument, ...]
    because: Reasons = field(compare=False)


class UseOptimizer(Part):
    call: Call  # without the parameters
    groups: tuple[ParameterGroup, ...]
    needs_closure: bool  # computes loss and gradient itself, several times in a step
    is_second_order: bool  # differentiates the gradient


class UseSchedule(Part):
    call: Call
    stepped_by: str  # step, epoch, score
    score: str  # by which it is stepped
    warms_up: bool


class SolveHead(Part):
    """Find the weights of the head at once, in place of training with an optimizer and a schedule."""

    settings: tuple[Argument, ...]  # of the solver
    text: str = field(compare=False)
    because: Reasons = field(compare=False)


class EarlyStop(Part):
    score: str
    settings: tuple[Argument, ...]
    text: str = field(compare=False)
    because: Reasons = field(compare=False)


class Override(Part):
    """A function of the user's in place of a part of the loop."""

    hook: str
    function: str
    because: Reasons = field(compare=False)


class TrainPhase(Part):
    """A stretch of training."""

    name: str
    epochs: Argument
    steps: tuple[Reinitialise | UseTechnique, ...]  # in the order of the recipe
    trains: bool  # whether there is a training loop, or the phase only prepares the model
    freeze: FreezeLayers | None
    unfreeze_later: tuple[UnfreezeLater, ...]
    unfreezes_all: bool  # whether a freeze of the phase before ends here and nothing is frozen
    loss: Call | Bound
    loss_has_tensors: bool  # which must be on the device
    loss_by_model: bool  # the model gets the targets, too, and returns its losses by name
    optimizer: UseOptimizer
    schedule: UseSchedule
    early_stop: EarlyStop | None
    overrides: tuple[Override, ...]
    accumulate: Argument | None  # batches per step, where it is not one
    clip: Argument | None
    precision: Argument | None  # where the phase has its own
    compile: Argument | None
    is_last: bool
    is_remembered: bool  # whether a later phase asks for the model as it is when this one begins
    takes_optimizer: bool  # whether what the optimizer of the phase before gathered goes on
    gives_optimizer: bool
    because: Reasons = field(compare=False)
    stored: tuple[str, ...] = ()  # the splits for which the frozen layers run once per image
    solver: SolveHead | None = None  # where the head is solved: then optimizer and schedule are not used
    views: Argument | None = None  # how many augmented views of an image training uses, where they are limited
    measured: tuple[Argument, ...] = ()  # the settings that are chosen by measurement
    approximate: Argument | None = None  # where outputs are stored that are slightly different

    @property
    def techniques(self) -> tuple[UseTechnique, ...]:
        return tuple(step for step in self.steps if isinstance(step, UseTechnique))

    @property
    def preparations(self) -> tuple[Reinitialise | UseTechnique, ...]:
        """The steps that change the model before anything is trained."""
        return tuple(step for step in self.steps if isinstance(step, Reinitialise) or "on_model" in step.hooks)

    @property
    def stops(self) -> tuple[EarlyStop, ...]:
        """The settings that may end it before its epochs are over."""
        return () if self.early_stop is None else (self.early_stop,)

    @property
    def has_own_loss(self) -> bool:
        """Whether the loss is an object of the user's, which may have state; functions have none."""
        return isinstance(self.loss, Call) and self.loss.is_user and not self.loss_by_model

    def override(self, hook: str) -> Override | None:
        return next((override for override in self.overrides if override.hook == hook), None)


# -- the whole


class WatchLayers(Part):
    """Measure layers during training: their gradients, updates and activations."""

    paths: tuple[str, ...]
    every: Argument  # how many steps
    because: Reasons = field(compare=False)


class Metric(Part):
    """A metric under the name by which it is recorded."""

    name: str
    call: Call
    lower_is_better: bool


def is_lower_better(score: str, metrics: Iterable[Metric]) -> bool:
    """Whether a score is a loss, or that of a metric that counts errors."""
    name = score.rpartition(".")[2]
    return name == "loss" or any(metric.name == name and metric.lower_is_better for metric in metrics)


class ProgramArg(Part):
    """An argument of the program's command line; it is required where `default` is None."""

    name: str
    type: str
    choices: tuple[str, ...]
    default: Plain
    help: str
    because: Reasons = field(compare=False)


class UserModule(Part):
    """The user's code: a file, or an installed module."""

    alias: str
    target: str
    is_file: bool


class ClassOutputs(Part):
    """An output for each class of the data."""

    variable: ClassVar[str] = "num_classes"  # the name of their number in programs


class NumberOutputs(Part):
    """An output for each number, or for each yes or no."""

    variable: ClassVar[str] = "num_outputs"


class VocabularyOutputs(Part):
    """An output for each token of a tokenizer's vocabulary."""

    variable: ClassVar[str] = "vocabulary_size"


Outputs = ClassOutputs | NumberOutputs | VocabularyOutputs


class Task(Part):
    """The task of the model: the module of `leaven.tasks`, and the outputs that it needs."""

    name: str
    predicts: Outputs
    moves_targets: bool = False  # whether transforms get the targets with the image, and move both
    has_eval_loss: bool = True
    has_one_class: bool = True  # whether a target is the index of a class

    @property
    def outputs(self) -> str:
        """The name of the number of outputs in programs."""
        return self.predicts.variable


class Trial(Part):
    """A run of a sweep: the values of its `arg`s."""

    values: tuple[tuple[str, Plain], ...]


class Sweep(Part):
    """The same program run several times, with other values of its arguments; the best trial gives the model."""

    trials: tuple[Trial, ...]
    by: str  # the score by which they are compared
    lower_is_better: bool
    because: Reasons = field(compare=False)
    together: bool = False  # whether one process trains them


class Choice(Part):
    """A decision of the planner, for a phase or for the whole plan, and its reason."""

    about: str  # what could be done in several ways: "frozen layers"
    phase: str
    asked: str  # the way that the recipe describes
    chosen: str
    reason: str


class Plan(Part):
    """Everything that a program does, in order."""

    name: str
    summary: str
    task: Task
    user_modules: tuple[UserModule, ...]
    args: tuple[ProgramArg, ...]
    output: Argument
    run: Call  # without the arguments of the command line
    deterministic: Argument | None  # where only deterministic algorithms are used
    monitor: str  # the score that says which epoch was the best
    data: ReadData
    model: BuildModel
    metrics: tuple[Metric, ...]
    phases: tuple[TrainPhase, ...]
    sweep: Sweep | None = None
    caches: bool = True  # whether something may be computed once and stored
    approximate: Argument | None = None  # where what is stored may be slightly different
    watch: WatchLayers | None = None
    choices: tuple[Choice, ...] = ()  # of the planner
    asked: "Plan | None" = field(default=None, compare=False)  # the plan before the planner's passes

    @property
    def epochs(self) -> int | None:
        """The epochs of all phases; None where an `arg` decides."""
        counts = [phase.epochs.value for phase in self.phases]
        known = [count for count in counts if isinstance(count, int)]
        return sum(known) if len(known) == len(counts) else None

    def checkpoint(self, name: str) -> Argument | None:
        """How often checkpoints are saved (`epochs`, `steps`, `minutes`) or kept (`keep`), where the recipe says."""
        policy = self.run.argument("checkpoint")
        return policy.value.argument(name) if policy is not None and isinstance(policy.value, Call) else None

    def __repr__(self) -> str:
        phases = ", ".join(f"{phase.name} ({phase.epochs.text})" for phase in self.phases)
        return f"<Plan of {self.name}: {phases}>"
