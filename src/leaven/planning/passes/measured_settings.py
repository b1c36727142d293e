"""Settings that are `auto` are measured: the program tries them on the machine that it runs on, and uses the fastest.

What is tried, and how, is decided in `runtime/run/measuring.py`. A program that does not measure (a smoke test, a
standalone program) has the defaults: 32 bits, batches of 32, not compiled.
"""

from collections.abc import Iterator
from dataclasses import replace

from leaven.plan.plan import Choice, Plan, ReadData, TrainPhase
from leaven.plan.values import Argument, Call

AUTO = "auto"
USUAL_BATCH = 32
_TOLD = {
    "batch": f"{USUAL_BATCH}, doubled as long as that is faster: measured when the run begins",
    "precision": "32 or bf16: measured when the phase begins",
    "compile": "if that saves time: measured when the phase begins",
}


def measure_settings(plan: Plan) -> Plan:
    of_run = plan.run.argument("precision")
    shared = of_run if of_run is not None and of_run.value == AUTO else None
    phases = tuple(_measured(phase, shared) for phase in plan.phases)
    data, run = _with_measured_batch(plan.data), plan.run if shared is None else _without(plan.run, shared)
    choices = list(_choices(data, phases))
    return replace(plan, run=run, data=data, phases=phases, choices=(*plan.choices, *choices))


def _measured(phase: TrainPhase, of_run: Argument | None) -> TrainPhase:
    """A phase in which what is `auto` is measured, and otherwise has its default."""
    precision = phase.precision if phase.precision is not None else of_run
    found = [each for each in (precision, phase.compile) if each is not None and each.value == AUTO]
    return replace(
        phase,
        precision=None if precision in found else phase.precision,
        compile=None if phase.compile in found else phase.compile,
        measured=tuple(found) if phase.trains and phase.solver is None else (),
    )


def _with_measured_batch(data: ReadData) -> ReadData:
    batch = next(each for each in data.loading if each.name == "batch_size")
    if batch.value != AUTO:
        return data
    loading = tuple(replace(each, value=USUAL_BATCH) if each is batch else each for each in data.loading)
    return replace(data, loading=loading, measured_batch=replace(batch, name="batch"))


def _without(run: Call, argument: Argument) -> Call:
    return replace(run, arguments=tuple(each for each in run.arguments if each is not argument))


def _choices(data: ReadData, phases: tuple[TrainPhase, ...]) -> Iterator[Choice]:
    batch = (data.measured_batch,) if data.measured_batch is not None else ()
    for name, settings in (("", batch), *((phase.name, phase.measured) for phase in phases)):
        for each in settings:
            yield Choice(each.name, name, _TOLD[each.name], _TOLD[each.name], f"`{each.name}=auto`")
