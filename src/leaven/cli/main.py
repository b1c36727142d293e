"""The command `leaven`. Each subcommand reads its arguments and calls one function."""

import atexit
import gc
import io
import os
import sys
from pathlib import Path
from typing import Any

import click

from leaven import __version__
from leaven.cache.store_limit import StoreError, chosen_limit
from leaven.cli import bundle, cache, completion, environments, jobs, tinker
from leaven.cli.command_group import Commands
from leaven.cli.kinds import Kind
from leaven.cli.printing import echo, echo_painted, echo_raw
from leaven.cli.recipe_command import CANT_WRITE, USAGE_ERROR, RecipeCommand, report_and_exit

INTERRUPTED = 130  # the exit code that shells use for Ctrl-C
OUR_BUG = 70  # EX_SOFTWARE
_PATH = click.Path(path_type=Path)


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


@leaven.command(cls=RecipeCommand, takes_several=True)
@click.option("--json", "as_json", is_flag=True, help="Print the reports as JSON.")
@click.option("--concise", is_flag=True, help="Print one line per report.")
@click.option(
    "--run-code", is_flag=True, help="Also import your Python files, to check what their source alone does not tell."
)
def check(recipes: list[Any], options: Any, as_json: bool, concise: bool, run_code: bool) -> None:
    """Find the errors in a recipe, without running it.

    Options of the recipe (each `arg` is one: --lr 1e-4) are checked, too. Exit code 1 means that the recipe has
    errors, 2 that only the command line has.
    """
    from leaven.cli.check import check_recipes

    sys.exit(check_recipes(recipes, options, as_json=as_json, concise=concise, run_code=run_code))


@leaven.command(cls=RecipeCommand)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(recipes: list[Any], options: Any, as_json: bool) -> None:
    """Print a recipe with all defaults filled in.

    Comments say where each value comes from.
    """
    from leaven.recipe import show as showing

    recipe = report_and_exit(recipes[0], options)
    if as_json:
        import json

        from leaven.recipe.plain_data import to_json

        echo(json.dumps(to_json(recipe), indent=2))
    else:
        from leaven.cli.printing import echo_file
        from leaven.language.highlight import highlight
        from leaven.terminal.colors import painter, wants_color
        from leaven.terminal.visible import visible_lines
        from leaven.terminal.width import width_of

        color = wants_color(sys.stdout)
        text = showing.to_text(recipe, width_of(sys.stdout))
        if color:
            echo_painted(highlight(visible_lines(text), painter(color)), nl=False, color=color)
        else:
            echo_file(text)


@leaven.command(cls=RecipeCommand)
@click.option(
    "--run-code", is_flag=True, help="Import your Python files, to list the layers of a model that they define."
)
def inspect(recipes: list[Any], options: Any, run_code: bool) -> None:
    """List the model's layers.

    Prints the name by which a selector means each layer, its size and cost, and what each phase does to it. The name
    of a model in place of a RECIPE lists the layers of that model: leaven inspect resnet18
    """
    from leaven.cli.inspect import print_layers

    print_layers(recipes[0], options, run_code=run_code)


@leaven.command("format")
@click.argument("files", nargs=-1, required=True, type=_PATH, metavar="RECIPE...")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit code 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Print the changes as a diff, and change nothing.")
def format_command(files: tuple[Path, ...], only_check: bool, diff: bool) -> None:
    """Format recipes in place.

    Comments and meaning are kept. `-` reads a recipe from standard input and prints it.
    """
    from leaven.cli.format import format_files

    sys.exit(format_files(files, only_check=only_check, diff=diff))


