"""Techniques against each other, and against what surrounds them: loss, optimizer, length, model, data."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import combinations

from leaven.catalog import lookup
from leaven.catalog.hooks import HOOKS
from leaven.catalog.values import Invocation, Origin, Quantity
from leaven.language.diagnostics import Diagnostic
from leaven.messages import techniques as messages
from leaven.recipe.model_facts import ModelFacts
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Data, Model, Phase, Train
from leaven.recipe.task import Task

_BRANCHES = ("drop_path", "stochastic_depth")  # what libraries call modules that can skip a branch
_BRANCH_TYPES = ("ResBlock", "DropPath", "StochasticDepth")
_BEFORE_TRAINING = ("on_data", "on_model")
_LATE = ("criterion", "optimizer", "phase")  # what exists only after these hooks


def check(draft: Draft) -> Iterator[Diagnostic]:
    for phase in draft.phases:
        yield from _pairs(phase.calls)
        for call in phase.calls:
            yield from _libraries(call)
            yield from _task(call, phase, draft.data_facts.task)
            yield from _steps(call, phase, draft.train)
            yield from _times(call, phase)
            yield from _model(call, draft.model, draft.model_facts)
            yield from _balance(call, phase, draft.data)
            yield from _users_own(call) if call.card.kind == "user" else ()
            early = [hook for hook in _BEFORE_TRAINING if hook in call.card.technique.hooks]
            late = [name for name in _LATE if name in call.card.technique.wants]
            if early and late:  # what trains the model does not exist yet when this one is constructed
                yield messages.constructed_too_early(call, early[0], late[0])


def _pairs(calls: Sequence[Invocation]) -> Iterator[Diagnostic]:
    firsts = list({call.card.name: call for call in reversed(calls)}.values())[::-1]
    for first, second in combinations(firsts, 2):
        if (reason := _conflict(first, second)) is not None:
            yield messages.incompatible(first, second, reason)


def _conflict(first: Invocation, second: Invocation) -> str | None:
    """Why two techniques can't be used together; None where they can."""
    for card, other in ((first.card, second.card), (second.card, first.card)):
        if other.bare_name in card.technique.conflicts:
            return card.technique.conflicts[other.bare_name]
    if all("model_for_eval" in call.card.technique.hooks for call in (first, second)):
        return "both decide which weights are evaluated and saved"
    return None


def _libraries(call: Invocation) -> Iterator[Diagnostic]:
    """Libraries that are not installed: of the technique, or of its pruning method."""
    for used in (call, *(s.value for s in call.settings if isinstance(s.value, Invocation))):
        requires = used.card.requires
        if requires is not None and used.card.kind in ("technique", "pruning") and find_spec(requires.library) is None:
            yield messages.missing_library(used, requires)


def _task(call: Invocation, phase: Phase, task: Task) -> Iterator[Diagnostic]:
    technique = call.card.technique
    is_other_input = bool(technique.inputs) and task.input not in technique.inputs
    is_other_target = technique.targets and task.is_known and task.traits.target_kind not in technique.targets
    if is_other_input or is_other_target:
        yield messages.wrong_task(call, task.title, is_other_input=is_other_input)
    elif technique.blends_labels and not phase.loss.card.loss.takes_soft_labels:
        yield messages.soft_labels(call, phase.loss)
    override = next((override for override in phase.overrides if override.hook == "train_step"), None)
    if override is not None and "on_loss" in technique.hooks:
        yield messages.overridden_train_step(call, override.origin)


def _steps(call: Invocation, phase: Phase, train: Train | None) -> Iterator[Diagnostic]:
    """Techniques that change gradients, with optimizers and steps that don't allow it."""
    hooks, optimizer = call.card.technique.hooks, phase.optimizer.invocation
    if {"around_step", "on_gradients"} & set(hooks) and optimizer.card.optimizer.needs_closure:
        yield messages.closure_optimizer(call, optimizer)
    if train is not None and "around_step" in hooks and train.accumulate.value != 1:
        yield messages.accumulated_steps(call, train.accumulate)


def _times(call: Invocation, phase: Phase) -> Iterator[Diagnostic]:
    """Times that come after the phase is over."""
    epochs = phase.epochs.value
    for name in [parameter.name for parameter in call.card.parameters if parameter.within_phase]:
        value = call.value(name)
        if not isinstance(value, Quantity) or not isinstance(epochs, Quantity) or epochs.amount == 0:
            continue
        limit = 100 if value.unit == "%" else epochs.amount
        if value.amount > limit or (value.amount == limit and value.unit != "%"):
            yield messages.after_phase(call, name, value, phase.epochs)


def _model(call: Invocation, model: Model, facts: ModelFacts) -> Iterator[Diagnostic]:
    technique = call.card.technique
    if technique.resizes_images and facts.is_size_fixed and facts.size:
        yield messages.fixed_input_size(call, facts.name, facts.size)
    modules = facts.layers.modules if facts.layers is not None and _shows_branches(model) else ()
    has_any = any(module.type in _BRANCH_TYPES or module.path.endswith(_BRANCHES) for module in modules)
    if technique.needs_residual_branches and modules and not has_any:
        yield messages.no_residual_branches(call, facts.name)


def _shows_branches(model: Model) -> bool:
    """Whether a model's layers show which branches can be skipped; timm adds such modules only when asked to."""
    if isinstance(model.source, tuple):
        return all(stage.card.kind != "user" for stage in model.source)
    return model.source.card.source == "torchvision"


def _balance(call: Invocation, phase: Phase, data: Data) -> Iterator[Diagnostic]:
    """Compensation for imbalanced classes, twice."""
    if not call.card.technique.balances_classes:
        return
    weights = phase.loss.setting("class_weights")
    others: list[tuple[Origin, str]] = []
    if data.sampler.card.bare_name == "balanced":
        others.append((data.sampler.origin, "samples every class equally often"))
    if weights is not None and weights.value == "balanced":
        others.append((weights.origin, "gives rare classes a higher weight"))
    if others:
        yield messages.balanced_twice(call, others)


def _users_own(call: Invocation) -> Iterator[Diagnostic]:
    """Whether a program can call a user's technique as it calls every other."""
    definition = call.card.definition
    is_function = definition.form == "function"
    if is_function or (definition.form == "class" and not definition.technique.hooks and not definition.bases):
        reason = "it is a function" if is_function else "it has none of the methods that programs call"
        similar = ((method, near[0]) for method in definition.other_methods if (near := lookup.nearest(method, HOOKS)))
        yield messages.not_a_technique(call, reason, next(similar, None))
        return
    for hook, (least, most) in definition.hook_arguments.items():
        if not least <= len(HOOKS[hook]) <= most:
            yield messages.wrong_hook_signature(call, hook, HOOKS[hook])
    for method in definition.other_methods:
        near = lookup.nearest(method, HOOKS)
        if near and not method.startswith("_"):
            yield messages.unused_method(call, method, near[0])
