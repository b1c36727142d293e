"""The phases of a plan: what is prepared, frozen and trained, with which loss, optimizer and schedule."""

from collections.abc import Iterator
from dataclasses import replace

from leaven.catalog.layers import Layers
from leaven.catalog.values import Invocation, Setting
from leaven.plan.plan import (
    EarlierModel,
    EarlyStop,
    Metric,
    Override,
    Reinitialise,
    SolveHead,
    TrainPhase,
    UseOptimizer,
    UseTechnique,
)
from leaven.plan.values import Argument, Bound, Call, Variable
from leaven.planning.layers import freeze_layers, parameter_groups, unfreeze_later
from leaven.planning.paths import paths_of
from leaven.planning.run import precision_argument
from leaven.planning.schedules import use_schedule
from leaven.planning.techniques import use_of
from leaven.planning.translate import (
    argument,
    because,
    because_of_call,
    call_of,
    call_text,
    function_of,
    is_user_function,
    measurable,
    tensor,
    value_of,
)
from leaven.recipe.recipe import EarlyStop as RecipeEarlyStop
from leaven.recipe.recipe import Phase, Recipe, Reinit, Technique
from leaven.terminal.visible import visible


def phases_of(recipe: Recipe, metrics: tuple[Metric, ...]) -> tuple[TrainPhase, ...]:
    layers = recipe.model.layers or Layers()
    found: list[TrainPhase] = []
    is_smaller = False
    for phase in recipe.phases:
        was_frozen = bool(found) and bool(found[-1].freeze or found[-1].unfreeze_later)
        is_smaller = is_smaller or any(pruning.removes_channels for pruning in phase.prunings)
        found.append(_phase(phase, recipe, layers, metrics, was_frozen=was_frozen, is_smaller=is_smaller))
    following = [next((phase for phase in recipe.phases[at:] if phase.trains), None) for at in range(1, len(found) + 1)]
    models = [model for phase in found for use in phase.techniques for _, model in use.models]
    asked_for = {model.phase for model in models if isinstance(model, EarlierModel)}
    return tuple(
        replace(
            phase,
            is_last=phase is found[-1],
            is_remembered=visible(phase.name) in asked_for,
            gives_optimizer=next_one is not None and next_one.keeps_optimizer,
        )
        for phase, next_one in zip(found, following, strict=True)
    )


def _phase(
    phase: Phase,
    recipe: Recipe,
    layers: Layers,
    metrics: tuple[Metric, ...],
    *,
    was_frozen: bool,
    is_smaller: bool,
) -> TrainPhase:
    assert phase.freezing is not None  # a plan is made only where the layers are known
    frozen = freeze_layers(phase, phase.freezing, layers, is_smaller=is_smaller)
    train = recipe.train
    return TrainPhase(
        name=visible(phase.name),  # from here on it is printed, in one line
        epochs=argument(phase.epochs),
        steps=tuple(_steps(phase, recipe, layers)),
        trains=phase.trains,
        freeze=frozen,
        unfreeze_later=unfreeze_later(phase.freezing, layers),
        unfreezes_all=was_frozen and frozen is None,
        loss=_applied(_loss(phase.loss), recipe),
        loss_has_tensors=not is_user_function(phase.loss) and any(map(_is_tensor, phase.loss.settings)),
        loss_by_model=phase.loss.card.kind == "loss" and phase.loss.card.loss.by_model,
        optimizer=_optimizer(phase, layers),
        schedule=use_schedule(phase.schedule, metrics),
        early_stop=_early_stop(phase.early_stop),
        overrides=tuple(
            Override(each.hook, f"{each.function.module}.{each.function.name}", because(each.origin))
            for each in phase.overrides
        ),
        accumulate=argument(train.accumulate) if train.accumulate.value != 1 else None,
        clip=argument(train.clip) if train.clip.value is not None else None,
        precision=precision_argument(phase.precision, phase.origin) if phase.precision is not None else None,
        compile=measurable(train.compile) if train.compile.value else None,
        is_last=False,
        is_remembered=False,
        takes_optimizer=phase.keeps_optimizer,
        gives_optimizer=False,
        because=because(phase.origin),
        solver=_solver(phase),
        views=_views(phase),
    )


