"""What contradicts itself in a phase: techniques that exclude each other, nothing left to train."""

from collections.abc import Sequence

from leaven.binding.scope import Scope
from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Word, matching
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Quantity, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span
from leaven.recipe.adapters import check_adapter, check_library, is_adapter
from leaven.recipe.data import DataFacts
from leaven.recipe.freezing import trained_words
from leaven.recipe.models import ModelFacts
from leaven.recipe.own_techniques import check_own_techniques
from leaven.recipe.pruning import check_prunings
from leaven.recipe.recipe import Adapter, AnyTechnique, FitHead, Freezing, Group, Model, Phase, Reinit, Technique
from leaven.recipe.teachers import check_teachers


def check_phases(phases: Sequence[Phase], model: Model, model_facts: ModelFacts, data: DataFacts, scope: Scope) -> None:
    """Every phase on its own, with what earlier phases left in the model."""
    check_prunings(phases, model_facts, scope)
    adapters: tuple[Adapter, ...] = ()  # of the phases before
    for at, phase in enumerate(phases):
        calls = [technique.invocation for technique in phase.techniques if isinstance(technique, Technique)]
        _check_pairs(calls, scope)
        _check_task(calls, phase.loss, data, scope)
        _check_warmup(phase, scope)
        _check_overridden(phase, calls, scope)
        check_own_techniques(calls, scope)
        _check_kept_optimizer(phase, phases[:at], scope)
        check_teachers(calls, [earlier.name for earlier in phases[: at + 1]], data, scope)
        _check_adapters(phase, adapters, model, model_facts, scope)
        if phase.freezing is not None and model_facts.layers is not None:
            _check_freezing(phase, phase.freezing, model, model_facts, model_facts.layers, len(phases) > 1, scope)
            if at == 0 and not model.pretrained and model.weights is None:
                _check_untrained(phase.freezing, model_facts.layers, scope)
        _check_groups(phase.optimizer.groups, scope)
        adapters = phase.adapters


def _check_adapters(phase: Phase, lasting: Sequence[Adapter], model: Model, facts: ModelFacts, scope: Scope) -> None:
    earlier = list(lasting)
    for technique in phase.techniques:
        if not isinstance(technique, Technique):
            continue
        call = technique.invocation
        check_library(call, scope)
        if is_adapter(technique) and facts.layers is not None:
            adapter = next((one for one in phase.adapters if one.invocation is call), None)
            check_adapter(adapter, call, earlier, facts.layers, model, facts.name, scope)
            earlier += [adapter] if adapter is not None else []


def _check_kept_optimizer(phase: Phase, before: Sequence[Phase], scope: Scope) -> None:
    """An optimizer goes on with what another of its kind has gathered."""
    if not phase.keeps_optimizer:
        return
    trained = [earlier for earlier in before if earlier.trains]
    kinds = [one.optimizer.invocation.card.name for one in (*trained[-1:], phase)]
    if len(kinds) == 2 and kinds[0] == kinds[1]:
        return
    scope.report(
        "contradiction",
        f'phase "{phase.name}" keeps the optimizer, and '
        + (f"the phase before has another, `{kinds[0]}`" if trained else "there is no phase before it"),
        Spot(_span(phase.origin), "`keep=optimizer`"),
        fix="leave out `keep=optimizer`" + (", or use the same optimizer in both" if trained else ""),
    )


def _check_pairs(calls: Sequence[Invocation], scope: Scope) -> None:
    earlier: dict[str, Invocation] = {}  # the first call of each technique
    for second in calls:
        for first in earlier.values():
            _check_pair(first, second, scope)
        earlier.setdefault(second.card.name, second)


def _check_pair(first: Invocation, second: Invocation, scope: Scope) -> None:
    a, b = first.card, second.card
    reason = a.technique.conflicts.get(b.bare_name)
    reason = b.technique.conflicts.get(a.bare_name) if reason is None else reason
    if reason is None and all("model_for_eval" in card.technique.hooks for card in (a, b)):
        reason = "both decide which weights are measured and kept"
    if reason is None:
        return
    scope.report(
        "contradiction",
        f"`{a.bare_name}` and `{b.bare_name}` can't stand in one phase",
        Spot(_span(second.origin), "this one"),
        Spot(_span(first.origin), "and this one"),
        notes=[reason] if reason else [],
        fix="remove one of them, or put them into different phases",
    )


