"""The traits of each kind of card, one class per kind.

A card holds the traits of its kind (`Card.traits`). Every field has a default that means "nothing special", so that a
card file names only what differs, and so that nothing is claimed about a definition in the user's code. They are named
tuples because every command imports them, and Python makes those eight times faster than dataclasses.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from leaven.formats.target_kind import TargetKind
from leaven.formats.text_models import Pooling

NONE: Mapping[str, Any] = {}
USUAL_SHARE = 0.875  # of the resized image that is left by a crop in the centre

Input = Literal["image", "text"]
Predicts = Literal["classes", "numbers", "vocabulary"]  # what a model has an output for
ImagesIn = Literal["", "files", "memory"]  # where the images of a dataset are in a run; empty where that is unknown


class Condition(NamedTuple):
    """Holds where a parameter has one of the values; without values, where it has any but none."""

    parameter: str
    values: tuple[str, ...] = ()

    def is_met_by(self, value: Any) -> bool:
        """Whether it holds where the parameter has that value."""
        return value in self.values if self.values else value is not None


class StatementRules(NamedTuple):
    """Where a statement may be written, how often, and what its absence means."""

    block: Literal["", "data", "optimizer", "phase", "changed"] = ""  # whose statements its block holds
    once: bool = False
    required: bool = False
    example: str = ""  # for the report that a required one is missing
    default: str = ""  # what is assumed where it is not written
    in_phase: bool = False  # may be written in a phase, too
    is_technique: bool = False
    changes_model: bool = False
    key: str = ""  # the parameter that distinguishes several statements of the same name


class TechniqueTraits(NamedTuple):
    """The effects of a technique on training."""

    changes: Literal["", "input", "activations", "loss", "gradient", "weights", "model"] = ""
    cost: str = ""
    once: bool = False  # at most once in a phase
    hooks: tuple[str, ...] = ()  # the methods that a program calls
    wants: tuple[str, ...] = ()  # what its constructor takes from the program
    remarks: Mapping[str, str] = NONE  # what its hooks do, where their docstrings say it
    hooks_only_if: Mapping[str, Condition] = NONE
    inputs: tuple[Input, ...] = ()  # the only inputs it is for; empty for all
    targets: tuple[TargetKind, ...] = ()  # the only targets it is for; empty for all
    conflicts: Mapping[str, str] = NONE  # another technique, and why not both
    trains_only: tuple[str, ...] = ()  # selector words for what stays trainable; all else is frozen
    unfreezes: Literal["", "backbone", "stages"] = ""  # in the course of the phase; until then it is frozen
    unfreezes_after: str = ""  # the parameter that says when
    solver: str = ""  # the parameter that asks for the head to be solved, in place of training
    stores_views: str = ""  # the parameter that says how many augmented views of an image are used
    is_adapter: bool = False
    adds_per_output: int = 0  # parameters that an adapter adds for each output of a layer, besides those of its rank
    default_layers: str = ""  # the selector word for its layers where the recipe names none
    blends_labels: bool = False
    balances_classes: bool = False
    resizes_images: bool = False
    needs_residual_branches: bool = False
    compares_features: bool = False
    loss_share: str = ""  # the parameter that says how much of the loss is the teacher's


class WeightsPackage(NamedTuple):
    """A Python package that holds pre-trained weights."""

    name: str
    file: str  # from a folder of Python's path


class ModelTraits(NamedTuple):
    """Facts about a model before it is built. Sizes are height and width, in pixels."""

    task: str = "image-classification"
    # By a call of torchvision or timm; as a bundle says; as the trained model was when a phase began; or by a
    # configuration, which tells the labels and comes with a tokenizer. Only the first and the last can be trained.
    loads: Literal["library", "bundle", "earlier_phase", "transformers"] = "library"
    timm_name: str = ""
    classes: int | None = None  # that it was published with
    input_size: tuple[int, int, int] | None = None  # with the channels first
    has_fixed_input_size: bool = False
    smallest_input: int = 1
    resize: int | None = None  # the shorter side before the crop
    crop_fraction: float | None = None  # the size of the crop by that of the resized image
    is_squashed: bool = False  # images are resized to a square, whatever their shape
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    interpolation: str = "bilinear"
    license: str = ""
    has_auxiliary_outputs: bool = False
    has_own_backbone: bool = False  # a part whose weights are published, too, and loaded unless it is told not to
    backbone_layers: int | None = None  # that a library freezes some of, unless it is told to train all
    parameters: int | None = None  # as it was published
    has_weights: bool = True
    weights: Mapping[str, Mapping[str, Any]] = NONE  # a tag, and the fields that it changes
    tag: str | None = None  # of the chosen weights
    weights_package: WeightsPackage | None = None
    pooling: Pooling = ""  # in a text model

    def shorter_side(self, size: tuple[int, int]) -> int:
        """The shorter side of an image before the crop to a size."""
        if self.resize and self.input_size and size == self.input_size[1:]:
            return self.resize
        return int(min(size) / (self.crop_fraction or USUAL_SHARE))  # rounded down, as timm does

    def tagged(self, tag: str) -> "ModelTraits":
        """The same architecture with certain published weights."""
        timm_name = f"{self.timm_name}.{tag}" if self.timm_name else ""
        return self._replace(tag=tag, timm_name=timm_name, **self.weights[tag])


class DataTraits(NamedTuple):
    """Facts about a dataset before it is read."""

    task: str = "image-classification"
    task_by_argument: Mapping[str, str] = NONE
    on_disk: str = ""  # what looks at its files; columns are chosen by the arguments that the tasks add
    has_labels: bool = True  # whether its labels are known without a word on columns
    has_columns: bool = True  # whether the arguments of the tasks may choose other labels
    endings: tuple[str, ...] = ()  # of the names of its tables
    classes: int | None = None
    class_names: tuple[str, ...] = ()
    channels: int | None = None
    size: tuple[int, int] | None = None  # None where images differ in size
    images_in: ImagesIn = ""
    splits: tuple[str, ...] = ()
    split_arguments: Mapping[str, Mapping[str, Any]] = NONE
    samples: Mapping[str, int] = NONE  # how many each split has; all of them, under '', where there are no splits
    is_safe_to_augment: bool = False  # a flipped or cropped image keeps its label
    skips_bad: bool = False  # whether `on_bad_file` is also about what is wrong with its labels
    license: str = ""


class TransformTraits(NamedTuple):
    is_random: bool = False


class LossTraits(NamedTuple):
    targets: tuple[TargetKind, ...] = ("class", "number", "binary")  # that it compares outputs with
    takes_soft_labels: bool = True
    by_model: bool = False  # the model gets the targets, too, and returns its losses by name


class MetricTraits(NamedTuple):
    targets: tuple[TargetKind, ...] = ("class", "number", "binary")  # that it compares outputs with
    higher_is_better: bool | None = None
    is_single_number: bool = True
    scores: tuple[str, ...] = ()  # the numbers that it gives, by name, where these are several
    supplied: tuple[str, ...] = ()  # the arguments that the program gives, as the task says: `task`, `num_classes`


class SamplerTraits(NamedTuple):
    targets: tuple[TargetKind, ...] = ()  # the only targets it is for; empty for all


class TaskTraits(NamedTuple):
    """The demands of a task on a recipe. Its parameters are those of the data statement that ask for the task."""

    is_default: bool = False  # whether it is meant where neither the data nor the recipe asks for one
    title: str = ""  # in words, with `{input}` for what it is about: "{input} classification"
    labels: str = ""  # what its targets are, in words: "class labels"
    target_kind: TargetKind = "class"
    predicts: Predicts = "classes"
    reader: str = ""  # the class in the task's `target.py` that reads the labels of the data
    outputs: str = "classes"  # what programs call the number of outputs
    models: str = "classification"  # the task that its models are published for
    backbones: str = ""  # the task of models of timm whose features it takes, under a head of its own
    example: str = ""  # one of them, for reports, where it is not the usual one
    sources: str = ""  # the data statements that read its annotations, where libraries have them only as they are
    loss: str = ""  # the default statement
    metrics: str = ""  # the default statement
    metric_arguments: Mapping[str, Any] = NONE  # of torchmetrics; "outputs" stands for their number
    augmentation: tuple[Literal["crop", "flip"], ...] = ()  # random transforms that leave the target as it is
    stratified_by: str = ""  # how the data is split by default, in words
    samples: str = ""  # the class in its `code.py` that makes batches, if it has one
    moves_targets: bool = False  # whether targets have a place in the image, and transforms move both
    fits_head: str = ""  # the function in its `code.py` that fits the head of a model with weights, if it has one
    fits_backbone: str = ""  # the one for features of `backbones`
    extra_outputs: int = 0  # that a model has besides those of the names: the background
    has_eval_loss: bool = True  # whether evaluation computes a loss
    criterion: str = ""  # the class in its `code.py` that applies a loss to what its published models return
    model_resizes: bool = False  # whether models take images of any size, and resize them
    batch: int | None = None  # how many images a batch has by default


class OptimizerTraits(NamedTuple):
    needs_closure: bool = False  # computes loss and gradient itself, several times in a step
    is_second_order: bool = False  # differentiates the gradient


class ScheduleTraits(NamedTuple):
    stepped_by: Literal["step", "epoch", "score"] = "epoch"
    needs_total_steps: bool = False


class PruningTraits(NamedTuple):
    shrinks_model: bool = False  # removes channels; otherwise weights become zero


class ComponentTraits(NamedTuple):
    """Input and output of a component. Channels and stride are given by the parameter of that name."""

    input_form: Literal["image", "vector", "any"] = "any"
    output_form: Literal["image", "vector", "same"] = "same"
    takes_in_channels: bool = False
    out_channels: str = ""
    downsamples_by: str = ""
    flattens: bool = False


class Definition(NamedTuple):
    """A class or function in the user's code, as far as its source tells."""

    form: Literal["class", "function", "unknown"] = "unknown"
    bases: tuple[str, ...] = ()
    hook_arguments: Mapping[str, tuple[float, float]] = NONE  # how many, at least and at most
    other_methods: tuple[str, ...] = ()
    technique: TechniqueTraits = TechniqueTraits()


class NoTraits(NamedTuple):
    """Kinds without traits."""


_OfLibraries = ModelTraits | DataTraits | TransformTraits | LossTraits | MetricTraits | OptimizerTraits | ScheduleTraits
_OfLeaven = StatementRules | TechniqueTraits | ComponentTraits | PruningTraits | SamplerTraits | TaskTraits | NoTraits
Traits = _OfLibraries | _OfLeaven | Definition
BY_KIND: dict[str, type[Traits]] = {
    "statement": StatementRules,
    "technique": TechniqueTraits,
    "model": ModelTraits,
    "component": ComponentTraits,
    "data": DataTraits,
    "transform": TransformTraits,
    "loss": LossTraits,
    "metric": MetricTraits,
    "optimizer": OptimizerTraits,
    "schedule": ScheduleTraits,
    "sampler": SamplerTraits,
    "logger": NoTraits,
    "range": NoTraits,
    "pruning": PruningTraits,
    "task": TaskTraits,
    "user": Definition,
}


def as_tuples(value: Any) -> Any:
    """A value of TOML or JSON with its lists as tuples."""
    if isinstance(value, list):
        return tuple(as_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: as_tuples(item) for key, item in value.items()}
    return value
