"""Runs a program's `main`: failures are reported in a few lines that point at the recipe."""

import atexit
import contextlib
import gc
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NoReturn

import torch
from torch import Tensor, distributed

from leaven.files.atomic_files import write_text
from leaven.formats.run_folder import OUTCOME, PLAN, REPORT, is_edited
from leaven.runtime.data.model_inputs import first_tensor, some_of
from leaven.runtime.failures import Failure, Stopped, Trained, show_cautions, unexpected
from leaven.runtime.memory import is_out_of_memory
from leaven.runtime.run.phase import Phase
from leaven.runtime.run.rank_watch import RANKS
from leaven.runtime.stored.batch import StoredBatch
from leaven.terminal import status_line
from leaven.terminal.visible import visible_lines

INTERRUPTED = 130
_SIGNATURE = re.compile(r"(\w+)(\.\w+)*\(\) (got an unexpected|got some positional|missing|takes) ")
_STOPPED_EARLY = "stopped before training began; nothing was saved"


def guard(main: Callable[[], None]) -> None:
    """Run a program; a failure is reported with its recipe line, and the exit code says how it ended."""
    show_cautions()
    gc.freeze()  # what was imported is never garbage
    atexit.register(gc.unfreeze)  # triton, which torchvision imports, reports what is not collected at the end
    gc.set_threshold(700)  # Python's own; during the imports it is higher
    try:
        with status_line.doing("starting…"):  # in place of what was said while the program was imported
            main()
        _tell("succeeded")
    except (KeyboardInterrupt, Stopped) as stopped:
        _tell("stopped")
        print(visible_lines(str(stopped)) if isinstance(stopped, Stopped) else _STOPPED_EARLY, file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Trained:
        _tell("succeeded")
    except Failure as failure:
        _end(report(failure, failure.__traceback__, program_file()))
    except Exception as problem:
        if os.environ.get("LEAVEN_DEBUG"):
            raise
        lost = RANKS.failure_of_another()
        if lost is not None:
            end_at_once(lost)
        too_large = _too_large(problem.__traceback__) if is_out_of_memory(problem) else None
        found = too_large or _outdated(problem, program_file()) or unexpected(problem)
        _end(report(found, problem.__traceback__, program_file()))
    finally:
        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()  # left to the end of Python, gloo's threads sometimes abort it


def end_at_once(failure: Failure | None) -> NoReturn:
    """End in any thread, without waiting for the connections to a process that is gone; None if that was stopped."""
    sys.stdout.flush()
    if failure is None:
        _tell("stopped")
        print(_STOPPED_EARLY, file=sys.stderr)
        os._exit(INTERRUPTED)
    _say(report(failure, None, program_file()))
    sys.stderr.flush()
    os._exit(1)


def _end(report: str) -> NoReturn:
    _say(report)
    sys.exit(1)


def _say(report: str) -> None:
    """Write a report to the file that whoever started the program reads, or print it."""
    _tell("failed", report.partition("\n")[0].removeprefix("error: "))
    if file := os.environ.get(REPORT):
        with contextlib.suppress(OSError):
            return write_text(Path(file), report)
    print(report, file=sys.stderr)


def _tell(outcome: str, reason: str = "") -> None:
    """Write how the program ended to the file where a job's supervisor reads it; torchrun's exit code does not say.

    Ranks other than the first have files beside it (`runs/torchrun.py` reads them). On a full disk, the exit code is
    what remains.
    """
    file, rank = os.environ.get(OUTCOME), os.environ.get("RANK", "0")
    if not file:
        return
    with contextlib.suppress(OSError):
        write_text(Path(file if rank == "0" else f"{file}.{rank}"), json.dumps({"outcome": outcome, "reason": reason}))


def report(failure: Failure, trace: TracebackType | None, program: Path) -> str:
    """What is wrong, where: in the recipe, or in a program that is run without a plan or was edited; and what to do."""
    from leaven.runtime.run.recipe_lines import program_place, recipe_place  # it loads the plan's classes

    lines = [f"error: {failure.headline}"]
    has_plan = (program.parent / PLAN).is_file() and not is_edited(program)
    place = (recipe_place if has_plan else program_place)(program, trace, failure.about)
    if place is not None:
        lines.append(f"  --> {place}")
    if failure.help:
        lines.append(f"help: {failure.help}")
    return visible_lines("\n".join(lines))


def program_file() -> Path:
    return Path(sys.argv[0]).resolve()


def _outdated(problem: Exception, program: Path) -> Failure | None:
    """What to say when a program calls what Leaven does not have: one that was generated by another version."""
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__)]
    while frames and frames[-1].f_code.co_filename == contextlib.__file__:  # which calls `Run.training`
        frames.pop()
    if not frames or Path(frames[-1].f_code.co_filename) != program:
        return None
    missing = problem.obj if isinstance(problem, AttributeError) else None
    called = _SIGNATURE.match(str(problem)) if isinstance(problem, TypeError) else None
    values = [*frames[-1].f_locals.values(), *frames[-1].f_globals.values()]
    if not (_is_ours(missing) or (called and any(_is_ours(each) and _has(each, called[1]) for each in values))):
        return None
    return Failure(
        f"the program does not fit this version of Leaven: {problem}", "generate it again: `leaven generate RECIPE`"
    )


def _is_ours(value: object) -> bool:
    module = value.__name__ if isinstance(value, ModuleType) else type(value).__module__
    return module.partition(".")[0] == "leaven"


def _has(value: object, name: str) -> bool:
    """Whether a value is of a class of that name, or a module that has it."""
    return type(value).__name__ == name or hasattr(value, name)


def _too_large(trace: TracebackType | None) -> Failure:
    """What to say when a batch does not fit into memory; the program calls its phase `phase`."""
    phases = [frame.f_locals.get("phase") for frame, _ in traceback.walk_tb(trace)]
    phase = next((found for found in phases if isinstance(found, Phase)), None)
    torch.cuda.empty_cache()
    fits = batch_that_fits(phase) if phase is not None else None
    if phase is None or fits is None:
        return Failure("out of memory", "try a smaller model, or smaller images")
    accumulate = -(-phase.data.batch_size * phase.loop.whole.accumulate // fits)
    return Failure(
        f"a batch of {phase.data.batch_size} does not fit into memory",
        f"a batch of {fits} does: write `train batch={fits}, accumulate={accumulate}`, which gives about the same "
        "gradients (batch norm sees the smaller batches)",
        about="batch_size",
    )


def batch_that_fits(phase: Phase) -> int | None:
    """After a batch was too large: the largest half, quarter, … of it that can be trained on here."""
    # it may have been too large for what is computed before the first epoch
    inputs = phase.inputs if phase.inputs is not None else next(phase.data.train.batches(0))[0]
    if not isinstance(inputs, Tensor | StoredBatch | dict):  # images of several sizes
        return None
    fabric, size = phase.run.fabric, len(first_tensor(inputs)) // 2
    while size >= 1:
        try:
            phase.in_training(fabric.to_device(some_of(inputs, size))).sum().backward()
            return size * fabric.world_size
        except (RuntimeError, MemoryError):
            phase.model.zero_grad()
            size //= 2
    return None