def _check_task(calls: Sequence[Invocation], loss: Invocation, data: DataFacts, scope: Scope) -> None:
    """Techniques that are made for other data, or whose blended labels the loss can't take."""
    for call in calls:
        tasks = call.card.technique.tasks
        if tasks and data.task not in tasks:
            scope.report(
                "wrong-task",
                f"`{call.card.bare_name}` is made for {_spoken(' and '.join(tasks))}, and the data is for "
                f"{_spoken(data.task)}",
                Spot(_span(call.origin), "can't be used here"),
                fix=f"remove `{call.card.bare_name}`",
            )
        if call.card.technique.blends_labels and not loss.card.loss.takes_soft_labels:
            spots = [Spot(loss.origin.span, "takes whole classes only")] if isinstance(loss.origin, Written) else []
            scope.report(
                "contradiction",
                f"`{call.card.bare_name}` blends labels, and `{loss.card.bare_name}` can't take blended ones",
                Spot(_span(call.origin), "blends labels"),
                *spots,
                fix=f"remove `{call.card.bare_name}`, or use another loss: `loss cross_entropy()`",
            )


def check_measures(metrics: Sequence[Invocation], losses: Sequence[Invocation], data: DataFacts, scope: Scope) -> None:
    """Losses and metrics that the libraries have for other tasks than telling classes apart."""
    if not data.task.endswith("-classification"):
        return
    for loss in {id(loss): loss for loss in losses}.values():  # one that holds for every phase is told once
        if not loss.card.loss.compares_classes:
            headline = f"`{loss.card.friendly}` does not compare classes, and the data is for {_spoken(data.task)}"
            fix = "use `cross_entropy()`, `focal()` or `bce()`"
            scope.report("wrong-task", headline, Spot(_span(loss.origin), "can't be used here"), fix=fix)
    for metric in metrics:
        if metric.card.source != "torchmetrics":
            continue
        made_for = metric.card.metric.family
        place = Spot(_span(metric.origin), "can't be used here")
        if made_for != "classification":
            what = f"is made for {made_for}" if made_for else "does not compare classes"
            headline = f"`{metric.card.friendly}` {what}, and the data is for {_spoken(data.task)}"
            scope.report("wrong-task", headline, place, fix="use `accuracy()`, `f1()` or `auroc()`")
        elif not metric.card.metric.is_single_number:
            headline = f"`{metric.card.friendly}` is not one number, and can't be written down for every epoch"
            fix = "use `accuracy()`, `f1()` or `auroc()`; `leaven evaluate` prints the confusion table of a bundle"
            scope.report("wrong-task", headline, place, fix=fix)


def _spoken(task: str) -> str:
    return task.replace("-", " ")


def _check_overridden(phase: Phase, calls: Sequence[Invocation], scope: Scope) -> None:
    """Techniques that need what a function of the user's keeps to itself."""
    override = next((override for override in phase.overrides if override.hook == "train_step"), None)
    for call in calls if override is not None else ():
        if override is not None and "on_loss" in call.card.technique.hooks:
            scope.report(
                "contradiction",
                f"`{call.card.bare_name}` needs the outputs of the model, and `train_step` is overridden",
                Spot(_span(call.origin), "changes the loss by the outputs"),
                Spot(_span(override.origin), "gives the loss alone"),
                notes=["a function in the place of the training step keeps the outputs to itself"],
                fix=f"remove one of them, or put into the function what `{call.card.bare_name}` does",
            )


def _check_warmup(phase: Phase, scope: Scope) -> None:
    """A warm-up that lasts as long as its phase never arrives."""
    warmup = phase.schedule.setting("warmup")
    epochs = phase.epochs.value
    if warmup is None or not isinstance(warmup.origin, Written) or not isinstance(warmup.value, Quantity):
        return
    if not isinstance(epochs, Quantity) or warmup.value.unit != "epochs" or epochs.amount == 0:
        return
    if warmup.value.amount >= epochs.amount:
        scope.report(
            "contradiction",
            f"the warm-up lasts {value_text(warmup.value)}, and the phase only {value_text(epochs)}",
            Spot(warmup.origin.span, "the learning rate never arrives"),
            *([Spot(phase.epochs.origin.span, "the phase")] if isinstance(phase.epochs.origin, Written) else []),
            fix="write a shorter one, or a share: `warmup=10%`",
        )


