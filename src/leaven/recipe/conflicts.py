"""What contradicts itself in a phase: techniques that exclude each other, nothing left to train."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from leaven.binding.scope import Scope
from leaven.catalog.selectors import Selector, Word, is_resolved, matching
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Quantity, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span
from leaven.recipe.adapters import adapted_weights, check_adapter, check_library
from leaven.recipe.data import DataFacts
from leaven.recipe.models import ModelFacts
from leaven.recipe.own_techniques import check_own_techniques
from leaven.recipe.pruning import check_prunings
from leaven.recipe.recipe import AnyTechnique, FitHead, Freeze, Group, Model, Phase, Reinit, Technique, Unfreeze
from leaven.recipe.stillness import as_freeze, in_effect, is_adapter, words_that_move
from leaven.recipe.teachers import check_teachers

LOSSES_OF_CLASSES = ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss")  # of torch's
NO_SINGLE_NUMBER = (  # of torchmetrics'
    "ConfusionMatrix",
    "LogAUC",
    "PrecisionAtFixedRecall",
    "PrecisionRecallCurve",
    "ROC",
    "RecallAtFixedPrecision",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
    "StatScores",
)
Select = Callable[[Selector], frozenset[str]]  # the parameters that a selector means, found out once


def check_phases(phases: Sequence[Phase], model: Model, model_facts: ModelFacts, data: DataFacts, scope: Scope) -> None:
    """Every phase on its own, with what earlier phases left in the model."""
    check_prunings(phases, model_facts, scope)
    adapters: list[Technique] = []  # which stay in the phases after theirs
    layers = model_facts.layers
    select = cache(lambda selector: matching(selector, layers)) if layers is not None else None
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
        if select is not None and all(is_resolved(selector) for selector in _selectors(phase)):
            _check_stillness(phase, adapters, model, model_facts, select, len(phases) > 1, scope)
            _check_groups(phase.optimizer.groups, select, scope)
            if at == 0 and not model.pretrained and model.weights is None:
                _check_untrained(phase, select, scope)
        adapters += [t for t in phase.techniques if isinstance(t, Technique) and is_adapter(t)]


def _check_adapters(phase: Phase, lasting: Sequence[Technique], model: Model, facts: ModelFacts, scope: Scope) -> None:
    earlier = [technique.invocation for technique in lasting]
    for technique in phase.techniques:
        if not isinstance(technique, Technique):
            continue
        check_library(technique.invocation, scope)
        if is_adapter(technique) and facts.layers is not None:
            check_adapter(technique.invocation, earlier, facts.layers, model, facts.name, scope)
            earlier.append(technique.invocation)


def _check_kept_optimizer(phase: Phase, before: Sequence[Phase], scope: Scope) -> None:
    """An optimizer goes on with what another of its kind has gathered."""
    if not phase.keeps_optimizer:
        return
    trained = [earlier for earlier in before if earlier.epochs.value != Quantity(0, "epochs")]
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


def _selectors(phase: Phase) -> list[Selector]:
    techniques = [t.layers for t in phase.techniques if isinstance(t, Freeze | Unfreeze | Reinit)]
    return [*techniques, *(group.layers for group in phase.optimizer.groups)]


def _check_pairs(calls: Sequence[Invocation], scope: Scope) -> None:
    earlier: dict[str, Invocation] = {}  # the first call of each technique
    for second in calls:
        for first in earlier.values():
            _check_pair(first, second, scope)
        earlier.setdefault(second.card.name, second)


def _check_pair(first: Invocation, second: Invocation, scope: Scope) -> None:
    a, b = first.card, second.card
    reason = _reason(a.facts.get("conflicts"), b.bare_name)
    reason = _reason(b.facts.get("conflicts"), a.bare_name) if reason is None else reason
    if reason is None and all("model_for_eval" in card.facts.get("hooks", ()) for card in (a, b)):
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


def _reason(conflicts: Any, name: str) -> str | None:
    """Why a card refuses another technique; conflicts are a list of names, or of names with reasons."""
    if isinstance(conflicts, dict):
        return conflicts.get(name)
    return "" if conflicts and name in conflicts else None


def _check_task(calls: Sequence[Invocation], loss: Invocation, data: DataFacts, scope: Scope) -> None:
    """Techniques that are made for other data, or whose blended labels the loss can't take."""
    for call in calls:
        tasks = call.card.facts.get("tasks")
        if tasks and data.task not in tasks:
            scope.report(
                "wrong-task",
                f"`{call.card.bare_name}` is made for {_spoken(' and '.join(tasks))}, and the data is for "
                f"{_spoken(data.task)}",
                Spot(_span(call.origin), "can't be used here"),
                fix=f"remove `{call.card.bare_name}`",
            )
        if (
            call.card.facts.get("soft_labels")
            and loss.card.kind == "loss"
            and not loss.card.facts.get("soft_labels", True)
        ):
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
        if loss.card.source == "torch" and loss.card.bare_name not in LOSSES_OF_CLASSES:
            headline = f"`{loss.card.friendly}` does not compare classes, and the data is for {_spoken(data.task)}"
            fix = "use `cross_entropy()`, `focal()` or `bce()`"
            scope.report("wrong-task", headline, Spot(_span(loss.origin), "can't be used here"), fix=fix)
    for metric in metrics:
        if metric.card.source != "torchmetrics":
            continue
        made_for = metric.card.facts.get("task")
        place = Spot(_span(metric.origin), "can't be used here")
        if made_for != "classification":
            what = f"is made for {made_for}" if made_for else "does not compare classes"
            headline = f"`{metric.card.friendly}` {what}, and the data is for {_spoken(data.task)}"
            scope.report("wrong-task", headline, place, fix="use `accuracy()`, `f1()` or `auroc()`")
        elif metric.card.bare_name in NO_SINGLE_NUMBER:
            headline = f"`{metric.card.friendly}` is not one number, and can't be written down for every epoch"
            fix = "use `accuracy()`, `f1()` or `auroc()`; `leaven evaluate` prints the confusion table of a bundle"
            scope.report("wrong-task", headline, place, fix=fix)


