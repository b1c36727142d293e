"""Settings that are chosen by measurement: the program tries them on the machine that it runs on, and uses the fastest.

What comes out is what would have come out if the recipe had named what was chosen. The first process decides for all.
The lock has what was measured, and a run that is resumed does not measure again.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure, Stopped
from leaven.runtime.memory import has_room_for_twice, is_out_of_memory
from leaven.runtime.model.looking import NotCopied, looking_at
from leaven.runtime.run.fabric import precision_of, use_precision
from leaven.runtime.run.timing import Step, random_images, seconds, seconds_of, training_step
from leaven.runtime.stored.frozen import RestOfModel
from leaven.terminal import status_line
from leaven.terminal.duration_text import duration_text

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase
    from leaven.runtime.run.run import Run

CLEARLY = 1.1  # times as fast: what is less may be chance
FEWEST_STEPS = 20  # per epoch, with larger batches
LONG = 300.0  # seconds: compiling takes a minute or more, and hardly pays where training takes less


@dataclass(frozen=True)
class Measured:
    """What was chosen and why, in words that follow the name of the setting; `numbers` are what was measured."""

    chosen: Any
    told: str
    unit: str
    numbers: dict[str, float]


def _decided(run: "Run", setting: str, phase: str, measure: Callable[[], Measured] | None, *, usual: Any) -> Any:
    """What a measurement chooses, or has chosen before the run was interrupted; None where neither is there.

    Where nothing can be measured, as of a model that there can be no copy of, that is what is `usual`.
    """
    found: dict[str, Any] = {}
    if run.fabric.is_global_zero:
        known = run.folder.lock.get("measured", [])
        found = next((each for each in known if (each["setting"], each["phase"]) == (setting, phase)), {})
        if not found and measure is not None:
            with status_line.doing(f"measuring {setting}…"):
                measured = _measured(measure, usual)
            found = {"setting": setting, "phase": phase, **asdict(measured)}
            run.folder.note(measured=[*known, found])
            run.print(f"{phase}{': ' * bool(phase)}{setting} {measured.told}")
    return run.fabric.broadcast(found).get("chosen")


def _measured(measure: Callable[[], Measured], usual: Any) -> Measured:
    try:
        return measure()
    except (NotCopied, _NotMeasured) as problem:
        reason = f": {problem}" if isinstance(problem, NotCopied) else ""
        return Measured(usual, f"{_short(str(usual)).lower()}, as nothing could be measured{reason}", "", {})


class _NotMeasured(Exception):
    """A step fails; the same happens in training, where it is reported."""


def _step(run: "Run", model: Any, data: Data, size: int, precision: Any = None) -> Step:
    """A step with a batch of that size, of which each process has its share."""
    images = random_images(data.train, max(1, min(size, len(data.train)) // run.fabric.world_size), run.device)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return training_step(model, parameters, images, precision or run.fabric.strategy.precision)


# -- the size of batches


def choose_batch_size(run: "Run", model: nn.Module, data: Data, *, may_measure: bool) -> None:
    """Double the size of batches as long as that is clearly faster; halve it where a batch does not fit into memory."""
    measure = (lambda: _fastest_size(run, model, data)) if may_measure else None
    chosen = _decided(run, "batch", "", measure, usual=data.batch_size)
    if chosen is not None:
        data.use_batch_size(chosen)


def _fastest_size(run: "Run", model: nn.Module, data: Data) -> Measured:
    most = len(data.train) // FEWEST_STEPS
    speeds: dict[int, float] = {}
    with looking_at(model) as model:
        try:
            size = _size_that_fits(run, model, data)
        except (Failure, RuntimeError, ValueError):
            raise _NotMeasured from None
        while not (limit := _limit(run, model, data, size, most)):
            steps = {each: _step(run, model, data, each) for each in (size, 2 * size)}
            try:
                times = seconds_of(steps, run.device, run.stop_here)
            except (RuntimeError, MemoryError) as problem:
                if not is_out_of_memory(problem):
                    raise
                limit = f"{2 * size} does not fit into memory"
                break
            speeds |= {each: each / seconds for each, seconds in times.items()}
            if speeds[2 * size] < CLEARLY * speeds[size]:
                limit = f"{2 * size} is {'hardly' if speeds[2 * size] > speeds[size] else 'not'} faster"
                break
            size *= 2
    numbers = ", ".join(f"{speed:,.0f} samples/s with {each}" for each, speed in speeds.items())
    told = f"{size}; {limit}{f' ({numbers})' * bool(numbers)}"
    return Measured(size, told, "samples per second", {str(each): speed for each, speed in speeds.items()})


def _size_that_fits(run: "Run", model: nn.Module, data: Data) -> int:
    """The size that the data has, or the largest half, quarter, … of it that fits into memory."""
    size = data.batch_size
    while True:
        try:
            _step(run, model, data, size)()
            return size
        except (RuntimeError, MemoryError) as problem:
            if size <= run.fabric.world_size or not is_out_of_memory(problem):
                raise
            size //= 2


def _limit(run: "Run", model: nn.Module, data: Data, size: int, most: int) -> str:
    """Why batches of twice a size are not tried; empty where they are."""
    if size < data.batch_size:
        return f"{2 * size} does not fit into memory"
    if 2 * size > most:
        return f"{2 * size} would leave fewer than {FEWEST_STEPS} steps per epoch"
    if not has_room_for_twice(_step(run, model, data, size), run.device):
        return f"{2 * size} might take too much memory"
    return ""


# -- precision


def choose_precision(phase: "Phase", names: Sequence[str], *, may_measure: bool) -> None:
    """Train a phase at the fastest of some precisions: the first, unless another one is clearly faster."""
    measure = (lambda: _fastest_precision(phase, names)) if may_measure else None
    chosen = _decided(phase.run, "precision", phase.name, measure, usual=names[0])
    if chosen is not None:
        use_precision(phase.run.fabric, _quiet_precision(chosen))


def _fastest_precision(phase: "Phase", names: Sequence[str]) -> Measured:
    run, first = phase.run, names[0]
    failed: dict[str, str] = {}
    steps: dict[str, Step] = {}
    with looking_at(phase.model) as copied:
        for name in names:
            try:
                steps[name] = _step(run, copied, phase.data, phase.data.batch_size, _quiet_precision(name))
                steps[name]()
            except (Failure, RuntimeError, NotImplementedError, ValueError) as problem:
                failed[name] = str(problem).partition("\n")[0]
        if first in failed:
            raise _NotMeasured
        steps = {name: step for name, step in steps.items() if name not in failed}
        times = seconds_of(steps, run.device, run.stop_here)
    best = min(times, key=times.__getitem__)
    chosen = best if times[best] * CLEARLY <= times[first] else first
    return Measured(chosen, _precision_told(chosen, times, failed), "seconds per step", times)


def _quiet_precision(name: str) -> Any:
    """Fabric's precision of that name, without its message that it is used."""
    messages = logging.getLogger("lightning.fabric")
    level = messages.level
    messages.setLevel(logging.WARNING)
    try:
        return precision_of(name)
    finally:
        messages.setLevel(level)