def _solver(phase: Phase) -> SolveHead | None:
    solver = phase.solver
    if solver is None:
        return None
    settings = []
    strength = ": the best on the validation split"
    if solver.value("l2") is not None:
        given = argument(solver["l2"])
        strength = f" {given.text}"
        settings.append(replace(given, name="strengths", value=(given.value,)))
    text = f"the head is solved with L-BFGS; L2 strength{strength}"
    return SolveHead(tuple(settings), text, because_of_call(solver))


def _views(phase: Phase) -> Argument | None:
    """How many augmented views of an image are used, where a technique limits them."""
    parameters = ((call, call.card.technique.stores_views) for call in phase.calls)
    return next((argument(call[views]) for call, views in parameters if views), None)


def _steps(phase: Phase, recipe: Recipe, layers: Layers) -> Iterator[Reinitialise | UseTechnique]:
    for technique in phase.techniques:
        match technique:
            case Reinit(selected, method, origin):
                yield Reinitialise(paths_of(selected.parameters or (), layers), method, because(origin))
            case Technique(invocation) if invocation.card.technique.hooks:
                yield use_of(invocation, phase, recipe, layers)


# -- loss, optimizer, early stop


def _applied(loss: Call | Bound, recipe: Recipe) -> Call | Bound:
    """The loss, as the task applies it to what published models return; user code is left alone where it can be."""
    task, source = recipe.data.task, recipe.model.source
    own, criterion = loss.call if isinstance(loss, Bound) else loss, task.traits.criterion
    if not criterion or not isinstance(source, Invocation) or source.card.kind == "user":
        return loss
    if own.is_user and not task.takes_model_for(source.card.model.task):
        return loss
    return Call(task.path_of(criterion), (Argument("", loss),), text=own.text, because=own.because)


def _loss(loss: Invocation) -> Call | Bound:
    if is_user_function(loss):
        return function_of(loss)
    if loss.card.name == "focal":
        return call_of(loss, target="leaven.runtime.FocalLoss")
    tensors = [found for setting in loss.settings if (found := _tensor(setting, loss)) is not None]
    return call_of(loss, more=tensors)


def _tensor(setting: Setting, loss: Invocation) -> Argument | None:
    """An argument that torch takes as a tensor."""
    if not _is_tensor(setting):
        return None
    parameter = loss.card.parameter(setting.name)
    name = (parameter.target if parameter else None) or setting.name
    if setting.name == "class_weights" and setting.value == "balanced":
        value = Call("leaven.runtime.balanced_weights", (Argument("", Variable("data.train")),))
    else:
        value = tensor(value_of(setting))
    return replace(argument(setting, loss, name), value=value)


def _is_tensor(setting: Setting) -> bool:
    """Whether a loss keeps a setting as a tensor, which must be on the device."""
    return setting.name in ("class_weights", "weight", "pos_weight", "alpha") and setting.value is not None


def _optimizer(phase: Phase, layers: Layers) -> UseOptimizer:
    optimizer = phase.optimizer.invocation
    traits = optimizer.card.optimizer
    groups = parameter_groups(phase, layers)
    return UseOptimizer(call_of(optimizer, by_name=True), groups, traits.needs_closure, traits.is_second_order)


def _early_stop(stop: RecipeEarlyStop | None) -> EarlyStop | None:
    if stop is None:
        return None
    settings = [argument(stop.patience)]
    if stop.at_least.value:
        settings.append(argument(stop.at_least))
    text, reasons = call_text(stop.statement), because_of_call(stop.statement)
    return EarlyStop(str(stop.score.value), tuple(settings), text, reasons)
