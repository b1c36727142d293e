"""What can go wrong while a program runs and is not the program's fault: a file, a value, memory.

How a failure is reported is decided in `run/guard.py`, and which line of the recipe it belongs to in
`run/recipe_lines.py`.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

from leaven.terminal import status_line
from leaven.terminal.visible import visible, visible_lines

USER_FILE = "__leaven_user_file__"  # the attribute that holds the path of a module the user wrote


class Failure(Exception):
    """One fact that ends the run. `help` says what to do about it; `about` names what it is about in the plan: a
    field (`data.source`), an argument, or what is called."""

    def __init__(self, headline: str, help: str = "", about: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.help = help
        self.about = about

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.headline, self.help, self.about)  # failures are sent between processes


class BadFile(Failure):
    """A file that can't be read as what it should be. `on_bad_file skip` goes on without it."""

    fact: ClassVar = "{file} can't be read: {reason}"
    skipping: ClassVar = (
        "repair or remove it, or skip such files: `on_bad_file skip` in the data block, or once on the command line:"
        " --with 'change data { on_bad_file skip }'"
    )

    def __init__(self, file: str, reason: str, hint: str = "") -> None:
        help = f"{hint}; {self.skipping}" if hint else self.skipping
        super().__init__(self.fact.format(file=file, reason=reason), help, about="data.source")
        self.file = file
        self.reason = reason
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.reason, self.hint)

    def of(self, file: str) -> "BadFile":
        """The same about a file whose name was not known where it was read."""
        return type(self)(file, self.reason, self.hint)


class BadSample(BadFile):
    """A sample that can be read, but is marked with something that can't be used."""

    fact = "{file} {reason}"
    skipping = "`on_bad_file skip` in the data block leaves such samples out"


def unexpected(problem: Exception, about: str = "") -> Failure:
    """An exception of a library or of user code as a failure; the place is in user code if it was raised through it."""
    message = " ".join(str(problem).split())
    frames = traceback.extract_tb(problem.__traceback__)
    frame = next((frame for frame in reversed(frames) if _is_user_file(frame.filename)), frames[-1])
    place = f"{os.path.relpath(frame.filename)}, line {frame.lineno}"
    return Failure(
        f"{type(problem).__name__}{f': {message}' if message else ''}",
        f"it was raised in {place}; LEAVEN_DEBUG=1 shows the traceback",
        about,
    )


def _is_user_file(file: str) -> bool:
    """Whether a file was imported by `import_file`."""
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return file in (vars(module).get(USER_FILE) for module in modules)  # to ask torch.ops for an attribute makes one


class Caution(UserWarning):
    """Something that the user should know, though the run continues."""


def show_cautions() -> None:
    """From here on, print cautions in one line each, without their place in Leaven's code."""
    warnings.showwarning = partial(_show_warning, warnings.showwarning)


def _show_warning(
    otherwise: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any, **more: Any
) -> None:
    """Print a warning. It may have names of files in it, which must not command the terminal."""
    if not issubclass(category, Caution):
        otherwise(visible_lines(str(message)), category, *place, **more)
        return
    status_line.erase()
    print(f"warning: {visible(str(message))}", file=sys.stderr, flush=True)


class Diverged(Failure):
    """The loss is NaN. Of a sweep, the other trials go on."""


class Stopped(Exception):
    """The run was asked to stop, and has saved its state."""


class Trained(Exception):
    """The run has trained, and was asked for nothing else (`--train-only`)."""
