"""What can go wrong while a program runs, outside the program's own power: a file, a number, memory.

Where it is said, and where in the recipe it belongs, is decided by the frame around a program's `main`.
"""

import os
import sys
import traceback
from typing import Any

IS_USERS = "__leaven_users_file__"  # the attribute in which a module that the user wrote keeps its file


class Failure(Exception):
    """One fact that ends the run. `help` says what to do about it, `about` which words of the program it is about;
    where they may be others, with a bar between."""

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
            about="items = ",
        )
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.reason)


def unforeseen(problem: Exception, about: str = "") -> Failure:
    """What a library or the user's own code says, and where: in the user's code, if it came through there."""
    said = " ".join(str(problem).split())
    frames = traceback.extract_tb(problem.__traceback__)
    frame = next((frame for frame in reversed(frames) if _is_users(frame.filename)), frames[-1])
    place = f"{os.path.relpath(frame.filename)}, line {frame.lineno}"
    return Failure(
        f"{type(problem).__name__}{f': {said}' if said else ''}",
        f"it was raised in {place}; LEAVEN_DEBUG=1 shows the way there",
        about,
    )


def _is_users(file: str) -> bool:
    """Whether a file is one that `import_file` brought in."""
    own = (getattr(module, IS_USERS, None) for module in list(sys.modules.values()))
    return file in own


class Caution(UserWarning):
    """Something that a user should know, though the run goes on."""


class Stopped(Exception):
    """Somebody asked the run to stop; it has saved itself."""