def _spoken(task: str) -> str:
    return task.replace("-", " ")


def _check_overridden(phase: Phase, calls: Sequence[Invocation], scope: Scope) -> None:
    """Techniques that need what a function of the user's keeps to itself."""
    override = next((override for override in phase.overrides if override.hook == "train_step"), None)
    for call in calls if override is not None else ():
        if override is not None and "on_loss" in call.card.facts.get("hooks", ()):
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


def _check_stillness(
    phase: Phase,
    lasting: Sequence[AnyTechnique],
    model: Model,
    facts: ModelFacts,
    select: Select,
    is_one_of_several: bool,
    scope: Scope,
) -> None:
    """What is frozen in a phase, against what it is to train."""
    everything = select(Word("all"))
    frozen: frozenset[str] = frozenset()
    thawed_later: frozenset[str] = frozenset()
    freezes: list[tuple[frozenset[str], Span]] = []
    techniques = in_effect(lasting, phase.techniques)
    for technique in techniques:
        _check_words(technique, facts, select, scope)
        if (freeze := as_freeze(technique)) is not None:
            freezes.append((select(freeze.layers), _span(freeze.origin)))
            frozen |= freezes[-1][0]
        match technique:
            case Unfreeze(layers=selector, at=None, origin=origin):
                thawed = select(selector)
                if not thawed & frozen and freezes:
                    scope.warn(
                        "nothing-frozen",
                        "none of these layers is frozen",
                        Spot(_span(origin), "has no effect"),
                        fix="remove the line, or unfreeze layers that are frozen above it",
                    )
                frozen -= thawed
            case Unfreeze(layers=selector):
                thawed_later |= select(selector)
    if not freezes or phase.epochs.value == Quantity(0, "epochs"):
        return
    if frozen >= everything and not any(map(is_adapter, techniques)):
        who = f'phase "{phase.name}"' if is_one_of_several else "the recipe"
        scope.report(
            "nothing-trainable",
            f"{who} has nothing to train{' at first' if thawed_later else ''}",
            Spot(freezes[-1][1], f"every layer of {facts.name} is frozen"),
            *(Spot(place, "frozen here") for _, place in freezes[:-1]),
            fix="leave something to train, as in `freeze all - head`",
        )
        return
    head = select(Word("head"))
    is_new = isinstance(model.head, FitHead)
    if is_new and head and frozen >= head and not thawed_later & head:
        scope.warn(
            "frozen-new-head",
            f"the head of {facts.name} is new and frozen: it stays random",
            Spot(next(place for names, place in freezes if names & head), "freezes the head too"),
            fix="leave the head out, as in `freeze all - head`",
        )
    assert facts.layers is not None
    adapted = [
        adapted_weights(t.invocation, facts.layers) for t in techniques if isinstance(t, Technique) and is_adapter(t)
    ]
    moving = thawed_later.union(*({weight.name for weight in weights} for weights in adapted))
    _check_new_layers(phase, frozen - thawed_later, moving, freezes, select, scope)


