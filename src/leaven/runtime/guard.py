"""The frame around a program's `main`: what goes wrong is said in a few lines that point at the recipe."""

import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import torch

from leaven.runtime.failures import Failure, Stopped

INTERRUPTED = 130
_CITATION = re.compile(r"#.*?\bline (\d+)")
_RECIPE = re.compile(r'"""(\S+\.leaven), compiled by Leaven')


def guard(main: Callable[[], None]) -> None:
    """Run a program; a failure is told in the recipe's terms, and the exit code says how it went."""
    try:
        main()
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Failure as failure:
        print(report(failure.headline, failure.help, failure.__traceback__, program_file()), file=sys.stderr)
        sys.exit(1)
    except torch.OutOfMemoryError as failure:
        help_text = "use a smaller `batch`, with `accumulate` to keep its effect"
        print(
            report("the batch does not fit into the device's memory", help_text, failure.__traceback__, program_file()),
            file=sys.stderr,
        )
        sys.exit(1)


def report(headline: str, help_text: str, trace: TracebackType | None, program: Path) -> str:
    """One fact, the recipe line it belongs to, and what to do."""
    lines = [f"error: {headline}"]
    text = program.read_text(encoding="utf-8") if program.is_file() else ""
    cited = cited_line(trace, program, text.splitlines())
    recipe = _RECIPE.match(text)
    if cited is not None and recipe:
        lines.append(f"  --> {recipe[1]}:{cited}")
    if help_text:
        lines.append(f"help: {help_text}")
    return "\n".join(lines)


def cited_line(trace: TracebackType | None, program: Path, lines: list[str]) -> int | None:
    """The recipe's line that the program cites at or above the line where a failure came through."""
    for frame in reversed(traceback.extract_tb(trace)):
        if Path(frame.filename) == program and frame.lineno is not None:
            for line in reversed(lines[: frame.lineno]):
                found = _CITATION.search(line)
                if found:
                    return int(found[1])
                if line.startswith("def "):
                    break
    return None


def program_file() -> Path:
    return Path(sys.argv[0]).resolve()