@leaven.command()
@click.argument("folder", required=False, type=click.Path())
@click.option("--model", help="The model to start from, as in a recipe: resnet18, torchvision.vgg16, …")
@click.option("--epochs", type=click.IntRange(min=1), help="How many epochs to train.")
@click.option("-o", "--output", type=click.Path(), help="Where to write the recipe; - prints it.")
@click.option("--scratch", is_flag=True, help="Train from scratch instead of starting from trained weights.")
@click.option("--force", is_flag=True, help="Overwrite an existing recipe.")
@click.option("--text", multiple=True, metavar="COLUMN", help="The column of a table (or two) with the texts.")
@click.option("--image", metavar="COLUMN", help="The column of a table with the paths of images.")
@click.option("--root", type=click.Path(), help="Where the paths in a table start.")
@click.option("--label", metavar="COLUMN", help="The column with the class.")
@click.option("--labels", multiple=True, metavar="COLUMN", help="The column (or columns) with several labels per row.")
@click.option("--target", metavar="COLUMN", help="The column with a number to predict.")
@click.option("--decimal", type=click.Choice([".", ","]), help="The decimal mark of numbers to predict.")
@click.option("--header/--no-header", default=None, help="Whether the first line of a table names its columns.")
@click.option("--columns", metavar="NAMES", help="Names for the columns of a table without a header: label,title,text")
@click.option("--separator", metavar="TEXT", help="The character between columns; \\t is a tab.")
@click.option("--quote", metavar="TEXT", help="The character around cells; none: quotes are part of the text.")
@click.option("--encoding", help="The encoding of a table, such as cp1252.")
def new(
    folder: str | None,
    model: str | None,
    epochs: int | None,
    output: str | None,
    scratch: bool,
    force: bool,
    columns: str | None,
    separator: str | None,
    **options: Any,
) -> None:
    """Write a first recipe for a folder of images or texts, or for a table.

    The folder has one sub-folder per class, or train/ and val/ that have those; or it has tables, train.csv and
    test.csv. A table (.csv, .tsv, .jsonl, .parquet, or a text file of any name) has texts or the paths of images in one
    column, and labels in another. What was understood is printed; in a terminal, it asks where it is not sure.
    """
    from leaven.cli.new import write_first_recipe
    from leaven.first.options import TableOptions

    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    mark = separator.replace("\\t", "\t") if separator else None
    about_table = TableOptions(**options, columns=names, separator=mark)
    write_first_recipe(folder, about_table, model=model, epochs=epochs, output=output, scratch=scratch, force=force)


@leaven.command()
@click.argument("id", required=False, shell_complete=completion.reports_and_cards)
def explain(id: str | None) -> None:
    """Explain a report or a name in the catalog.

    ID is the id of a report (unknown-layer) or a name (mixup). Without it, all ids of reports are listed.
    """
    from leaven.cli.catalog import print_explanation

    sys.exit(print_explanation(id))


@leaven.group(cls=Commands)
def catalog() -> None:
    """Look up models, datasets, techniques, …"""


_kind = click.option("--kind", type=Kind(), metavar="KIND", help="Only this kind: model, optimizer, dataset, …")


@catalog.command()
@click.argument("words", nargs=-1, shell_complete=completion.cards)
@_kind
@click.option("--limit", type=click.IntRange(min=1), help="How many to print at most [default: 20; with --kind, all].")
def search(words: tuple[str, ...], kind: str | None, limit: int | None) -> None:
    """Search the catalog.

    An entry must contain all the words, in its name, summary, arguments or article; matches in the name come first,
    then those in the summary. Without words, all entries are listed.
    """
    from leaven.cli.catalog import print_matches

    sys.exit(print_matches(words, kind, limit))


@catalog.command("show")
@click.argument("name", shell_complete=completion.cards)
@_kind
def show_card(name: str, kind: str | None) -> None:
    """Print the card of a name: arguments, defaults and article."""
    from leaven.cli.catalog import print_card

    sys.exit(print_card(name, kind))


@leaven.command(cls=RecipeCommand)
def plan(recipes: list[Any], options: Any) -> None:
    """Print what a recipe does, step by step, and why."""
    from leaven.cli.run import print_plan

    print_plan(recipes[0], options)


