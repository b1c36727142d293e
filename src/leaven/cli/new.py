"""`leaven new`: asks what a first recipe needs, and writes it."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from leaven.cli.printing import echo, echo_file
from leaven.cli.recipe_command import print_reports
from leaven.files.atomic_files import write_text
from leaven.first.folders import FolderLook, file_name_for
from leaven.first.options import Guess, NotUnderstood, TableOptions
from leaven.first.places import Look, look_at
from leaven.first.recipes import EPOCHS, first_recipe, suggested_models
from leaven.first.table import TableLook
from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.terminal.commands import typed

STANDARD_OUTPUT = "-"


@click.command("new")
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
def write_first_recipe(
    folder: str | None,
    model: str | None,
    epochs: int | None,
    output: str | None,
    scratch: bool,
    force: bool,
    columns: str | None,
    separator: str | None,
    **about_table: Any,
) -> None:
    """Write a first recipe for a folder of images or texts, or for a table.

    The folder has one sub-folder per class, or train/ and val/ that have those; or it has tables, train.csv and
    test.csv. A table (.csv, .tsv, .jsonl, .parquet, or a text file of any name) has texts or the paths of images in one
    column, and labels in another. What was understood is printed; in a terminal, it asks where it is not sure.
    """
    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    mark = separator.replace("\\t", "\t") if separator else None
    options = TableOptions(**about_table, columns=names, separator=mark)
    is_printed = output == STANDARD_OUTPUT
    target = None if output is None else _target(output, force)  # refused before any question
    can_ask = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if folder is None and not can_ask:
        raise click.UsageError("no folder given. For example: leaven new photos")

    def looked(word: str) -> Look:
        if not word.strip():
            raise click.UsageError("the folder name is empty. For example: leaven new photos")
        return look_and_ask(Path(os.path.expanduser(word)), options, can_ask=can_ask, err=is_printed)

    asked = "Which folder holds the images?"
    look = looked(folder) if folder is not None else click.prompt(asked, value_proc=looked, err=is_printed)
    target = target or _target(f"{file_name_for(look.path)}.leaven", force)
    echo(look.seen, err=is_printed)
    models = suggested_models(look, scratch)
    if model is None:
        model = next(iter(models))
        if can_ask:
            for name, use in models.items():
                echo(f"  {name:<20} {use}", err=is_printed)
            model = str(click.prompt("Which model to start from?", default=model, err=is_printed))
    if epochs is None and can_ask and isinstance(look, FolderLook) and look.noun == "images":
        epochs = click.prompt("How many epochs?", default=EPOCHS, type=click.IntRange(min=1), err=is_printed)
    _write(first_recipe(look, target, model, epochs, scratch), target, is_printed=is_printed)


def look_and_ask(path: Path, options: TableOptions, *, can_ask: bool, err: bool) -> Look:
    """A look at data; in a terminal, after questions about what was only guessed. A usage error where it can't be
    used."""
    while True:
        try:
            look = look_at(path, options)
        except NotUnderstood as problem:
            raise click.UsageError(str(problem)) from None
        guesses = look.guesses if isinstance(look, TableLook) else ()
        if not can_ask or not guesses:
            return look
        echo(f"{look.path}: {guesses[0].explanation}?", err=err)
        options = _answered(guesses[0], options, err=err)


def _answered(guess: Guess, options: TableOptions, *, err: bool) -> TableOptions:
    """The options, with the answer to a question."""
    if guess.about == "header":
        return replace(options, header=click.confirm(guess.question, default=bool(guess.answer), err=err))
    if guess.about == "labels":
        are_several = click.confirm(guess.question, default=bool(guess.answer), err=err)
        return replace(options, labels=guess.choices) if are_several else replace(options, label=guess.choices[0])
    choice = click.Choice(guess.choices)
    answer = click.prompt(guess.question, default=guess.answer, type=choice, err=err)
    if answer == "all":
        return replace(options, labels=tuple(each for each in guess.choices if each != "all"))
    about: dict[str, Any] = {guess.about: (answer,) if guess.about == "text" else answer}
    return replace(options, **about)


def _write(text: str, target: Path, *, is_printed: bool) -> None:
    """Write the recipe if it has no errors; an unknown model is reported before."""
    checked = check(Source(str(target), text, target.parent))
    if checked.recipe is None:
        print_reports([d for d in checked.diagnostics if d.is_error], err=True)
        echo("nothing was written", err=True)
        sys.exit(1)
    if is_printed:
        echo_file(text)
        return
    try:
        write_text(target, text)
    except OSError as problem:
        raise click.UsageError(f"{target} can't be written: {problem.strerror}") from None
    echo(f"\n{text}\nwritten to {target}; next: leaven check {typed(target)}")


def _target(output: str, force: bool) -> Path:
    """Where the recipe is written; a path where it can't be is a usage error."""
    if output == STANDARD_OUTPUT:
        return Path("recipe.leaven")
    target = Path(os.path.expanduser(output))
    if not output or target.is_dir():
        fault = f"{target} is a folder" if output else "the file name is empty"
        raise click.UsageError(f"{fault}; give a file name: -o dogs.leaven")
    if target.exists() and not force:
        raise click.UsageError(f"{target} already exists; --force overwrites it, -o writes elsewhere")
    if not target.parent.is_dir():
        raise click.UsageError(f"the folder {target.parent} does not exist")
    return target
