"""The user's own Python files."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from leaven.formats.python_modules import is_library
from leaven.runtime.failures import USER_FILE, Failure

user_folders: set[str] = set()  # of the files that were imported


def import_file(file: str, name: str) -> ModuleType:
    """A Python file as a module; its path starts in the working directory, or else in the folder of the program.

    Worker processes import it under the same name. A name that a library has, such as `torch`, gets an
    underscore.
    """
    path = Path(file).resolve()
    if not path.is_file():
        path = Path(sys._getframe(1).f_globals.get("__file__", "")).resolve().parent / file
    if is_library(name):
        name += "_"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise Failure(f"{file} is not a Python file that can be imported")
    module = module_from_spec(spec)
    setattr(module, USER_FILE, str(path))
    sys.modules[name] = module
    user_folders.add(str(path.parent))
    sys.path.append(str(path.parent))  # for imports from the file's own folder
    before = os.getcwd()
    spec.loader.exec_module(module)
    if os.getcwd() != before:
        raise Failure(
            f"{file} changes the working directory when it is imported, and paths in the recipe would lead elsewhere",
            "remove `os.chdir` from it",
        )
    return module
