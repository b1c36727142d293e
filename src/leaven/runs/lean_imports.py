"""Importing of Lightning and torchmetrics only what a program uses.

`from torchmetrics import Accuracy` imports every metric of torchmetrics, and with them scipy.signal, transformers and
matplotlib; `from lightning.fabric import Fabric` imports Lightning's Trainer. Together that takes nearly as long as
importing torch, torchvision and timm. Here, the packages in `LEAN` import their own modules when a name from them is
first used. All names remain what they are: a metric that needs scipy imports it, and `plot()` of a metric matplotlib.

Where a package is not as expected, perhaps in another version, it is imported as usual.
"""

import ast
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# Each with the module of it that has to be imported first, if any: its modules import each other in a circle.
LEAN = {"lightning": None, "torchmetrics": "torchmetrics.utilities", "torchmetrics.functional": None}
PLOTS = "torchmetrics.utilities.plot"  # imports matplotlib to annotate functions


def install() -> None:
    """Let the packages be imported in this way from now on; those that are imported already stay as they are."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in LEAN and name != PLOTS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            kind = _PlotLoader if name == PLOTS else _PackageLoader
            spec.loader = kind(spec.loader.name, spec.loader.path)
        return spec


class _PackageLoader(SourceFileLoader):
    """Runs `__init__.py` without what it imports from the package itself, nor what it does under a condition.

    (Under conditions, torchmetrics changes NumPy, Pillow and SciPy for old libraries that its audio metrics call.)
    """

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        tree = ast.parse(self.get_data(self.path))
        later = {
            alias.asname or alias.name: (str(node.module), alias.name)
            for node in tree.body
            if _is_later(node, name) and isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        tree.body = [node for node in tree.body if not isinstance(node, ast.If) and not _is_later(node, name)]

        def find(wanted: str) -> Any:
            if wanted not in later and (wanted.startswith("__") or find_spec(f"{name}.{wanted}") is None):
                raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
            try:
                found = _attribute(*later[wanted]) if wanted in later else _submodule(name, wanted)
            except ImportError:
                _run_whole(self, module)
                return getattr(module, wanted)
            setattr(module, wanted, found)
            return found

        vars(module)["__getattr__"] = find
        try:
            exec(compile(tree, self.path, "exec"), vars(module))
            if first := LEAN[name]:
                importlib.import_module(first)
        except ImportError:
            _run_whole(self, module)


class _PlotLoader(SourceFileLoader):
    """Functions that draw are loaded when they are called; until then, types in annotations are `object`."""

    def exec_module(self, module: ModuleType) -> None:
        def find(wanted: str) -> Any:
            if wanted.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {wanted!r}")
            if wanted.endswith("_TYPE"):
                return object
            return lambda *args, **kwargs: _run_whole(self, module)[wanted](*args, **kwargs)

        vars(module)["__getattr__"] = find


def _is_later(node: ast.AST, package: str) -> bool:
    """Whether a statement imports names from modules of the package; `*` and `__version__` are not put off."""
    if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
        return False
    is_own = node.module.partition(".")[0] == package.partition(".")[0]
    return is_own and not any((alias.asname or alias.name).startswith(("*", "__")) for alias in node.names)


def _attribute(module: str, name: str) -> Any:
    found = importlib.import_module(module)
    return getattr(found, name) if name in vars(found) else _submodule(module, name)


def _submodule(package: str, name: str) -> ModuleType:
    return importlib.import_module(f"{package}.{name}")


def _run_whole(loader: SourceFileLoader, module: ModuleType) -> dict[str, Any]:
    """Import a module as usual; what it has then."""
    vars(module).pop("__getattr__", None)
    SourceFileLoader.exec_module(loader, module)
    return vars(module)