def _check_words(technique: AnyTechnique, facts: ModelFacts, select: Select, scope: Scope) -> None:
    """A technique that trains the layers of a kind, in a net that has none of it."""
    for word in words_that_move(technique):
        if word != "head" and not select(Word(word)) and isinstance(technique, Technique):
            scope.report(
                "unknown-layer",
                f"{facts.name} has no layers that `{word}` means",
                Spot(_span(technique.invocation.origin), f"trains its {word}"),
                fix="train only the head, by `linear_probe`, or other layers, by `freeze`",
            )


def _check_untrained(phase: Phase, select: Select, scope: Scope) -> None:
    """A net that was never trained, and of which more than the head is frozen."""
    for technique in phase.techniques:
        freeze = as_freeze(technique)
        if freeze is not None and select(freeze.layers) - select(Word("head")):
            scope.warn(
                "frozen-untrained",
                "the frozen layers have no trained weights: they stay random",
                Spot(_span(freeze.origin), "keeps random weights"),
                fix="give the model weights: `pretrained=true` or `weights=…`",
            )
            return


def _check_groups(groups: Sequence[Group], select: Select, scope: Scope) -> None:
    """A group all of whose layers a later group takes says nothing."""
    for at, group in enumerate(groups):
        later = [other for other in groups[at + 1 :] if select(other.layers) & select(group.layers)]
        if later and select(group.layers) <= frozenset().union(*(select(other.layers) for other in later)):
            scope.warn(
                "covered-group",
                "later groups take every layer of this one",
                Spot(_span(group.origin), "has no effect"),
                Spot(_span(later[-1].origin), "takes its layers"),
                fix="put the narrower group last",
            )


def _check_new_layers(
    phase: Phase,
    frozen: frozenset[str],
    moving: frozenset[str],
    freezes: Sequence[tuple[frozenset[str], Span]],
    select: Select,
    scope: Scope,
) -> None:
    for technique in phase.techniques:
        if isinstance(technique, Reinit) and (anew := select(technique.layers)) <= frozen:
            scope.report(
                "contradiction",
                "these layers start anew and are frozen: they would stay random",
                Spot(_span(technique.origin), "starts anew"),
                *(Spot(place, "frozen") for names, place in freezes if names & anew),
                fix="freeze other layers, or leave these as they were trained",
            )
    for group in phase.optimizer.groups:
        if (grouped := select(group.layers)) <= frozen - moving:
            scope.warn(
                "frozen-group",
                "every layer of this group is frozen",
                Spot(_span(group.origin), "the optimizer never sees them"),
                *(Spot(place, "frozen") for names, place in freezes if names & grouped),
                fix="remove the group, or leave its layers out of `freeze`",
            )


def _span(origin: Origin) -> Span:
    assert isinstance(origin, Written)
    return origin.span
