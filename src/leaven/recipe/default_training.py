"""How a phase trains where the recipe does not say: learning rates, normalisation, number of epochs.

They are chosen by what is trainable and by how much data there is; docs/benchmarks.md has the measurements.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Joined, Selection, Selector, Without, Word, matching
from leaven.catalog.values import Default, Invocation, Quantity, Setting, is_written
from leaven.language.record import Record
from leaven.recipe.freezing import chooses_layers
from leaven.recipe.recipe import AnyTechnique, Freeze, Freezing, Group, Model, NewHead, Optimizer, Reinit
from leaven.recipe.task import Task

FEW_REUSED = 0.05  # of a model's parameters

SMALL_BATCH = 8  # images: too few for the statistics of normalisation
FEW_SAMPLES = 2_000  # too few to adapt the statistics of normalisation
MANY_SAMPLES = 100_000


class Rates(Record):
    """The learning rates of a kind of models."""

    new: float  # for layers that start from random values, alone or beside adapters
    reused: float
    few_reused: float  # for adapters, or normalisation and biases alone: few parameters have to move further
    new_beside: float  # for new layers beside reused ones
    scratch: float


RATES = {
    "image": Rates(new=3e-3, reused=3e-4, few_reused=1e-3, new_beside=3e-3, scratch=1e-3),
    "text": Rates(new=3e-3, reused=5e-5, few_reused=1e-3, new_beside=5e-4, scratch=3e-4),
}
_EPOCHS = {  # below so many samples, so many epochs; the last for any number
    "image": ((FEW_SAMPLES, 20), (MANY_SAMPLES, 10), (None, 5)),
    "text": ((FEW_SAMPLES, 10), (MANY_SAMPLES, 4), (None, 2)),
}


class Start(Record):
    """The start of a phase: the model's layers, and which of them have not been trained yet.

    `new` is empty for a model without trained weights, all of which is new.
    """

    has_weights: bool
    layers: Layers | None
    new: tuple[Selection, ...] = ()  # with their parameters known
    has_adapters: bool = False
    is_changed: bool = False  # by pruning or re-initialisation, so that its normalisation no longer fits
    samples: int | None = None  # for training
    input: str = "image"
    batch: int | None = None  # where the task has small batches

    @property
    def rates(self) -> Rates:
        return RATES.get(self.input, RATES["image"])

    def changed_by(self, techniques: Sequence[AnyTechnique], has_adapters: bool, is_pruned: bool) -> "Start":
        """The start of a phase whose techniques change the model first."""
        reinits = [technique.layers for technique in techniques if isinstance(technique, Reinit)]
        return replace(
            self,
            new=(*self.new, *(layers for layers in reinits if layers.parameters)) if self.has_weights else (),
            has_adapters=has_adapters,
            is_changed=self.is_changed or is_pruned or bool(reinits),
        )


def with_default_rate(optimizer: Optimizer, start: Start, freezing: Freezing | None) -> Optimizer:
    """AdamW with a learning rate where the recipe gives none; another optimizer keeps its library's default."""
    call = optimizer.invocation
    rate = call.setting("lr")
    if call.card.name != "torch.AdamW" or rate is None or is_written(rate.origin):
        return optimizer
    chosen, reason, new, rate_of_new = _rate(start, freezing)
    origin = Default(reason)
    call = call.with_setting(replace(rate, value=chosen, origin=origin))
    groups = optimizer.groups
    if new and not groups:
        assert start.layers is not None
        joined: Selector = reduce(Joined, [selection.selector for selection in new])
        selection = Selection(joined, matching(joined, start.layers))
        groups = (Group(selection, (Setting("lr", rate_of_new, origin),), origin),)
    if not is_written(call.origin):  # it is there for the same reason as its learning rate
        call = replace(call, origin=origin)
    return Optimizer(call, groups)


def _rate(start: Start, freezing: Freezing | None) -> tuple[float, str, Sequence[Selection], float]:
    """A learning rate with its reason; new layers beside others, and their rate."""
    rates = start.rates
    if not start.has_weights:
        return rates.scratch, "for training from scratch", (), 0
    if start.layers is None or freezing is None:
        return rates.reused, "for trained weights", (), 0
    sizes = {p.name: p.count for p in start.layers.parameters if p.name not in freezing.frozen}
    new = [selection for selection in start.new if not sizes.keys().isdisjoint(selection.parameters or ())]
    new_names = {name for selection in new for name in selection.parameters or ()}
    reused = sum(count for name, count in sizes.items() if name not in new_names)
    if not reused and not start.has_adapters:
        return rates.new, "for new layers", (), 0
    few = start.has_adapters or reused < FEW_REUSED * sum(p.count for p in start.layers.parameters)
    what = "adapters" if start.has_adapters else "few reused parameters" if few else "reused layers"
    reason = f"for {what}{'; new layers learn faster' * bool(new)}"
    return (rates.few_reused, reason, new, rates.new) if few else (rates.reused, reason, new, rates.new_beside)


def default_freezing(techniques: Sequence[AnyTechnique], groups: Sequence[Group], start: Start) -> tuple[Freeze, ...]:
    """`freeze norms`, where a phase says nothing about its layers and has few samples to adapt batch norms to."""
    few = start.samples is not None and start.samples < FEW_SAMPLES
    small = start.batch is not None and start.batch < SMALL_BATCH
    if not (few or small) or not start.has_weights or start.layers is None or start.has_adapters or start.is_changed:
        return ()
    selector: Selector = Word("norms")
    if matching(selector, start.layers) & matching(Word("head"), start.layers):
        selector = Without(selector, Word("head"))  # a decoder was never trained on other data
    norms = matching(selector, start.layers)
    has_batch_norms = any("BatchNorm" in p.module_type for p in start.layers.parameters)
    has_own_groups = any(group.layers.parameters and group.layers.parameters <= norms for group in groups)
    if not has_batch_norms or has_own_groups or any(map(chooses_layers, techniques)):
        return ()
    reason = f"batches of {start.batch} images are too small for batch norms"
    if few:
        reason = f"{start.samples:,} training samples are too few for batch norms"
    return (Freeze(Selection(selector, norms), "frozen", Default(reason)),)


def default_epochs(train: Invocation, samples: int | None, input: str) -> Invocation:
    """The `train` statement, with more epochs over few samples, and fewer over many, unless it says how many."""
    if samples is None or is_written(train["epochs"].origin):
        return train
    known = _EPOCHS.get(input, _EPOCHS["image"])
    epochs = next(epochs for below, epochs in known if below is None or samples < below)
    return train.with_setting(Setting("epochs", Quantity(epochs, "epochs"), Default(f"{samples:,} training samples")))


def default_batch(train: Invocation, task: Task) -> Invocation:
    """The `train` statement with the task's own size of batches, unless it says how many images a batch has."""
    if task.traits.batch is None or is_written(train["batch"].origin):
        return train
    return train.with_setting(Setting("batch", task.traits.batch, Default(f"usual for {task.title}")))


def start_of(model: Model | None, samples: int | None, input: str, batch: int | None) -> Start:
    """The start of the first phase."""
    if model is None:
        return Start(has_weights=False, layers=None)
    new: tuple[Selection, ...] = ()
    if model.has_weights and isinstance(model.head, NewHead) and model.layers is not None:
        new = (Selection(Word("head"), matching(Word("head"), model.layers)),)
    return Start(model.has_weights, model.layers, new, samples=samples, input=input, batch=batch)
