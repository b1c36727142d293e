"""The user's own Python files."""

import os
import sys
from pathlib import Path
from types import ModuleType

from leaven.formats.python_modules import load_module
from leaven.runtime.failures import USER_FILE, Failure

user_folders: set[str] = set()  # of the files that were imported


def import_file(file: str, name: str) -> ModuleType:
    """A Python file as a module; its path starts in the working directory, or else in the folder of the program.

    Worker processes import it under the same name.
    """
    path = Path(file).resolve()
    if not path.is_file():
        path = Path(sys._getframe(1).f_globals.get("__file__", "")).resolve().parent / file
    if path.suffix != ".py" or not path.is_file():
        raise Failure(f"{file} is not a Python file that can be imported")
    user_folders.add(str(path.parent))
    sys.path.append(str(path.parent))  # for imports from the file's own folder
    before = os.getcwd()
    module = load_module(path, name, **{USER_FILE: str(path)})
    if os.getcwd() != before:
        raise Failure(
            f"{file} changes the working directory when it is imported, and paths in the recipe would lead elsewhere",
            "remove `os.chdir` from it",
        )
    return module
