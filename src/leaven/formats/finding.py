"""What is wrong with data on disk, whoever looks at it."""

import os
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """One fact. `id` names its page in the docs, `argument` what of the data statement it is about."""

    id: str
    fact: str
    help: str = ""
    notes: tuple[str, ...] = ()
    is_error: bool = True
    argument: str = ""
    label: str = ""  # the shortest reason
    wrong: str = ""  # what of the argument is wrong
    choices: tuple[str, ...] = ()  # what it could be instead

    @property
    def text(self) -> str:
        """The fact, its notes and the help, each on a line."""
        return "\n".join(filter(None, (self.fact, *self.notes, self.help)))


class About(NamedTuple):
    """The argument of a data statement that findings are about, and the shortest reason."""

    argument: str
    label: str

    def warning(self, id: str, fact: str, help: str = "", *, notes: tuple[str, ...] = ()) -> Finding:
        return Finding(id, fact, help, notes, is_error=False, argument=self.argument, label=self.label)

    def error(self, id: str, fact: str, help: str = "", *, notes: tuple[str, ...] = ()) -> "BadSource":
        return BadSource(Finding(id, fact, help, notes, argument=self.argument, label=self.label))

    def of(self, finding: Finding) -> Finding:
        """A finding about this."""
        return finding._replace(argument=self.argument, label=self.label)

    def check_folder(self, path: Path, name: str, help: str = "") -> None:
        """A BadSource where the path is not a folder."""
        if not os.path.isdir(path):
            fault = "is a file, not a folder" if os.path.exists(path) else "does not exist"
            raise self.error("missing-file", f"`{name}` {fault}", help)


class BadSource(Exception):
    """Data that can't be used, for one reason or several."""

    def __init__(self, finding: Finding, *more: Finding) -> None:
        super().__init__(finding.fact)
        self.finding = finding
        self.findings = (finding, *more)