@leaven.command(cls=RecipeCommand)
@click.option("-o", "--program", type=_PATH, help="Write it to a file, such as train.py.")
@click.option("--standalone", is_flag=True, help="Write a program that runs without Leaven.")
def generate(recipes: list[Any], options: Any, program: Path | None, standalone: bool) -> None:
    """Print the PyTorch program of a recipe.

    It is the program that `leaven run` runs.
    """
    from leaven.cli.run import write_program

    write_program(recipes[0], options, program, is_standalone=standalone)


@leaven.command(cls=RecipeCommand)
@click.option("-o", "--picture", type=_PATH, help="Where to draw it. [beside the recipe: dogs_look.png]")
@click.option("--split", type=click.Choice(["train", "val", "test"]), default="train", help="Which split. [train]")
@click.option("--epoch", type=click.IntRange(min=1), default=1, help="Of which epoch the first batch is drawn. [1]")
def look(recipes: list[Any], options: Any, picture: Path | None, split: Any, epoch: int) -> None:
    """Draw what a recipe trains on.

    The picture has a sample after each of its transforms, and the first batch with its labels, as a run trains on it.
    Needs matplotlib: pip install matplotlib. Of texts, the tokens of the first batch are printed.
    """
    from leaven.cli.look import draw_look

    sys.exit(draw_look(recipes[0], options, picture, split, epoch))


@leaven.command(cls=RecipeCommand)
@click.option("--quick", is_flag=True, help="Smoke test: two batches through every phase, in seconds.")
@click.option("--name", help="The name of the run's folder. [the time]")
@click.option("--from", "from_phase", metavar="PHASE", help="Start at this phase, with the weights of an earlier run.")
@click.option("--of", metavar="RUN", help="With --from: that earlier run. [the newest]")
def run(
    recipes: list[Any], options: Any, quick: bool, name: str | None, from_phase: str | None, of: str | None
) -> None:
    """Check a recipe, compile it, and train."""
    from leaven.cli.run import start_run

    start_run(recipes[0], options, is_quick=quick, name=name, from_phase=from_phase, of=of)


@leaven.command()
@click.argument(
    "folder",
    metavar="RUN",
    type=click.Path(path_type=Path, file_okay=False),
    shell_complete=completion.unfinished_runs,
)
@click.option("--epochs", metavar="+N", help="Train a finished run for N more epochs.")
@click.option("--devices", type=click.IntRange(min=1), metavar="N", help="Train on another number of devices.")
def resume(folder: Path, epochs: str | None, devices: int | None) -> None:
    """Resume an interrupted run, or train a finished one further.

    RUN is the folder of a run; of a folder of runs, the newest is used.
    """
    from leaven.cli.run import resume_run

    resume_run(folder, epochs, devices)


@leaven.command()
@click.argument("place", metavar="RUN", type=_PATH, shell_complete=completion.unfinished_runs)
@click.option("-o", "--output", type=_PATH, help="Write only this bundle; the run may go on.")
def finish(place: Path, output: Path | None) -> None:
    """Save the model of a run that was stopped.

    RUN is the folder of a run; of a folder of runs, the newest is used. Its best epoch so far is measured on the test
    split and saved as model.bundle. `leaven resume` can still train the rest.

    With --output, only that file is written, without test scores: so the model of a run that is still going can be
    tried. A checkpoint in the folder of a run, such as last.ckpt or phase1.ckpt, means its weights.
    """
    from leaven.cli.run import finish_run

    finish_run(place, output)


for _command in (bundle.predict, bundle.evaluate, bundle.export, tinker.tinker):
    leaven.add_command(_command)
for _command in (jobs.submit, jobs.jobs, environments.env, jobs.coordinator, jobs.pack):
    leaven.add_command(_command)


leaven.add_command(cache.cache)


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
    from leaven.catalog.habits import OTHER_OPTIONS

    command, name = str(problem.ctx.info_name if problem.ctx is not None else ""), problem.option_name
    meant = OTHER_OPTIONS.get(command, {}).get(name.lstrip("-"))
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
