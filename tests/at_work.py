"""Running generated programs, and Leaven's helper processes, without loading torch each time.

A server process loads the libraries once and forks a child for every run, so that a run can be killed like any other
process. `OMP_NUM_THREADS=1` keeps the sums the same and the machine free for the other tests.
"""

import io
import multiprocessing
import os
import re
import runpy
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import count
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.forkserver import ensure_running
from pathlib import Path

import leaven
from leaven.bundle import tried
from leaven.bundle.tokenizer_trial import Limits
from leaven.catalog import process as helpers
from leaven.formats.run_folder import PLAN
from leaven.language.source import Source
from leaven.plan.plan_json import to_json
from leaven.planning.compiling import compile_source
from leaven.program.emit import emit
from leaven.recipe.recipe import Freezing
from leaven.runs import starting
from leaven.statements.options import Options

LIBRARIES = [
    "torch",
    "torchvision",
    "torchvision.transforms.v2",
    "timm",
    "torchmetrics",
    "lightning.fabric",
    "sklearn.datasets",
    "tensorboard",
    "torch.utils.flop_counter",
    "peft",
    "torch_pruning",
    "matplotlib.figure",
]
LEAVEN = ["leaven.runtime", "leaven.bundle", "leaven.tasks.classification"]
GOOD_END = "it ended well\n"
LIMIT = 300.0  # seconds after which a run hangs


def program(folder: Path, recipe: str, name: str = "recipe") -> Path:
    """The program that a recipe compiles to, written beside it, with its plan."""
    source = folder / f"{name}.leaven"
    source.write_text(recipe, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)  # from where the program will be started
    try:
        plan = leaven.make_plan(source)
        text = emit(plan)
    finally:
        os.chdir(before)
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    (folder / PLAN).write_text(to_json(plan, text), encoding="utf-8")
    return file


def new_run(folder: Path, recipe: str) -> Path:
    """The folder of a run as `leaven run` makes it, below `runs`, before its program is started."""
    source = Source("recipe.leaven", recipe, folder)
    compiled = compile_source(source, Options(output=str(folder / "runs")))
    assert compiled.recipe is not None, compiled.diagnostics
    assert compiled.plan is not None
    return starting.new_run(source, compiled.recipe, compiled.plan)[0]


@dataclass
class Running:
    """A program that was started, and what it has said so far."""

    process: ForkServerProcess
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def epochs(self) -> list[str]:
        """The epochs that it has trained, as `learn 2/3`."""
        return re.findall(r"^(\S.* \d+/\d+)  ", self.said, re.MULTILINE)

    def until(self, words: str) -> "Running":
        """Wait until it says something."""
        deadline = time.monotonic() + LIMIT
        while words not in self.said:
            assert self.process.is_alive(), f"it ended without saying {words!r}:\n{self.said}"
            assert time.monotonic() < deadline, f"it never said {words!r}:\n{self.said}"
            time.sleep(0.005)
        return self

    def end(self) -> int:
        """Wait until it ends; its exit code, negative for a signal."""
        self.process.join(LIMIT)
        assert self.process.exitcode is not None, f"it hangs:\n{self.said}"
        return self.process.exitcode


@dataclass(frozen=True)
class Moment:
    """When a run gets a signal: after a step of the optimizer, or before a file is put in its place.

    The run itself raises the signal, so that the moment is the same however busy the machine is.
    """

    step: int = 0  # of the whole run, counted from 1
    file: str = ""
    time: int = 1  # of those at which the file is written

    def __str__(self) -> str:
        return f"step {self.step}" if self.step else f"{self.file} {self.time}"

    def prepare(self, number: int) -> None:
        """In the child: arrange that the signal comes."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        steps, files = count(1), count(1)

        def after_step(*_: object) -> None:
            if next(steps) == self.step:
                os.kill(os.getpid(), number)

        def on_event(event: str, details: tuple[object, ...]) -> None:
            if event == "os.rename" and Path(os.fsdecode(details[1])).name == self.file and next(files) == self.time:
                os.kill(os.getpid(), number)

        register_optimizer_step_post_hook(after_step)
        sys.addaudithook(on_event)


def server() -> ForkServerContext:
    """The server of this session, started where no test has put a file named like a library."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*LIBRARIES, *LEAVEN])
    with chdir(Path(__file__).parent):
        ensure_running()
    return server


