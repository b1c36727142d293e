"""Running a program as a process of its own: what it prints, how it ends. Nothing here imports torch.

In a terminal the program prints there itself, with its progress bar; elsewhere (a notebook) its lines are printed.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from leaven.formats import run_folder
from leaven.terminal.problem import Problem

_LAUNCH = Path(__file__).with_name("launch.py")
INTERRUPTED = 130  # the exit code of a program that was asked to stop, and has saved


class ProgramFailed(Problem):
    """A program has failed, and reported why."""


def command(folder: Path, flags: Sequence[str], program: Path | None = None) -> list[str]:
    """The command that runs a program in a run folder, by default its own, from its last checkpoint if it has one."""
    return _launched(program or folder / run_folder.PROGRAM, ["--resume", str(folder), *flags])


def _launched(file: Path, words: Sequence[str]) -> list[str]:
    return [sys.executable, str(_LAUNCH), str(file), *words]


@contextmanager
def raised_as_failure() -> Iterator[None]:
    """Raise the failure that a program has reported as a `Failure`, which callers from Python expect."""
    from leaven.runtime.failures import Failure

    try:
        yield
    except ProgramFailed as failed:
        raise Failure(failed.headline, failed.help) from None


def run_in_process(
    folder: Path, flags: Sequence[str], *, called: str = "", is_shown: bool = True, program: Path | None = None
) -> str:
    """Run the program of a run to its end; what it printed, unless that is shown. `called` is what the lock says of it.

    Another program, one that was compiled here, runs in the current folder.

    Ctrl-C asks the program to save and stop, and is raised when it has. A failure is raised with its report.
    """
    start = run_folder.started_in(folder) if program is None else Path.cwd()
    words = command(_seen_from(start, folder), flags, program)
    return _run(words, start, called, is_shown=is_shown)


def run_trials(file: Path, sweep: Path, trials: Sequence[str], called: str) -> None:
    """Run the file that trains trials of a sweep together."""
    start = run_folder.started_in(sweep)
    _run(_launched(file, [str(_seen_from(start, sweep)), *trials]), start, called, is_shown=True)


def _seen_from(start: Path, folder: Path) -> Path:
    place = folder.resolve()
    return place.relative_to(start) if place.is_relative_to(start) else place


def _run(words: Sequence[str], start: Path, called: str, *, is_shown: bool) -> str:
    with tempfile.TemporaryDirectory(prefix="leaven-") as temporary:
        report = Path(temporary, "report")
        settings = {**os.environ, run_folder.COMMAND: called, run_folder.REPORT: str(report)}
        is_terminal = is_shown and sys.stdout is not None and sys.stdout is sys.__stdout__
        printed, code = run_command(words, start, settings, is_shown=is_shown, is_terminal=is_terminal)
        told = report.read_text(encoding="utf-8") if report.is_file() else ""
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        reported = told or printed or f"the program ended with exit code {code}"
        headline, _, help = reported.strip().removeprefix("error: ").partition("\nhelp: ")
        raise ProgramFailed(headline, help)
    return printed


def run_command(
    words: Sequence[str], start: Path, settings: dict[str, str], *, is_shown: bool, is_terminal: bool
) -> tuple[str, int]:
    """Run a command in a folder; what it printed, unless that is shown, and its exit code."""
    if not is_terminal:
        settings = {**settings, "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(
        words,
        cwd=start,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=None if is_terminal else subprocess.PIPE,
        stderr=None if is_terminal else subprocess.STDOUT,
        encoding=None if is_terminal else "utf-8",
        errors=None if is_terminal else "replace",
        start_new_session=True,  # a Ctrl-C comes from here, once, also in notebooks
    )
    lines: list[str] = []
    while True:
        try:
            for line in process.stdout or ():
                if is_shown:
                    print(line, end="", flush=True)
                else:
                    lines.append(line)
            return "".join(lines), process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
        except BaseException:
            process.kill()
            raise
