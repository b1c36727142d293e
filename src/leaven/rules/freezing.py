"""The layers that a phase freezes, against those that it trains."""

from collections.abc import Iterator, Sequence

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Word, matching
from leaven.catalog.values import Quantity, Setting, Written
from leaven.language.diagnostics import Diagnostic
from leaven.messages import freezing as messages
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Freezing, Group, NewHead, Phase, Reinit, Technique, Unfreeze


def check(draft: Draft) -> Iterator[Diagnostic]:
    yield from _without_effect(draft.phases)
    for at, phase in enumerate(draft.phases):
        yield from _groups(phase.optimizer.groups)
        yield from _late(phase)
        yield from _unfreezing(phase)
        if phase.freezing is None or draft.model.layers is None:
            continue
        yield from _phase(phase, phase.freezing, draft.model.layers, draft)
        if at == 0 and not draft.model.has_weights:  # more than the head is frozen as it was initialised
            head = matching(Word("head"), draft.model.layers)
            untrained = [one.origin for one in phase.freezing.causes if one.parameters - head]
            yield from map(messages.frozen_untrained, untrained[:1])


def _without_effect(phases: Sequence[Phase]) -> Iterator[Diagnostic]:
    """`unfreeze` statements that do nothing in any phase."""
    idle = [one for phase in phases if phase.freezing is not None for one in phase.freezing.without_effect]
    written = [one.origin for phase in phases for one in phase.techniques if isinstance(one, Unfreeze)]
    origins = [one.origin for one in idle]
    for at, one in enumerate(idle):
        if one.origin not in origins[:at] and origins.count(one.origin) == written.count(one.origin):
            yield messages.unfrozen_in_vain(one.origin, one.replaced_by)


def _phase(phase: Phase, freezing: Freezing, layers: Layers, draft: Draft) -> Iterator[Diagnostic]:
    name = draft.model_facts.name
    for call in phase.calls:
        for word in call.card.technique.trains_only:
            if word != "head" and not matching(Word(word), layers):
                yield messages.no_such_layers(call, name, word)
    if not freezing.causes or not phase.trains:
        return
    if freezing.at_first >= matching(Word("all"), layers) and not phase.adapters:
        who = f'phase "{phase.name}"' if len(draft.phases) > 1 else "the recipe"
        yield messages.nothing_trainable(who, name, [one.origin for one in freezing.causes], bool(freezing.later))
        return
    head = matching(Word("head"), layers)
    if isinstance(draft.model.head, NewHead) and head and freezing.frozen >= head:
        cause = next(one for one in reversed(freezing.causes) if one.parameters & head)
        yield messages.frozen_new_head(name, cause.origin)
    yield from _frozen_in_vain(phase, freezing)


def _frozen_in_vain(phase: Phase, freezing: Freezing) -> Iterator[Diagnostic]:
    """Frozen layers that are to be re-initialised or have settings of the optimizer."""
    adapted = {weight.name for adapter in phase.adapters for weight in adapter.weights or ()}
    to_train: list[Reinit | Group] = [one for one in phase.techniques if isinstance(one, Reinit)]
    to_train += phase.optimizer.groups
    for one in to_train:
        is_reinit, chosen = isinstance(one, Reinit), one.layers.parameters
        if chosen is not None and chosen <= (freezing.frozen if is_reinit else freezing.frozen - adapted):
            causes = [cause.origin for cause in freezing.causes if cause.parameters & chosen]
            yield (messages.frozen_reinit if is_reinit else messages.frozen_group)(one.origin, causes)


def _groups(groups: Sequence[Group]) -> Iterator[Diagnostic]:
    """A group all of whose layers later groups take has no effect."""
    taken_by: dict[str, int] = {}  # the last group that takes each parameter
    for at in reversed(range(len(groups))):
        own = groups[at].layers.parameters
        if own and own <= taken_by.keys():
            yield messages.covered_group(groups[at].origin, groups[max(taken_by[name] for name in own)].origin)
        for name in own or ():
            taken_by.setdefault(name, at)


def _late(phase: Phase) -> Iterator[Diagnostic]:
    """Layers that would be unfrozen when the phase is over; in one without training, nothing is unfrozen anyway."""
    epochs = phase.epochs.value
    if not isinstance(epochs, Quantity) or epochs.amount == 0:
        return
    for technique in phase.techniques:
        match technique:
            case Unfreeze(at=Setting(value=Quantity() as at), origin=Written() as origin) if at.amount >= epochs.amount:
                yield messages.unfrozen_after_phase(origin, at, phase.epochs)
            case Technique(call) if call.card.technique.unfreezes == "stages" and phase.freezing is not None:
                times = [unfreezing.at.value for unfreezing in phase.freezing.later if unfreezing.origin == call.origin]
                last = max((at for at in times if isinstance(at, Quantity)), key=lambda at: at.amount, default=None)
                if last is not None and epochs.amount <= last.amount:
                    yield messages.never_unfrozen(call, last, phase.epochs)


def _unfreezing(phase: Phase) -> Iterator[Diagnostic]:
    """Techniques that unfreeze layers, where something else decides that too, or where there is nothing to unfreeze."""
    freezing = phase.freezing
    freezes = [call for call in phase.calls if call.card.technique.trains_only]
    for call in phase.calls:
        if not call.card.technique.unfreezes:
            continue
        for other in phase.techniques:
            if isinstance(other, Unfreeze) and other.at is not None:
                yield messages.unfrozen_twice(call, other.origin)
        yield from (messages.unfrozen_and_frozen(call, other) for other in freezes)
        after = call[call.card.technique.unfreezes_after]
        if freezing is None or freezes or not phase.trains or after.value == Quantity(0, "epochs"):
            continue
        if not any(unfreezing.origin == call.origin for unfreezing in freezing.later):
            yield messages.nothing_to_unfreeze(call, freezing.causes[0].origin if freezing.causes else None)