def start(
    file: Path,
    *flags: str,
    limits: dict[int, int] | None = None,
    moment: Moment | None = None,
    number: int = signal.SIGKILL,
    terminal: str = "",
    settings: dict[str, str] | None = None,
) -> Running:
    """Start a program in its folder. `limits` are of the resources that the system gives it, `settings` environment
    variables; at a `moment`, it gets the signal of that `number`. What it says goes to a log, or to a terminal, which
    whoever made it reads."""
    log = Path(terminal) if terminal else file.with_suffix(f".{time.monotonic_ns()}.log")
    log.touch()
    process = server().Process(target=_work, args=(file, flags, log, limits or {}, moment, number, settings or {}))
    process.start()
    return Running(process, log)


def start_many(files: Sequence[Path], *flags: str) -> Running:
    """Start one process that runs the programs one after the other; each has a log of its own beside it."""
    log = files[0].parent / f"{time.monotonic_ns()}.log"
    log.touch()
    process = server().Process(target=_work_through, args=(files, flags, log))
    process.start()
    return Running(process, log)


def run(file: Path, *flags: str) -> Running:
    """Run a program to its end, which must be a good one."""
    running = start(file, *flags)
    assert running.end() == 0, running.said
    return running


def kill(file: Path, *flags: str, at: Moment) -> None:
    """Start a program, and let it be killed."""
    running = start(file, *flags, moment=at)
    assert running.end() == -signal.SIGKILL, f"it was not killed:\n{running.said}"


def interrupt(file: Path, *flags: str, at: Moment) -> Running:
    """Start a program, and let it get a Ctrl-C; it has to end as such a program should."""
    running = start(file, *flags, moment=at, number=signal.SIGINT)
    assert running.end() == 128 + signal.SIGINT, running.said
    return running


def start_processes(
    count: int, file: Path, *flags: str, moment: Moment | None = None, number: int = signal.SIGKILL
) -> list[Running]:
    """Start a program in several processes that train together, as torchrun would."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "tests"}
    started = []
    for rank in range(count):
        settings = {"RANK": rank, "LOCAL_RANK": rank, **together, **where}
        words = {name: str(value) for name, value in settings.items()}
        started.append(start(file, *flags, moment=moment, number=number, settings=words))
    return started


def run_processes(count: int, file: Path, *flags: str) -> Running:
    """Run a program in several processes to its good end; the first speaks for all."""
    started = start_processes(count, file, *flags)
    assert [running.end() for running in started] == [0] * count, "\n".join(running.said for running in started)
    return started[0]


def interrupt_processes(count: int, file: Path, *flags: str, at: Moment) -> Running:
    """Start a program in several processes, and let each get a Ctrl-C; they have to end as they should."""
    started = start_processes(count, file, *flags, moment=at, number=signal.SIGINT)
    ended = [running.end() for running in started]
    assert ended == [128 + signal.SIGINT] * count, "\n".join(running.said for running in started)
    return started[0]


def run_each(files: Sequence[Path], *flags: str) -> dict[Path, str]:
    """Run many small programs one after the other in one process; of those that end badly, what they said."""
    running = start_many(files, *flags)
    assert running.end() == 0, running.said
    ended = {file: file.with_suffix(".log").read_text(encoding="utf-8") for file in files}
    return {file: said for file, said in ended.items() if not said.endswith(GOOD_END)}


def run_folder(file: Path, output: str = "runs") -> Path:
    """The newest run below an output folder."""
    return max((file.parent / output).glob("*/*" if output == "runs" else "*"), key=lambda path: path.name)


def become_a_process(log: Path | str) -> None:
    """In a child: one thread, all that it prints goes to a file, new processes start as they would anywhere, but for
    Leaven's helpers, and Ctrl-C interrupts, even where a shell runs the tests in the background and ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    helpers.run = help_quickly
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    multiprocessing.set_start_method(multiprocessing.get_all_start_methods()[0], force=True)
    said = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)


def _work(
    file: Path,
    flags: tuple[str, ...],
    log: Path,
    limits: dict[int, int],
    moment: Moment | None,
    number: int,
    settings: dict[str, str],
) -> None:
    """In the child: what the program says goes to the log, and its exit code is the process's."""
    become_a_process(log)
    os.environ.update(settings)
    if limits:
        import resource

        for kind, limit in limits.items():
            resource.setrlimit(kind, (limit, limit))
    if moment is not None:
        moment.prepare(number)
    os.chdir(file.parent)
    sys.argv = [str(file), *flags]
    runpy.run_path(str(file), run_name="__main__")


