"""A teacher gives the same outputs for the same image in every epoch: it is asked once, and they are stored."""

from collections.abc import Iterable
from dataclasses import replace

from leaven.plan.plan import Choice, EarlierModel, Plan, TrainPhase, UseTechnique
from leaven.planning.passes.inputs import not_kept, own_code_in, times, why_not_stored, why_padded, why_varying

ABOUT = "teacher"
_AS_ASKED = "runs in every epoch"


def store_teacher_outputs(plan: Plan) -> Plan:
    choices: list[Choice] = []
    phases: list[TrainPhase] = []
    for phase in plan.phases:
        teaching = [use for use in phase.techniques if use.models and not use.call.is_user]
        if phase.trains and teaching:
            has_views = phase.views is not None and not plan.data.train.own
            reason = next(why_not_stored(phase, plan), "") or ("" if has_views else why_varying(plan.data.train))
            reason = reason or why_padded(plan)
            if not reason:
                steps = tuple(
                    replace(step, asks_once=True) if isinstance(step, UseTechnique) and step in teaching else step
                    for step in phase.steps
                )
                phase = replace(phase, steps=steps)
            chosen = _AS_ASKED if reason else f"runs once {times(phase.views, plan)}; its outputs are stored"
            asked = "`features` asks for this approximation" if phase.views is not None else ""
            because = reason or (asked or "it gives the same outputs in every epoch") + not_kept(
                _own_code(teaching, phase, plan)
            )
            choices.append(Choice(ABOUT, phase.name, _AS_ASKED, chosen, because))
        phases.append(phase)
    return replace(plan, phases=tuple(phases), choices=(*plan.choices, *choices))


def _own_code(teaching: Iterable[UseTechnique], phase: TrainPhase, plan: Plan) -> str:
    """The user's code that a teacher is made of."""
    of_each = (
        own_code_in(plan, plan.model, phase) if isinstance(model, EarlierModel) else own_code_in(plan, model)
        for use in teaching
        for _, model in use.models
    )
    return next(filter(None, of_each), "")
