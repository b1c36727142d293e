"""Names, settings and commands of other tools, with their counterparts here, from the tables in `other_tools/`.

The tables are only read where something is wrong.
"""

from functools import cache
from pathlib import Path
from typing import TypedDict

from leaven.catalog import tables
from leaven.catalog.tables import ByName

TABLES = Path(__file__).with_name("other_tools")


class Names(TypedDict):
    """Other names for the words of recipes, and for the types of values."""

    words: ByName
    types: ByName


class Settings(TypedDict):
    """The forms of settings in a recipe and in its block of `data`, or the reasons why they have none."""

    recipe: ByName
    data: ByName
    not_needed: ByName
    no_counterpart: ByName


class CommandLine(TypedDict):
    """Other names for commands, by their group, and for options, by their command."""

    commands: dict[str, ByName]
    options: dict[str, ByName]


def word_for(name: str) -> str | None:
    """The word of recipes for another tool's name."""
    return names()["words"].get(name.lower())


@cache
def names() -> Names:
    """The tables of `names.toml`."""
    return tables.read(TABLES / "names.toml", Names)


@cache
def settings() -> Settings:
    """The tables of `settings.toml`."""
    return tables.read(TABLES / "settings.toml", Settings)


def command_for(group: str, name: str) -> str | None:
    """The command of a group (`leaven`, `jobs`) for another tool's command."""
    return _command_line()["commands"].get(group, ByName()).get(name)


def option_for(command: str, name: str) -> str | None:
    """The option of a command for another tool's option."""
    return _command_line()["options"].get(command, ByName()).get(name.lstrip("-"))


@cache
def _command_line() -> CommandLine:
    return tables.read(TABLES / "command_line.toml", CommandLine)


@cache
def known_settings() -> frozenset[str]:
    """The names of all settings of other tools."""
    found = settings()
    named = (found["recipe"], found["data"], found["not_needed"], found["no_counterpart"])
    return frozenset(name.partition("=")[0] for table in named for name in table)
