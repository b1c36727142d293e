"""Running the program of a run folder from Python: its failure is a `Failure`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from leaven.runs.processes import ProgramFailed, run_in_process
from leaven.runtime.failures import Failure


def run_program(
    folder: Path, flags: Sequence[str], *, called: str = "", is_shown: bool = True, program: Path | None = None
) -> str:
    """What `run_in_process` returns."""
    with raised_as_failure():
        return run_in_process(folder, flags, called=called, is_shown=is_shown, program=program)


@contextmanager
def raised_as_failure() -> Iterator[None]:
    """Raise what a program has reported as a `Failure`, which those who call from Python expect."""
    try:
        yield
    except ProgramFailed as failed:
        raise Failure(failed.headline, failed.help) from None
