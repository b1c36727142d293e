"""Techniques against what surrounds them in a phase: the way of stepping, the length, the model, the data.

What two techniques say against each other is in `conflicts.py`.
"""

from collections.abc import Sequence

from leaven.binding.scope import Scope
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Quantity, Setting, Written
from leaven.language.diagnostics import Spot
from leaven.recipe.models import ModelFacts
from leaven.recipe.recipe import Data, Freezing, Model, Phase, Technique, Unfreeze

_BRANCHES = ("drop_path", "stochastic_depth")  # how libraries call the places where a branch can be left out


def check_techniques(
    phases: Sequence[Phase], model: Model, facts: ModelFacts, data: Data, train: Invocation, scope: Scope
) -> None:
    """Every technique in every phase."""
    told: set[int] = set()  # what holds for every phase is told once
    for phase in phases:
        for technique in phase.techniques:
            if isinstance(technique, Unfreeze) and id(technique) not in told:
                told.add(id(technique))
                _check_at(technique, phase, scope)
            if isinstance(technique, Technique) and id(technique) not in told:
                before = len(scope.diagnostics)
                check = _Check(technique.invocation, scope)
                check.against_the_phase(phase, train)
                check.against_the_model(phase, model, facts)
                check.against_the_data(phase, data)
                if len(scope.diagnostics) > before:
                    told.add(id(technique))


def _check_at(unfreeze: Unfreeze, phase: Phase, scope: Scope) -> None:
    """Layers that would be unfrozen when the phase is over."""
    at, epochs = unfreeze.at, phase.epochs.value
    if at is None or not isinstance(at.value, Quantity) or not isinstance(epochs, Quantity):
        return
    if at.value.amount >= epochs.amount and isinstance(unfreeze.origin, Written):
        origin = phase.epochs.origin
        scope.report(
            "contradiction",
            f"the layers are unfrozen after {value_text(at.value)}, and by then the phase is over",
            Spot(unfreeze.origin.span, "never comes"),
            *([Spot(origin.span, "lasts no longer")] if isinstance(origin, Written) else []),
            fix="write less, or a longer phase",
        )


