"""Settings that are `auto` are measured: the program tries them on the machine that it runs on, and uses the fastest.

What is tried, and how, is decided in `runtime/run/measuring.py`. A program that does not measure (a smoke test, a
standalone program) has the defaults: 32 bits, batches of 32, not compiled.
"""

from collections.abc import Iterator
from dataclasses import replace

from leaven.plan.plan import Choice, Plan, ReadData, TrainPhase
from leaven.plan.values import Argument

AUTO = "auto"
USUAL_BATCH = 32
_TOLD = {
    "batch": f"{USUAL_BATCH}, doubled as long as that is faster: measured when the run begins",
    "precision": "32 or bf16: measured when the phase begins",
    "compile": "if that saves time: measured when the phase begins",
}


def measure_settings(plan: Plan) -> Plan:
    usual, of_run = usual_settings(plan), plan.run.argument("precision")
    pairs = zip(plan.phases, usual.phases, strict=True)
    phases = tuple(replace(after, measured=_measured(before, of_run)) for before, after in pairs)
    batch = next((replace(each, name="batch") for each in plan.data.loading if _is_measured_batch(each)), None)
    data = replace(usual.data, measured_batch=batch)
    return replace(usual, data=data, phases=phases, choices=(*plan.choices, *_choices(data, phases)))


def usual_settings(plan: Plan) -> Plan:
    """The plan with the default of each setting that is `auto`."""
    run = tuple(each for each in plan.run.arguments if not (each.name == "precision" and each.value == AUTO))
    loading = (replace(each, value=USUAL_BATCH) if _is_measured_batch(each) else each for each in plan.data.loading)
    phases = (
        replace(phase, precision=_without_auto(phase.precision), compile=_without_auto(phase.compile))
        for phase in plan.phases
    )
    data = replace(plan.data, loading=tuple(loading))
    return replace(plan, run=replace(plan.run, arguments=run), data=data, phases=tuple(phases))


def _measured(phase: TrainPhase, of_run: Argument | None) -> tuple[Argument, ...]:
    """The settings that a phase measures."""
    if not phase.trains or phase.solver is not None:
        return ()
    precision = phase.precision if phase.precision is not None else of_run
    return tuple(each for each in (precision, phase.compile) if each is not None and each.value == AUTO)


def _is_measured_batch(setting: Argument) -> bool:
    return setting.name == "batch_size" and setting.value == AUTO


def _without_auto(setting: Argument | None) -> Argument | None:
    return None if setting is not None and setting.value == AUTO else setting


def _choices(data: ReadData, phases: tuple[TrainPhase, ...]) -> Iterator[Choice]:
    batch = (data.measured_batch,) if data.measured_batch is not None else ()
    for name, settings in (("", batch), *((phase.name, phase.measured) for phase in phases)):
        for each in settings:
            yield Choice(each.name, name, _TOLD[each.name], _TOLD[each.name], f"`{each.name}=auto`")
