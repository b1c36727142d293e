"""The options of `leaven new` for a table, guesses where they leave something open, and lines about findings."""

from collections.abc import Iterable, Iterator
from typing import Any

from leaven.formats.finding import Finding
from leaven.language.record import Record


class NotUnderstood(ValueError):
    """Data that no first recipe can be written for; the text says why, and what to do."""


class TableOptions(Record):
    """The layout and the roles of columns that the command line gives; None or empty where it leaves them open."""

    header: bool | None = None
    columns: tuple[str, ...] = ()
    separator: str | None = None
    quote: str | None = None  # "none" or a character
    encoding: str | None = None
    text: tuple[str, ...] = ()
    image: str | None = None
    root: str | None = None
    label: str | None = None
    labels: tuple[str, ...] = ()
    target: str | None = None
    decimal: str | None = None

    @property
    def names_target(self) -> bool:
        return bool(self.label or self.labels or self.target)


_QUESTIONS = {
    "header": "Does the first line name the columns?",
    "text": "Which column has the texts?",
    "label": "Which column has the labels?",
    "labels": "Can a row have several labels?",
    "decimal": "What is the decimal mark?",
}


class Guess(Record):
    """A question that the data leaves open, with the likeliest answer."""

    about: str  # the field of `TableOptions`
    answer: Any
    choices: tuple[str, ...]
    explanation: str  # "the first line is a row, not a header"

    @property
    def question(self) -> str:
        return _QUESTIONS[self.about] + " (all: each of these is a label)" * ("all" in self.choices)

    @property
    def option(self) -> str:
        """The option that overrides the guess."""
        if self.about == "header":
            return "--header" if self.answer is False else "--no-header"
        if self.about == "labels":
            return "--label COLUMN"
        return '--decimal ","' if self.about == "decimal" else f"--{self.about} COLUMN"


def seen_in(findings: Iterable[Finding]) -> Iterator[str]:
    """The lines that tell people of findings."""
    for finding in findings:
        yield finding.fact
        yield from (f"  {line}" for line in (*finding.notes, finding.help) if line)
