"""Runs a program's `main`: failures are reported in a few lines that point at the recipe."""

import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import torch

from leaven.runtime.failures import Failure, Stopped, unexpected
from leaven.runtime.run.phase import Phase

INTERRUPTED = 130
_CITATION = re.compile(r'(?:#|""").*?\blines? (\d+)')
_RECIPE = re.compile(r'"""(\S+\.leaven), compiled by Leaven')
_CONTINUED = (" " * 8, "    )", "    ]")  # how lines begin that continue a statement
_OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory", "bad_alloc")


def guard(main: Callable[[], None]) -> None:
    """Run a program; a failure is reported with its recipe line, and the exit code says how it ended."""
    try:
        main()
    except KeyboardInterrupt:
        print("stopped before training began; nothing was saved", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Failure as failure:
        sys.exit(report(failure, failure.__traceback__, program_file()))
    except Exception as problem:
        if os.environ.get("LEAVEN_DEBUG"):
            raise
        found = _too_large(problem.__traceback__) if _is_out_of_memory(problem) else unexpected(problem)
        sys.exit(report(found, problem.__traceback__, program_file()))


def report(failure: Failure, trace: TracebackType | None, program: Path) -> str:
    """What is wrong, the recipe line that it belongs to, and what to do."""
    lines = [f"error: {failure.headline}"]
    text = program.read_text(encoding="utf-8") if program.is_file() else ""
    cited = _line_about(failure.about, text) or cited_line(trace, program, text.splitlines())
    recipe = _RECIPE.match(text)
    if cited is not None and recipe:
        lines.append(f"  --> {recipe[1]}:{cited}")
    if failure.help:
        lines.append(f"help: {failure.help}")
    return "\n".join(lines)


def cited_line(trace: TracebackType | None, program: Path, lines: list[str]) -> int | None:
    """The recipe line that the program cites at or above the line where a failure was raised."""
    for frame in reversed(traceback.extract_tb(trace)):
        if Path(frame.filename) == program and frame.lineno is not None:
            for line in reversed(lines[: frame.lineno]):
                found = _CITATION.search(line)
                if found:
                    return int(found[1])
                if line.startswith("def "):
                    break
    return None


def _line_about(words: str, program: str) -> int | None:
    """The recipe line that the program cites in the first statement that contains these words."""
    lines = program.splitlines()
    there = (at for word in words.split("|") for at, line in enumerate(lines) if word and word in line)
    at = next(there, len(lines))
    for number, line in enumerate(lines[at:]):
        found = _CITATION.search(line)
        if found:
            return int(found[1])
        if number and not line.startswith(_CONTINUED):
            return None
    return None


def program_file() -> Path:
    return Path(sys.argv[0]).resolve()


def _is_out_of_memory(problem: BaseException) -> bool:
    if isinstance(problem, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(problem) for words in _OUT_OF_MEMORY)


def _too_large(trace: TracebackType | None) -> Failure:
    """What to say when a batch does not fit into memory; the program calls its phase `phase`."""
    phases = [frame.f_locals.get("phase") for frame, _ in traceback.walk_tb(trace)]
    phase = next((found for found in phases if isinstance(found, Phase)), None)
    torch.cuda.empty_cache()
    fits = phase.batch_that_fits() if phase is not None else None
    if phase is None or fits is None:
        return Failure("out of memory", "try a smaller model, or smaller images")
    accumulate = -(-phase.data.batch_size * phase.accumulate // fits)
    return Failure(
        f"a batch of {phase.data.batch_size} does not fit into memory",
        f"a batch of {fits} does: write `train batch={fits}, accumulate={accumulate}`, which gives the same gradients",
        about="batch_size=",
    )
