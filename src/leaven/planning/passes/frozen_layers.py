"""Frozen layers give the same outputs for the same image in every epoch: they run once, and their outputs are stored.

Where images are augmented, only those of validation are the same each time, unless the recipe asks for a number of
views. Which layers come before the first trainable one only the model's graph tells, so the program finds it
(`runtime/stored`); here is decided what the recipe tells.
"""

from collections.abc import Iterator
from dataclasses import replace

from leaven.plan.plan import Choice, Plan, TrainPhase
from leaven.plan.values import Argument
from leaven.planning.passes.inputs import (
    SPLITS,
    not_kept,
    own_code_in,
    times,
    why_not_stored,
    why_padded,
    why_varying,
)

ABOUT = "frozen layers"


def store_frozen_layers(plan: Plan) -> Plan:
    choices: list[Choice] = []
    phases: list[TrainPhase] = []
    for phase in plan.phases:
        if not phase.trains or phase.freeze is None or not phase.freeze.has_first_layer:
            phase = replace(phase, views=None)
        else:
            why_not = _why_not(phase, plan)
            varies = bool(plan.data.train.random or plan.data.train.own)
            phase = replace(
                phase,
                # the recipe decides whether training uses only some views of an image, not whether they are stored
                views=phase.views if varies and not _has_a_view_per_epoch(phase) else None,
                stored=tuple(split for split, reason in why_not.items() if not reason),
                approximate=plan.approximate if not all(why_not.values()) else None,
            )
            choices += _choices(phase, plan, why_not)
        phases.append(phase)
    return replace(plan, phases=tuple(phases), choices=(*plan.choices, *choices))


def _has_a_view_per_epoch(phase: TrainPhase) -> bool:
    views, epochs = phase.views.value if phase.views is not None else None, phase.epochs.value
    return phase.solver is None and isinstance(views, int) and isinstance(epochs, int) and views >= epochs


def _why_not(phase: TrainPhase, plan: Plan) -> dict[str, str]:
    """Why outputs are not stored, for each split; empty where they are."""
    reason = next(why_not_stored(phase, plan), "") or next(_why_not_frozen(phase, plan), "")
    if not reason and plan.approximate is None and (padded := why_padded(plan)):
        reason = f"{padded}; `train exact=false` stores them"
    return {"train": reason or _why_varying_in_training(phase, plan), "val": reason or why_varying(plan.data.eval)}


def _why_varying_in_training(phase: TrainPhase, plan: Plan) -> str:
    if phase.views is None or plan.data.train.own:
        return why_varying(plan.data.train)
    return f"{phase.views.text} views are not fewer than the epochs" if _has_a_view_per_epoch(phase) else ""


def _choices(phase: TrainPhase, plan: Plan, why_not: dict[str, str]) -> Iterator[Choice]:
    is_same = len(set(why_not.values())) == 1 and phase.views is None
    for split, reason in list(why_not.items())[: 1 if is_same else 2]:
        about = ABOUT if is_same else f"{ABOUT}, {SPLITS[split]}"
        views = phase.views if split == "train" else None
        asked = _as_asked(phase, plan, views)
        if reason:
            yield Choice(about, phase.name, asked, asked, reason)
            continue
        how = ", in the fastest way here" if phase.approximate is not None else ""
        chosen = f"run once {times(views, plan)}{how}; their outputs are stored"
        why = _why_stored(phase, is_limited=views is not None) + not_kept(own_code_in(plan, plan.model, phase))
        yield Choice(about, phase.name, asked, chosen, why)


def _as_asked(phase: TrainPhase, plan: Plan, views: Argument | None) -> str:
    if phase.solver is not None:
        return f"run once {times(views, plan)}; their outputs are not stored"
    return f"run in every epoch{f', on {views.text} views of an image' if views is not None else ''}"


def _why_stored(phase: TrainPhase, *, is_limited: bool) -> str:
    asking = ["`features`"] * is_limited + ["`exact=false`"] * (phase.approximate is not None)
    if asking:
        return f"{' and '.join(asking)} {'ask' if len(asking) > 1 else 'asks'} for this approximation"
    if phase.solver is not None:
        return "the head is solved for all of them at once"
    return "they give the same outputs in every epoch"


def _why_not_frozen(phase: TrainPhase, plan: Plan) -> Iterator[str]:
    """Why frozen layers may give other outputs for the same image, or can't be left out."""
    assert phase.freeze is not None
    strategy = plan.run.argument("strategy")
    if strategy is not None and strategy.value == "fsdp" and phase.solver is None:
        yield "each process has only a part of them (`strategy=fsdp`)"
    if phase.freeze.norms != "frozen":
        yield "their statistics change (`norms=train`)"
    if phase.freeze.dropout != "off":
        yield "their dropout is on, as they are frozen because of an adapter alone"
    if phase.unfreeze_later:
        yield "layers are unfrozen in the course of the phase"
    for use in phase.techniques:
        if use.changes == "model" and set(use.hooks) - {"on_model"} and not use.is_adapter:
            yield f"`{use.name}` changes the model while it is trained"
