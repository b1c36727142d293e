"""Sources and spans: a text with its name, and a part of it.

A `Source` is a recipe file or an option on the command line; a `Span` is a range of its characters. Lines and columns
are computed only for people to read.
"""

import re
from bisect import bisect_right
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import NamedTuple


class SourceKind(Enum):
    """Where a text comes from: the recipe, one that it extends, standard input, an option, or a card's default."""

    RECIPE = "recipe"
    BASE = "base"
    INPUT = "input"
    OPTION = "option"
    DEFAULT = "default"


def flag_of(arg: str) -> str:
    """The option that gives an `arg` its value: `--batch-size` for `batch_size`."""
    return f"--{arg.replace('_', '-')}"


def arg_of(flag: str) -> str:
    """The `arg` that an option gives its value."""
    return flag.removeprefix("--").replace("-", "_")


class Source:
    """A text with a name; paths in it are relative to `folder`. Sources are compared by identity."""

    def __init__(self, name: str, text: str, folder: Path | None = None, kind: SourceKind = SourceKind.RECIPE) -> None:
        self.name = name
        self.text = text
        self.folder = folder or Path()
        self.kind = kind

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(end.end() for end in re.finditer(r"\r\n|\n|\r", self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its line end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def span(self, start: int, end: int) -> "Span":
        return Span(self, start, end)

    def __repr__(self) -> str:
        return f"Source({self.name!r})"


class Span(NamedTuple):
    """The characters `start` to `end` of a source, without the one at `end`."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def at_start(self) -> "Span":
        """The empty span where this one starts."""
        return Span(self.source, self.start, self.start)

    @property
    def at_end(self) -> "Span":
        """The empty span where this one ends."""
        return Span(self.source, self.end, self.end)

    def to(self, other: "Span") -> "Span":
        """From the start of this span to the end of the other one."""
        return Span(self.source, self.start, other.end)

    def __repr__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"
