"""Techniques, optimizers and settings that need whole parameters, with `strategy=fsdp`."""

from collections.abc import Iterator

from leaven.catalog.values import Invocation, Setting
from leaven.language.diagnostics import Diagnostic
from leaven.messages import techniques as messages
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Phase

_BEFORE_TRAINING = frozenset(("on_data", "on_model", "on_optimizer"))
_HOOKS_ON_PARAMETERS = frozenset(  # the last two are of techniques that have some of their own
    ("around_step", "on_gradients", "after_step", "model_for_eval", "after_epoch", "at_end", "state_dict", "parameters")
)
_ELEMENTWISE = {  # optimizers that treat every number of a parameter by itself
    f"torch.optim.{name}"
    for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "Adagrad", "RMSprop", "Rprop", "ASGD")
}


def check(draft: Draft) -> Iterator[Diagnostic]:
    strategy = draft.train.strategy if draft.train is not None else None
    if draft.train is None or strategy is None or strategy.value != "fsdp":
        return
    for phase in draft.phases:
        if phase.trains and phase.solver is None:
            yield from _phase(phase, strategy)
    if draft.train.precision.value == "fp16":
        yield messages.on_parts("setting", "precision=fp16", draft.train.precision.origin, strategy)
    if draft.train.compile.value not in (None, False):
        yield messages.on_parts("setting", "compile", draft.train.compile.origin, strategy)


def _phase(phase: Phase, strategy: Setting) -> Iterator[Diagnostic]:
    for call in filter(_needs_whole, phase.calls):
        yield messages.on_parts("technique", call.card.bare_name, call.origin, strategy)
    optimizer = phase.optimizer.invocation
    if optimizer.card.target not in _ELEMENTWISE:
        yield messages.on_parts("optimizer", optimizer.card.friendly, optimizer.origin, strategy)
    for override in phase.overrides:
        if override.hook == "after_epoch":
            yield messages.on_parts("override", override.hook, override.origin, strategy)
    if phase.precision == "fp16":
        yield messages.on_parts("setting", "precision=fp16", phase.origin, strategy)


def _needs_whole(call: Invocation) -> bool:
    """Whether a technique reads or changes parameters while they are trained."""
    technique = call.card.technique
    knows_model = "model" in technique.wants and not _BEFORE_TRAINING.issuperset(technique.hooks)
    return technique.changes == "model" or knows_model or not _HOOKS_ON_PARAMETERS.isdisjoint(technique.hooks)