def _work_through(files: Sequence[Path], flags: tuple[str, ...], log: Path) -> None:
    """In the child: every program as if it were the only one."""
    become_a_process(log)
    for file in files:
        with file.with_suffix(".log").open("w", encoding="utf-8") as own, redirect_stdout(own), redirect_stderr(own):
            os.chdir(file.parent)
            sys.argv = [str(file), *flags]
            try:
                runpy.run_path(str(file), run_name="__main__")
                print(GOOD_END, end="")
            except SystemExit as end:
                print(GOOD_END if not end.code else f"exit code {end.code}", end="")
            except Exception:
                traceback.print_exc()


# -- helper processes

in_a_new_process = helpers.run
_PYTHONPATH = os.environ.get("PYTHONPATH")


def help_quickly(
    module: str, *arguments: str, text: str = "", seconds: float, meanwhile: Callable[[], None] | None = None
) -> helpers.ProcessResult:
    """What `leaven.catalog.process.run` answers, from a process that need not load torch.

    Whatever goes wrong there is left to a new process, so that tests see what users see.
    """
    if text and os.environ.get("PYTHONPATH") == _PYTHONPATH:
        is_child = multiprocessing.parent_process() is not None  # which has torch
        context = multiprocessing.get_context("fork") if is_child else server()
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder, "answer")
            answer.touch()
            child = context.Process(target=_answer, args=(module, arguments, text, answer, dict(os.environ)))
            child.start()
            child.join(seconds)
            if child.exitcode == 0:
                return helpers.ProcessResult(answer.read_text(encoding="utf-8"))
            child.kill()
    return in_a_new_process(module, *arguments, text=text, seconds=seconds, meanwhile=meanwhile)


def _answer(module: str, arguments: tuple[str, ...], text: str, answer: Path, environment: dict[str, str]) -> None:
    """In the child: be the helper. It may print what it likes as an error."""
    os.environ.update(environment)
    sys.stdin = io.StringIO(text)
    os.dup2(os.open(answer, os.O_WRONLY | os.O_APPEND), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")


run_limited = tried.run_limited


def try_quickly(words: Sequence[str], limits: Limits, to_do: str) -> tuple[str, str]:
    """What `leaven.bundle.tried.run_limited` answers, from a process that need not load torch.

    What does not end well there is left to a new process, so that tests see what users see.
    """
    if words[0] == "-m" and multiprocessing.parent_process() is None:
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as answer:
            arguments = (words[1], tuple(words[2:]), "", Path(answer.name), dict(os.environ))
            child = server().Process(target=_answer, args=arguments)
            child.start()
            child.join(LIMIT)
            if child.exitcode == 0:
                return answer.read().strip(), ""
    return run_limited(words, limits, to_do)


# -- programs that Leaven starts


def run_quickly(
    words: Sequence[str], start: Path, settings: dict[str, str], *, is_shown: bool, is_terminal: bool
) -> tuple[str, int]:
    """What `leaven.runs.processes.run_command` answers, from a process that need not load torch."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        process = server().Process(target=_be_program, args=(list(words[2:]), start, settings, log.name))
        process.start()
        process.join(LIMIT)
        said = log.read()
    assert process.exitcode is not None, f"it hangs:\n{said}"
    if is_shown:
        print(said, end="")
    return "" if is_shown else said, process.exitcode


def run_in_a_fork(
    words: Sequence[str], start: Path, settings: dict[str, str], *, is_shown: bool, is_terminal: bool
) -> tuple[str, int]:
    """The same in a process that has torch loaded: what the program says goes where this process writes."""
    log = "/proc/self/fd/1"
    process = multiprocessing.get_context("fork").Process(
        target=_be_program, args=(list(words[2:]), start, settings, log)
    )
    process.start()
    process.join(LIMIT)
    assert process.exitcode is not None, "it hangs"
    return "", process.exitcode


def _be_program(words: list[str], start: Path, settings: dict[str, str], log: str) -> None:
    """In the child: be the program, without its launcher."""
    become_a_process(log)
    os.environ.update(settings)
    os.chdir(start)
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


def frozen_in(freezing: Freezing, epoch: int) -> frozenset[str]:
    """The parameters that are frozen in an epoch, counted from 0; all numbers of epochs must be known."""
    due = frozenset().union(*(one.parameters for one in freezing.later if one.at.value.amount <= epoch))
    return freezing.at_first - due
