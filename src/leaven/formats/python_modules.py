"""Python files as modules; which names and files are those of installed libraries, and not the user's."""

import sys
import sysconfig
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

_LEAVEN = Path(__file__).parents[1]


def load_module(file: Path, name: str, **attributes: Any) -> ModuleType:
    """Run a Python file as a module, which may have some attributes from the start.

    It is imported by its name from then on; a name that a library has, such as `torch`, gets an underscore.
    """
    name += "_" * is_library(name)
    loader = SourceFileLoader(name, str(file))
    spec = spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)
    vars(module).update(attributes)
    loader.exec_module(module)
    return module


def is_library(name: str) -> bool:
    """Whether a library has that name, or Python itself: a user's `torch.py` must not take its place."""
    if name in sys.stdlib_module_names or name.startswith("__"):  # `__main__` is the program
        return True
    if name in sys.modules:
        file = getattr(sys.modules[name], "__file__", None)
    else:
        spec = find_spec(name) if name.isidentifier() else None
        file = spec.origin if spec is not None else None
    return file is not None and is_installed(file)


def libraries_hidden_in(folder: Path) -> list[str]:
    """The modules in a folder that Python would import in place of libraries, as it looks there first for a script."""
    names = [*(file.stem for file in folder.glob("*.py")), *(file.parent.name for file in folder.glob("*/__init__.py"))]
    return sorted({name for name in names if not name.startswith("__") and is_library(name)})


def is_installed(file: str) -> bool:
    """Whether a file came with Python or a package, be it in this environment or in one that it builds on."""
    own = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")} | {str(_LEAVEN)}
    others = {place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")}
    return any(Path(file).is_relative_to(place) for place in own | others if place)