def _check_freezing(
    phase: Phase,
    freezing: Freezing,
    model: Model,
    facts: ModelFacts,
    layers: Layers,
    is_one_of_several: bool,
    scope: Scope,
) -> None:
    """What is frozen in a phase, against what it is to train."""
    for technique in phase.techniques:
        _check_words(technique, facts, layers, scope)
    for origin in freezing.without_effect:
        scope.warn(
            "nothing-frozen",
            "none of these layers is frozen",
            Spot(_span(origin), "has no effect"),
            fix="remove the line, or unfreeze layers that are frozen above it",
        )
    if not freezing.causes or not phase.trains:
        return
    everything = frozenset(parameter.name for parameter in layers.parameters)
    if freezing.at_first >= everything and not phase.adapters:
        who = f'phase "{phase.name}"' if is_one_of_several else "the recipe"
        *others, last = freezing.causes
        scope.report(
            "nothing-trainable",
            f"{who} has nothing to train{' at first' if freezing.later else ''}",
            Spot(_span(last.origin), f"every layer of {facts.name} is frozen"),
            *(Spot(_span(one.origin), "frozen here") for one in others),
            fix="leave something to train, as in `freeze all - head`",
        )
        return
    head = matching(Word("head"), layers)
    if isinstance(model.head, FitHead) and head and freezing.frozen >= head:
        cause = next(one for one in reversed(freezing.causes) if one.parameters & head)
        scope.warn(
            "frozen-new-head",
            f"the head of {facts.name} is new and frozen: it stays random",
            Spot(_span(cause.origin), "freezes the head"),
            fix="leave the head out, as in `freeze all - head`",
        )
    _check_new_layers(phase, freezing, scope)


def _check_words(technique: AnyTechnique, facts: ModelFacts, layers: Layers, scope: Scope) -> None:
    """A technique that trains the layers of a kind, in a model that has none of it."""
    for word in trained_words(technique):
        if word != "head" and not matching(Word(word), layers) and isinstance(technique, Technique):
            scope.report(
                "unknown-layer",
                f"{facts.name} has no layers that `{word}` means",
                Spot(_span(technique.invocation.origin), f"trains its {word}"),
                fix="train only the head, by `linear_probe`, or other layers, by `freeze`",
            )


def _check_untrained(freezing: Freezing, layers: Layers, scope: Scope) -> None:
    """A model that was never trained, and of which more than the head is frozen."""
    head = matching(Word("head"), layers)
    for cause in freezing.causes:
        if cause.parameters - head:
            scope.warn(
                "frozen-untrained",
                "the frozen layers have no trained weights: they stay random",
                Spot(_span(cause.origin), "keeps random weights"),
                fix="give the model weights: `pretrained=true` or `weights=…`",
            )
            return


def _check_groups(groups: Sequence[Group], scope: Scope) -> None:
    """A group all of whose layers a later group takes says nothing."""
    for at, group in enumerate(groups):
        own = group.layers.parameters
        later = [other for other in groups[at + 1 :] if own and own & (other.layers.parameters or frozenset())]
        if own and own <= frozenset().union(*(other.layers.parameters or () for other in later)):
            scope.warn(
                "covered-group",
                "later groups take every layer of this one",
                Spot(_span(group.origin), "has no effect"),
                Spot(_span(later[-1].origin), "takes its layers"),
                fix="put the narrower group last",
            )


def _check_new_layers(phase: Phase, freezing: Freezing, scope: Scope) -> None:
    """Layers that are to change, in vain."""
    adapted = {weight.name for adapter in phase.adapters for weight in adapter.weights}
    for technique in phase.techniques:
        anew = technique.layers.parameters if isinstance(technique, Reinit) else None
        if isinstance(technique, Reinit) and anew is not None and anew <= freezing.frozen:
            scope.report(
                "contradiction",
                "these layers are re-initialised and frozen: they would stay random",
                Spot(_span(technique.origin), "re-initialised"),
                *(Spot(_span(one.origin), "frozen") for one in freezing.causes if one.parameters & anew),
                fix="freeze other layers, or leave these as they were trained",
            )
    for group in phase.optimizer.groups:
        grouped = group.layers.parameters
        if grouped is not None and grouped <= freezing.frozen - adapted:
            scope.warn(
                "frozen-group",
                "every layer of this group is frozen",
                Spot(_span(group.origin), "the optimizer never sees them"),
                *(Spot(_span(one.origin), "frozen") for one in freezing.causes if one.parameters & grouped),
                fix="remove the group, or leave its layers out of `freeze`",
            )


def _span(origin: Origin) -> Span:
    assert isinstance(origin, Written)
    return origin.span