class _Check:
    """One technique."""

    def __init__(self, call: Invocation, scope: Scope) -> None:
        self.call = call
        self.name = call.card.bare_name
        self.technique = call.card.technique
        self.hooks = frozenset(self.technique.hooks)
        self.scope = scope

    def against_the_phase(self, phase: Phase, train: Invocation) -> None:
        self._steps(phase, train["accumulate"])
        self._length(phase)
        if self.technique.unfreezes:
            self._joining(phase)

    def against_the_model(self, phase: Phase, model: Model, facts: ModelFacts) -> None:
        if self.technique.unfreezes and phase.freezing is not None and phase.trains:
            self._waiting(phase.freezing)
        if self.technique.resizes_images:
            self._size(facts)
        if self.technique.needs_residual_branches and _tells_branches(model):
            self._branches(facts)

    def against_the_data(self, phase: Phase, data: Data) -> None:
        if self.technique.balances_classes:
            self._balance(phase, data)

    def _contradicts(self, headline: str, label: str, *others: tuple[Origin, str], note: str = "", fix: str) -> None:
        assert isinstance(self.call.origin, Written)
        spots = [Spot(origin.span, said) for origin, said in others if isinstance(origin, Written)]
        place = Spot(self.call.origin.span, label)
        self.scope.report("contradiction", headline, place, *spots, notes=[note] if note else [], fix=fix)

    def _steps(self, phase: Phase, accumulate: Setting) -> None:
        """What looks at gradients, with an optimizer that computes its own; what computes them twice, with others'."""
        optimizer = phase.optimizer.invocation
        if self.hooks & {"around_step", "on_gradients"} and optimizer.card.optimizer.needs_closure:
            self._contradicts(
                f"`{self.name}` changes the gradient of a step, and `{optimizer.card.friendly}` computes its own",
                "would see no gradient",
                (optimizer.origin, "computes loss and gradient several times in a step"),
                fix="use another optimizer, such as `optimizer sgd(lr=0.1, momentum=0.9)`",
            )
        if "around_step" in self.hooks and accumulate.value != 1:
            self._contradicts(
                f"`{self.name}` computes the gradient of a batch twice, and `accumulate` adds those of several batches",
                "needs the whole step at once",
                (accumulate.origin, "a step is several batches"),
                fix="remove `accumulate`, and make the batch as large as memory allows",
            )

    def _length(self, phase: Phase) -> None:
        """What begins or ends after the phase is over."""
        epochs = phase.epochs.value
        for name in [parameter.name for parameter in self.call.card.parameters if parameter.within_phase]:
            value = self.call.value(name)
            if not isinstance(value, Quantity) or not isinstance(epochs, Quantity) or epochs.amount == 0:
                continue
            limit = 100 if value.unit == "%" else epochs.amount
            if value.amount > limit or (value.amount == limit and value.unit != "%"):
                self._contradicts(
                    f"`{self.name}` says `{name}={value_text(value)}`, and by then the phase is over",
                    "never comes",
                    (phase.epochs.origin, "lasts no longer"),
                    fix="write less, or a longer phase",
                )

    def _joining(self, phase: Phase) -> None:
        """What unfreezes layers in the course of the phase, where something else decides that too."""
        for other in phase.techniques:
            if isinstance(other, Unfreeze) and other.at is not None:
                self._contradicts(
                    f"`{self.name}` and `unfreeze … at=` both decide when layers are unfrozen",
                    "this one",
                    (other.origin, "and this one"),
                    fix="remove one of them",
                )
            elif isinstance(other, Technique) and other.invocation.card.technique.trains_only:
                holder = other.invocation
                self._contradicts(
                    f"`{self.name}` unfreezes layers, and `{holder.card.bare_name}` freezes them for the whole phase",
                    "unfreezes them",
                    (holder.origin, "freezes them"),
                    fix="remove one of them, or put them into different phases",
                )

    def _waiting(self, freezing: Freezing) -> None:
        """What unfreezes layers in the course of the phase, where there is nothing to unfreeze."""
        after = self.call[self.technique.unfreezes_after]
        if any(one.origin == self.call.origin for one in freezing.later) or after.value == Quantity(0, "epochs"):
            return
        if freezing.causes:
            self._contradicts(
                f"`{self.name}` unfreezes layers, and all of them are frozen for the whole phase",
                "nothing is left to unfreeze",
                *((cause.origin, "frozen for the whole phase") for cause in freezing.causes[:1]),
                note=f"`{self.name}` itself freezes what it unfreezes later",
                fix="remove the `freeze`",
            )
        else:
            self._contradicts(
                f"`{self.name}` unfreezes the model in stages, and it has no stage besides its head",
                "nothing to unfreeze",
                fix=f"remove `{self.name}`, or name the layers: `freeze all - head` and `unfreeze …, at=2 epochs`",
            )

    def _size(self, model: ModelFacts) -> None:
        if model.is_size_fixed and model.size:
            height, width = model.size
            self._contradicts(
                f"`{self.name}` makes images smaller, and {model.name} takes only {height}x{width}",
                "gives other sizes",
                fix=f"remove `{self.name}`, or use a model that takes any size, such as a ResNet",
            )

    def _branches(self, model: ModelFacts) -> None:
        """What leaves out residual branches, where the layers are known and none is a block that has any."""
        if model.layers is None or not model.layers.modules:
            return
        has_any = any(
            module.type in ("ResBlock", "DropPath", "StochasticDepth") or module.path.endswith(_BRANCHES)
            for module in model.layers.modules
        )
        if not has_any:
            self._contradicts(
                f"`{self.name}` leaves out residual branches, and {model.name} has none that can be left out",
                "nothing to leave out",
                fix=f"remove `{self.name}`, or use a model of such blocks: `res_block`, or a ResNet of timm's",
            )

    def _balance(self, phase: Phase, data: Data) -> None:
        """What makes up for uneven classes, where that is done already."""
        weights = phase.loss.setting("class_weights")
        others: list[tuple[Origin, str]] = []
        if data.sampler.card.bare_name == "balanced":
            others.append((data.sampler.origin, "draws every class equally often"))
        if weights is not None and weights.value == "balanced":
            others.append((weights.origin, "lets rare classes count more"))
        if others:
            self._contradicts(
                f"`{self.name}` makes up for uneven classes, and that is done already",
                "a second time",
                *others,
                fix="keep one of them",
            )


def _tells_branches(model: Model) -> bool:
    """Whether a model's layers show where its branches can be left out; timm's have places that are empty at first."""
    if isinstance(model.source, tuple):
        return all(stage.card.kind != "user" for stage in model.source)
    return model.source.card.source == "torchvision"
