"""Printing: the one place where commands write to the terminal.

What they print has names of files, classes and models in it, and what exceptions say: none of it commands the terminal.
"""

import json
import sys
from typing import Any, NoReturn

import click

from leaven.cli.exit_codes import USAGE_ERROR
from leaven.formats.finite_json import finite
from leaven.terminal.visible import visible_lines, visible_output


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text; what would command the terminal is shown as a symbol."""
    click.echo(visible_lines(str(text)), err=err, nl=nl)


def echo_problem(headline: str, help: str = "") -> None:
    """Print what can't be done, in a line or two."""
    echo(f"error: {headline}", err=True)
    if help:
        echo(f"help: {help}", err=True)


def fail(headline: str, help: str = "", *, code: int = USAGE_ERROR) -> NoReturn:
    """Print what can't be done, and exit."""
    echo_problem(headline, help)
    sys.exit(code)


def echo_painted(text: str, *, color: bool, err: bool = False, nl: bool = True) -> None:
    """Print a text that has colours, and was made visible before it got them."""
    click.echo(text, err=err, nl=nl, color=color)


def echo_file(text: str) -> None:
    """Print what could be in a file: exactly so in a pipe, and like anything else to a terminal."""
    click.echo(visible_lines(text) if sys.stdout.isatty() else text, nl=False, color=True)


def echo_json(value: Any) -> None:
    """Print a value as JSON, NaN and infinity as null; what a terminal would not show is escaped."""
    text = json.dumps(finite(value), ensure_ascii=False, indent=2, allow_nan=False)
    echo_raw("".join(mark if mark.isprintable() or mark == "\n" else json.dumps(mark)[1:-1] for mark in text) + "\n")


def echo_printed(text: str) -> None:
    """Print what a program has printed: exactly so in a pipe; in a terminal its bars move, and nothing else does."""
    click.echo(visible_output(text) if sys.stdout.isatty() else text, nl=False, color=True)


def echo_raw(text: str) -> None:
    """Print a script for a shell as it is."""
    click.echo(text, nl=False, color=True)
