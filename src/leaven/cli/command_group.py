"""Groups of commands, and what is said where somebody types one that is not there, or asks for what can't be done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from leaven.cli.exit_codes import CANT_WRITE
from leaven.cli.printing import fail
from leaven.terminal.problem import Problem


class Later(click.Command):
    """A command whose module is imported when it is called: all modules together take a second, and lists of commands
    show only summaries."""

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.module, _, self.function = place.partition(":")


def imported(command: click.Command) -> click.Command:
    """The command itself, where it is one for later."""
    if not isinstance(command, Later):
        return command
    found: click.Command = getattr(import_module(f"leaven.cli.{command.module}"), command.function)
    return found


class Commands(click.Group):
    """Lists commands in the order in which a newcomer needs them, and suggests the nearest for a misspelt one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            name, command, rest = super().resolve_command(ctx, args)
            return name, None if command is None else imported(command), rest
        except click.UsageError as problem:
            from leaven.catalog.habits import command_for
            from leaven.catalog.lookup import nearest

            word = args[0] if args else ""
            if word.endswith(".leaven"):
                raise click.UsageError(f"no command given for {word}. For example: leaven check {word}") from problem
            meant = command_for(str(self.name), word)
            near = [meant] if meant else nearest(word, self.commands, limit=1)
            path = ctx.command_path
            hint = f"Did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists them."
            raise click.UsageError(f"unknown command `{word}`. {hint}") from problem


class JobCommands(Commands):
    """Commands for jobs: the process exits with what they return, and what can't be done is reported."""

    def invoke(self, ctx: click.Context) -> NoReturn:
        with reporting():
            sys.exit(super().invoke(ctx) or 0)


@contextmanager
def reporting() -> Iterator[None]:
    """Report what can't be done with jobs in a line or two, and exit."""
    try:
        yield
    except Problem as problem:
        fail(problem.headline, problem.help)
    except OSError as problem:
        if problem.filename is None:
            raise
        fail(f"can't write {problem.filename}: {problem.strerror}", code=CANT_WRITE)
