"""Which parameters are frozen in a phase, and when: the one place where this is decided.

It depends on `freeze`, `unfreeze`, adapters and techniques that train only part of a model, in the order in which they
are written; adapters come first, so that `unfreeze` also applies to what an adapter freezes, wherever it is.
"""

from collections.abc import Sequence
from dataclasses import replace

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Selection, Selector, Without, Word, matching
from leaven.catalog.values import Invocation, Origin, Pending, Quantity, Setting
from leaven.formats.layer_names import with_outer
from leaven.language import syntax
from leaven.recipe.recipe import (
    Adapter,
    AnyTechnique,
    Freeze,
    Freezing,
    FrozenBy,
    Reinit,
    Technique,
    Unfreeze,
    Unfreezing,
    WithoutEffect,
)


def resolve_freezing(
    techniques: Sequence[AnyTechnique], adapters: Sequence[Adapter], layers: Layers | None
) -> Freezing | None:
    """The freezing of a phase by its techniques; `adapters` are its own and those of earlier phases.

    None where something chooses layers and it is not known which.
    """
    if not any(map(chooses_layers, techniques)) and not adapters:
        return Freezing()
    if layers is None:
        return None
    fold = _Fold(layers)
    for adapter in adapters:
        fold.freeze(_frozen_by_words(adapter.invocation, layers), adapter.invocation.origin, is_adapter=True)
    own = [adapter.invocation for adapter in adapters]
    for technique in techniques:
        if isinstance(technique, Technique) and technique.invocation in own:
            continue
        if not fold.apply(technique):
            return None
    for technique in techniques:
        if isinstance(technique, Technique) and technique.invocation.card.technique.unfreezes:
            fold.unfreeze_gradually(technique.invocation)
    return fold.result()


def chooses_layers(technique: AnyTechnique) -> bool:
    """Whether a technique says which layers are trainable."""
    if not isinstance(technique, Technique):
        return isinstance(technique, Freeze | Unfreeze)
    traits = technique.invocation.card.technique
    return bool(traits.trains_only or traits.unfreezes)


class _Fold:
    """Goes through the statements in their order."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self.frozen: frozenset[str] = frozenset()
        self.by_adapters: frozenset[str] = frozenset()  # what only adapters freeze
        self.later: list[Unfreezing] = []
        self.norms_on: frozenset[str] = frozenset()
        self.causes: list[FrozenBy] = []
        self.origins: list[Origin] = []
        self.without_effect: list[WithoutEffect] = []

    def apply(self, technique: AnyTechnique) -> bool:
        """Take a technique into account; False where it is not known which layers it means."""
        match technique:
            case Freeze(Selection(parameters=None)) | Unfreeze(Selection(parameters=None)):
                return False
            case Freeze(Selection(parameters=frozenset(chosen)), norms, origin):
                self.freeze(chosen, origin, has_norms_on=norms == "train")
            case Unfreeze(Selection(parameters=frozenset(chosen)), None, origin):
                self._unfreeze(chosen, origin)
            case Unfreeze(Selection(parameters=frozenset(chosen)), Setting() as at, origin):
                self._unfreeze_later(chosen, at, origin)
            case Technique(call) if call.card.technique.trains_only:
                self.freeze(_frozen_by_words(call, self.layers), call.origin)
            case Technique() | Reinit():
                pass
        return True

    def freeze(
        self, chosen: frozenset[str], origin: Origin, *, is_adapter: bool = False, has_norms_on: bool = False
    ) -> None:
        if is_adapter:
            self.by_adapters |= chosen
        else:
            self.frozen |= chosen
        self.norms_on = self.norms_on | chosen if has_norms_on else self.norms_on - chosen
        self.causes.append(FrozenBy(chosen, origin))
        self.origins.append(origin)
        self._forget_later(chosen, origin)

    def _unfreeze(self, chosen: frozenset[str], origin: Origin) -> None:
        if self.causes and not chosen & (self.frozen | self.by_adapters):
            self.without_effect.append(WithoutEffect(origin))
        self.frozen, self.by_adapters = self.frozen - chosen, self.by_adapters - chosen
        self.origins.append(origin)
        self._forget_later(chosen, origin)

    def _unfreeze_later(self, chosen: frozenset[str], at: Setting, origin: Origin) -> None:
        waiting = chosen & (self.frozen | self.by_adapters)
        if not waiting:
            self.without_effect.append(WithoutEffect(origin))
            return
        self._forget_later(waiting, origin)
        self.later.append(Unfreezing(waiting, at, origin))

    def _forget_later(self, chosen: frozenset[str], origin: Origin) -> None:
        """A statement replaces what statements above it say about its layers."""
        later = [replace(unfreezing, parameters=unfreezing.parameters - chosen) for unfreezing in self.later]
        self.without_effect += [WithoutEffect(u.origin, replaced_by=origin) for u in later if not u.parameters]
        self.later = [unfreezing for unfreezing in later if unfreezing.parameters]

    def unfreeze_gradually(self, call: Invocation) -> None:
        """Freeze what is trainable besides the head, until its turn comes."""
        frozen = self.frozen | self.by_adapters
        stages = trainable_stages(self.layers, frozen)
        after = call[call.card.technique.unfreezes_after]
        waiting = [(after, frozenset().union(*stages[:-1]))]
        if call.card.technique.unfreezes == "stages":
            waiting = [(_times(after, count), stage) for count, stage in enumerate(reversed(stages)) if count]
        due = [(at, stage) for at, stage in waiting if at.syntax is not None or at.value != Quantity(0, "epochs")]
        self.later += [Unfreezing(stage, at, call.origin) for at, stage in due if stage]

    def result(self) -> Freezing:
        waiting = frozenset().union(*(one.parameters for one in self.later))
        frozen = self.frozen | self.by_adapters
        return Freezing(
            frozen=frozen - waiting,
            later=tuple(self.later),
            norms_on=self.norms_on & frozen,
            dropout_on=self.by_adapters - self.frozen - waiting,
            causes=tuple(self.causes),
            origins=tuple(self.origins),
            without_effect=tuple(self.without_effect),
        )


def _frozen_by_words(call: Invocation, layers: Layers) -> frozenset[str]:
    """The parameters that a technique freezes: all but those it trains."""
    selector: Selector = Word("all")
    for word in call.card.technique.trains_only:
        selector = Without(selector, Word(word))
    return matching(selector, layers)


def trainable_stages(layers: Layers, frozen: frozenset[str]) -> list[frozenset[str]]:
    """The trainable parameters from the stem to the head; what belongs to no stage goes with the one before it."""
    roots = (layers.stem, *layers.stages, layers.head)
    found: list[set[str]] = [set() for _ in roots]
    number_of = {path: number for number, paths in reversed(list(enumerate(roots))) for path in paths}
    at = 0
    for parameter in layers.parameters:
        at = min((number_of[path] for path in with_outer(parameter.name) if path in number_of), default=at)
        if parameter.name not in frozen:
            found[at].add(parameter.name)
    return [frozenset(names) for names in found if names]


def _times(setting: Setting, count: int) -> Setting:
    """A number of epochs, several times over."""
    value = setting.value
    if count == 1:
        return setting
    match value:
        case Quantity(amount, unit):
            value = Quantity(amount * count, unit)
        case Pending(name):
            value = Pending(f"{name} * {count}")
    if setting.syntax is None:
        return replace(setting, value=value)
    span = setting.syntax.span
    times = syntax.Binary("*", setting.syntax, syntax.Number(count, None, span), span)
    return replace(setting, value=value, syntax=times)
