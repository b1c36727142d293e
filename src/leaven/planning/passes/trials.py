"""Trials whose frozen layers need not run train only a few layers: one process trains them together.

They share the data, the stored outputs and what it takes to start, and their layers run once for all of them where that
gives the same (`runtime/trials`). Otherwise each trial is a process of its own.
"""

from collections.abc import Iterator
from dataclasses import replace

from leaven.plan.plan import Choice, Plan
from leaven.plan.values import parts

ABOUT = "trials"
_AS_ASKED = "one after the other, each in a process of its own"
_ONE_AT_A_TIME = "leaven.runtime.MLflow"


def train_trials_together(plan: Plan) -> Plan:
    if plan.sweep is None or len(plan.sweep.trials) < 2:
        return plan
    reason = next(_reasons(plan), "")
    chosen = _AS_ASKED if reason else "train together, in one process"
    because = reason or "only the layers after the stored outputs are trained"
    choice = Choice(ABOUT, "", _AS_ASKED, chosen, because)
    return replace(plan, sweep=replace(plan.sweep, together=not reason), choices=(*plan.choices, choice))


def _reasons(plan: Plan) -> Iterator[str]:
    """Why trials can't train together."""
    for phase in plan.phases:
        where = "" if len(plan.phases) == 1 else f' in phase "{phase.name}"'
        if phase.trains and set(phase.stored) != {"train", "val"}:
            yield f"layers before the trained ones run in every epoch{where}"
        if phase.solver is not None:
            yield f"the head is solved, not trained{where}"
        if any(use.models for use in phase.techniques):
            yield f"each has a teacher of its own{where}"
        if phase.compile is not None or phase.measured:
            yield f"settings are measured, or the model compiled{where}"
    if plan.data.measured_batch is not None:
        yield "the batch is measured"
    if plan.data.decoded:
        yield "images are decoded once"
    devices, loggers = plan.run.argument("devices"), plan.run.argument("loggers")
    if devices is not None and devices.value not in ("auto", 1):
        yield "they train on several devices"
    if loggers is not None and any(getattr(each, "target", "") == _ONE_AT_A_TIME for each in parts(loggers.value)):
        yield "mlflow logs one run at a time"
