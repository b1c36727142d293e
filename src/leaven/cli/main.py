"""The command `leaven`. Each subcommand reads its arguments and calls one function."""

import atexit
import gc
import io
import os
import sys

import click

from leaven import __version__
from leaven.cache.store_limit import StoreError, chosen_limit
from leaven.cli.command_group import Commands, Later
from leaven.cli.exit_codes import CANT_WRITE, INTERRUPTED, OUR_BUG, USAGE_ERROR
from leaven.cli.printing import echo, echo_raw


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="leaven")
def leaven() -> None:
    """Fine-tune, distill and prune pre-trained PyTorch models, by short recipes.

    \b
    A recipe names the model, the data and how to train:
        model resnet18(pretrained=true)
        data  folder("photos")
        train epochs=10

    \b
    First steps:
        leaven new photos          write a recipe for a folder of images
        leaven check photos.leaven find errors before training
        leaven show photos.leaven  print it with all defaults filled in
        leaven run photos.leaven   train
        leaven predict runs/photos photo.jpg
    """
    try:
        chosen_limit()  # any command may lead to a run, which would find it late
    except StoreError as problem:
        raise click.UsageError(str(problem)) from None


_COMMANDS = {  # where each is, and what the list of commands says of it
    "check": ("check:check_recipes", "Find the errors in a recipe, without running it."),
    "show": ("show:show_recipe", "Print a recipe with all defaults filled in."),
    "inspect": ("inspect:print_layers", "List the model's layers."),
    "format": ("format:format_files", "Format recipes in place."),
    "new": ("new:write_first_recipe", "Write a first recipe for a folder of images or texts, or for a table."),
    "explain": ("catalog:explain", "Explain a report or a name in the catalog."),
    "catalog": ("catalog:catalog", "Look up models, datasets, techniques, …"),
    "plan": ("run:print_plan", "Print what a recipe does, step by step, and why."),
    "generate": ("run:write_program", "Print the PyTorch program of a recipe."),
    "look": ("look:draw_look", "Draw what a recipe trains on."),
    "trace": ("trace:trace_sample", "Show what the transforms do to one sample."),
    "run": ("run:start_run", "Check a recipe, compile it, and train."),
    "resume": ("run:resume_run", "Resume an interrupted run, or train a finished one further."),
    "finish": ("run:finish_run", "Save the model of a run that was stopped."),
    "predict": ("bundle:predict", "Predict with a trained model."),
    "tinker": ("tinker:tinker", "Change a photo or a text, and see what a model answers."),
    "why": ("why:why", "Show which pixels or words an answer rests on."),
    "errors": ("errors:errors", "Show the mistakes of a model: the most confident ones, and what they have in common."),
    "compare": ("compare:compare", "Compare two runs, models or recipes."),
    "lab": ("lab:lab", "Serve the lab over HTTP: questions to models, runs and recipes."),
    "evaluate": ("bundle:evaluate", "Evaluate a trained model on labelled images or texts."),
    "export": ("bundle:export", "Convert a model for other programs."),
    "submit": ("submit:submit", "Queue a recipe, to be trained by a coordinator."),
    "jobs": ("jobs:jobs", "List jobs, or change them."),
    "env": ("jobs:env", "List and check the environments where jobs can run."),
    "coordinator": ("jobs:coordinator", "Start, stop and look at the process that runs jobs."),
    "pack": ("submit:pack", "Write a job package of a recipe."),
    "cache": ("cache:cache", "List, verify and clear what runs have stored."),
}
for _name, (_place, _summary) in _COMMANDS.items():
    leaven.add_command(Later(_name, _place, _summary))


@leaven.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_script(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    For example, in ~/.bashrc:
        eval "$(leaven completion bash)"
    """
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None
    echo_raw(completer(leaven, {}, "leaven", "_LEAVEN_COMPLETE").source())


def main() -> None:
    """The command `leaven`. Any failure is one line; LEAVEN_DEBUG=1 shows the traceback."""
    # Most commands are short, and what they make lives to the end: collecting it takes a tenth of a check's time.
    gc.set_threshold(200_000)
    atexit.register(_skip_last_collection)
    _accept_any_output()
    try:
        sys.exit(leaven.main(prog_name="leaven", standalone_mode=False))
    except click.ClickException as problem:
        shown = io.StringIO()
        (_with_habit(problem) if isinstance(problem, click.NoSuchOption) else problem).show(shown)
        echo(shown.getvalue(), err=True, nl=False)
        sys.exit(problem.exit_code)
    except (click.Abort, KeyboardInterrupt):
        echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Exception as failure:
        sys.exit(_failed(failure))


def _with_habit(problem: click.NoSuchOption) -> click.UsageError:
    """The report on an unknown option, with what an option of another tool is called here."""
    from leaven.catalog.habits import option_for

    command, name = str(problem.ctx.info_name if problem.ctx is not None else ""), problem.option_name
    meant = option_for(command, name)
    return click.UsageError(f"unknown option `{name}`. Did you mean `{meant}`?", problem.ctx) if meant else problem


def _skip_last_collection() -> None:
    """Leave the memory of a short command to the system. Triton, which torch imports, reports what isn't collected."""
    if "torch" not in sys.modules:
        gc.freeze()


def _accept_any_output() -> None:
    """Let anything be printed: characters that the encoding lacks are escaped, a closed stream discards."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for as long as we run
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _failed(failure: Exception) -> int:
    """Print what went wrong; returns the exit code."""
    if isinstance(failure, FileNotFoundError) and failure.filename is None:  # only the current directory has no name
        echo("the current directory no longer exists", err=True)
        return USAGE_ERROR
    if isinstance(failure, OSError) and failure.filename is None:  # not a file that was to be opened, so the output
        echo(f"could not write the output: {failure.strerror}", err=True)
        return CANT_WRITE
    if os.environ.get("LEAVEN_DEBUG"):
        raise failure
    if isinstance(failure, OSError) and failure.strerror:
        echo(f"error: {os.fsdecode(failure.filename)}: {failure.strerror}", err=True)
        return USAGE_ERROR
    what = f"{type(failure).__name__}: {failure}"
    echo(f"Leaven itself failed ({what}). This is a bug; LEAVEN_DEBUG=1 shows where.", err=True)
    return OUR_BUG


if __name__ == "__main__":
    main()