def _precision_told(chosen: str, times: dict[str, float], failed: dict[str, str]) -> str:
    """`32; bf16 would take 1.8 times as long (41 ms, 74 ms per step)`."""
    words = [f"{_short(name)} can't be used here: {reason}" for name, reason in failed.items()]
    for name, other in times.items():
        if name != chosen:
            slower = other / times[chosen]
            long = f"would take {slower:.1f} times as long" if slower >= CLEARLY else "takes about as long"
            words.append(f"{_short(name)} {long} ({duration_text(times[chosen])}, {duration_text(other)} per step)")
    return "; ".join([_short(chosen), *words])


def _short(precision: str) -> str:
    """A precision as recipes call it."""
    return precision.partition("-")[0]


# -- compiling


def compile_if_faster(phase: "Phase", model: nn.Module) -> None:
    """Compile the model for a phase, if that saves more time than it takes."""
    phase.compile = _decided(phase.run, "compile", phase.name, lambda: _compiling(phase, model), usual=False)


def _compiling(phase: "Phase", model: nn.Module) -> Measured:
    run, batches = phase.run, phase.loop.most_epochs * phase.loop.whole.batches
    if isinstance(model, RestOfModel):
        return Measured(False, "false; compiled layers would not give what is stored, to the last digit", "", {})
    with looking_at(model) as copied:
        try:
            plain = _step(run, copied, phase.data, phase.data.batch_size)
            times = seconds_of({"plain": plain}, run.device, run.stop_here)
        except (Failure, RuntimeError, ValueError):
            raise _NotMeasured from None
        if times["plain"] * batches < LONG:
            told = f"false; training takes only about {duration_text(times['plain'] * batches)} without"
            return Measured(False, told, "seconds per step", times)
        step = _step(run, torch.compile(copied), phase.data, phase.data.batch_size)
        try:
            compiling = seconds(step, run.device)
            times = seconds_of({"plain": plain, "compiled": step}, run.device, run.stop_here)
        except Stopped:
            raise
        except Exception as problem:  # whatever torch's compiler raises
            torch.compiler.reset()
            reason = str(problem).strip().partition("\n")[0]
            return Measured(False, f"false; torch can't compile it here: {reason}", "seconds per step", times)
    saved = (times["plain"] - times["compiled"]) * batches
    is_worth_it = saved > compiling
    taken = f"({duration_text(times['plain'])}, {duration_text(times['compiled'])} per step)"
    if not is_worth_it:
        torch.compiler.reset()
    told = f"takes {duration_text(compiling)} and saves {duration_text(max(0.0, saved))} {taken}"
    numbers = {**times, "compiling": compiling}
    return Measured(is_worth_it, f"{'true' if is_worth_it else 'false'}; it {told}", "seconds per step", numbers)
