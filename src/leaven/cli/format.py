"""`leaven format`: files rewritten in place, atomically."""

import re
import sys
from difflib import unified_diff
from pathlib import Path

import click

from leaven.cli.printing import echo, echo_file
from leaven.cli.recipe_command import open_source, print_reports
from leaven.files.atomic_files import write_text
from leaven.language.diagnostics import Diagnostic
from leaven.language.formatter import format_tree
from leaven.language.parser import parse
from leaven.terminal.visible import visible


@click.command("format")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RECIPE...")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit code 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Print the changes as a diff, and change nothing.")
def format_files(files: tuple[Path, ...], only_check: bool, diff: bool) -> None:
    """Format recipes in place.

    Comments and meaning are kept. `-` reads a recipe from standard input and prints it.
    """
    sys.exit(max(_one(file, only_check, diff) for file in files))


def _one(file: Path, only_check: bool, diff: bool) -> int:
    name = visible(str(file))
    source = open_source(str(file))
    if isinstance(source, Diagnostic):
        print_reports([source], err=True)
        return 1
    parsed = parse(source)
    if parsed.diagnostics:
        print_reports(parsed.diagnostics, err=True)
        echo(f"{name}: not changed", err=True)
        return 1
    formatted = format_tree(parsed.tree)
    is_input = str(file) == "-" or not file.is_file()
    if is_input and not (only_check or diff):
        echo_file(formatted)
        return 0
    before = source.text if is_input else file.read_bytes().decode()  # with a byte order mark, which is removed too
    if before == formatted:
        return 0
    if diff:
        name = str(file)
        lines = unified_diff(_lines(before), _lines(formatted), name, name, tofiledate="formatted")
        echo_file("".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines))
    elif only_check:
        echo(f"{name} would change")
    else:
        try:
            write_text(file, formatted)
        except OSError as problem:
            echo(f"can't write {name}: {problem.strerror}", err=True)
            return 1
        echo(f"{name} formatted")
    return int(only_check or diff)


def _lines(text: str) -> list[str]:
    """The lines as `patch` counts them, each with its end: only a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
