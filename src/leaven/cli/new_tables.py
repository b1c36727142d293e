"""`leaven new` for tables: which table is meant, and questions about what it has."""

from dataclasses import replace
from pathlib import Path

import click

from leaven.cli.printing import echo
from leaven.first.options import Guess, TableOptions
from leaven.first.roles import LISTED
from leaven.first.table import TableLook, look_at_table, tables_at
from leaven.formats.commands import typed
from leaven.formats.image_folder import is_image, looks_split, read_image_folder
from leaven.formats.tables import is_table
from leaven.sources.formats_of_boxes import source_in
from leaven.sources.mask_folder import looks_like_masks
from leaven.sources.text_folder import TextFolder

_NOT_TABLES = {
    ".leaven": None,
    ".json": "is JSON; one object per line is a table: `jq -c '.[]' {0} > {1}.jsonl`, or rename a file that has it so",
    ".xlsx": "is a spreadsheet; save it as csv",
    ".xls": "is a spreadsheet; save it as csv",
    ".ods": "is a spreadsheet; save it as csv",
    ".zip": "is an archive; unpack it first",
    ".gz": "is compressed; unpack it first",
    ".tar": "is an archive; unpack it first",
    ".tgz": "is an archive; unpack it first",
    ".7z": "is an archive; unpack it first",
}


def table_at(path: Path) -> Path | None:
    """The table that is meant by a path: a file, a folder of tables, or the table in a folder of images."""
    if path.is_file():
        if is_image(path.name) or (not is_table(path) and path.suffix.lower() in _NOT_TABLES):
            fact = _NOT_TABLES.get(path.suffix.lower())
            if fact:
                raise click.UsageError(f"{path} {fact.format(path, path.with_suffix(''))}")
            return None
        return path
    if not path.is_dir() or _has_classes(path):
        return None
    if tables_at(path):
        return path
    found = sorted(file for file in path.iterdir() if file.is_file() and is_table(file))
    tables = [file for file in found if "submission" not in file.stem.lower()]
    if len(tables) > 1 and any(finding.is_error for finding in TextFolder(path, path.as_posix()).look().findings):
        names = ", ".join(file.name for file in tables[:LISTED]) + ", …" * (len(tables) > LISTED)
        advice = f"name the one with the labels: leaven new {typed(tables[0])}"
        if looks_split([file.stem for file in tables]):
            advice = f"if these are splits, rename them to train{tables[0].suffix}, val{tables[0].suffix} and so on"
        raise click.UsageError(f"{path} has several tables: {names}; {advice}")
    return tables[0] if len(tables) == 1 else None


def _has_classes(folder: Path) -> bool:
    """Whether a folder has images in folders for classes, or with masks or boxes."""
    if source_in(folder, folder.as_posix()) is not None or looks_like_masks(folder):
        return True
    read = read_image_folder(folder, folder.as_posix())
    return not any(finding.is_error for finding in read.findings)


def look_and_ask(path: Path, options: TableOptions, *, can_ask: bool, err: bool) -> TableLook:
    """What a table is; in a terminal, after questions about what was only guessed."""
    while True:
        look = look_at_table(path, options)
        if not can_ask or not look.guesses:
            return look
        options = _answered(look.guesses[0], look, options, err=err)


def _answered(guess: Guess, look: TableLook, options: TableOptions, *, err: bool) -> TableOptions:
    """The options, with the answer to a question."""
    echo(f"{look.path}: {guess.explanation}?", err=err)
    if guess.about == "header":
        return replace(options, header=click.confirm(guess.question, default=bool(guess.answer), err=err))
    choice = click.Choice(guess.choices)
    answer = click.prompt(guess.question, default=guess.answer, type=choice, err=err)
    if answer == "all":
        return replace(options, labels=tuple(each for each in guess.choices if each != "all"))
    return replace(options, text=(answer,)) if guess.about == "text" else replace(options, label=answer)
