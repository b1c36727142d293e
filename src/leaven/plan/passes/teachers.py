"""A teacher gives the same outputs for the same image in every epoch: it is asked once, and they are stored."""

from dataclasses import replace

from leaven.plan.passes.inputs import why_not_stored, why_varying
from leaven.plan.plan import Choice, Plan, TrainPhase, UseTechnique

ABOUT = "teacher"


def store_teacher_outputs(plan: Plan) -> Plan:
    choices: list[Choice] = []
    phases: list[TrainPhase] = []
    for phase in plan.phases:
        teaching = [use for use in phase.techniques if use.models and not use.call.is_user]
        if phase.trains and teaching:
            reason = next(why_not_stored(phase, plan), "") or why_varying(plan.data.train)
            if not reason:
                steps = tuple(_asked_once(step) if step in teaching else step for step in phase.steps)
                phase = replace(phase, steps=steps)
            chosen = "runs in every epoch" if reason else "runs once per image; its outputs are stored"
            because = reason or "it gives the same outputs in every epoch"
            choices.append(Choice(ABOUT, phase.name, chosen, because, is_improved=not reason))
        phases.append(phase)
    return replace(plan, phases=tuple(phases), choices=(*plan.choices, *choices))


def _asked_once(use: object) -> UseTechnique:
    assert isinstance(use, UseTechnique)
    return replace(use, asks_once=True)
