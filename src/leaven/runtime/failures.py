"""What can go wrong while a program runs, outside the program's own power: a file, a number, memory.

Where it is said, and where in the recipe it belongs, is decided by the frame around a program's `main`.
"""

from typing import Any


class Failure(Exception):
    """One fact that ends the run. `help` says what to do about it, `about` which words of the program it is about."""

    def __init__(self, headline: str, help: str = "", about: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.help = help
        self.about = about

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.headline, self.help, self.about)  # failures travel between processes


class BadFile(Failure):
    """A file that can't be read as what it should be."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(
            f"{file} can't be read: {reason}",
            "repair or remove it, or leave out such files with `on_bad_file skip` in the data block",
        )
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.reason)


class Caution(UserWarning):
    """Something that a user should know, though the run goes on."""


class Stopped(Exception):
    """Somebody asked the run to stop; it has saved itself."""
