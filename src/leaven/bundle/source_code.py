"""Code of the user's own that a bundle carries: which files are taken in, and how they are run by who trusts them.

Nothing here runs unless the one who loads a bundle says `trust_code=True`.
"""

import atexit
import importlib
import inspect
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from leaven.formats import user_sources
from leaven.formats.python_modules import is_installed, is_library, load_module
from leaven.formats.user_sources import FOLDER, UnreadableSource
from leaven.runtime.failures import Failure
from leaven.runtime.model.builder import without_published

TOKENIZER = "tokenizer"  # the folder of the files of a tokenizer, which hold no code


class Sources(user_sources.Sources):
    """The source files that a bundle takes in, as its members."""

    def add(self, file: str | Path) -> str:
        try:
            return super().add(file)
        except UnreadableSource as problem:
            raise Failure(str(problem), "the bundle needs it") from None


# -- pointing at a thing


def point_at(thing: Any, sources: Sources) -> dict[str, Any]:
    """A function or class of the user's as data: its file in the bundle (or its installed module) and its name."""
    name = getattr(thing, "__qualname__", "")
    if not name or "<" in name:
        raise Failure(f"{name or type(thing).__name__} has no name by which a bundle could find it again")
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:
        file = None
    if file is None or is_installed(file):
        module = getattr(thing, "__module__", None)
        if not module or module == "builtins":
            raise Failure(f"a bundle can't hold {name}: its source is not known")
        return {"module": module, "name": name}
    return {"file": sources.add(file), "name": name}


# -- running


class Code:
    """The source files of a bundle, run when they are first asked for, and only for who trusts them; and the files of
    its tokenizer, which need not be tried out again where that is done."""

    def __init__(self, members: Mapping[str, bytes], *, is_trusted: bool, bundle: str) -> None:
        self._members = {name: content for name, content in members.items() if name.startswith(f"{FOLDER}/")}
        start = f"{TOKENIZER}/"
        self.tokenizer = {name.removeprefix(start): each for name, each in members.items() if name.startswith(start)}
        self._is_trusted = is_trusted
        self.is_tried = False
        self.bundle = bundle
        self._folder: Path | None = None
        self._modules: dict[str, ModuleType] = {}

    def find(self, pointer: Mapping[str, Any]) -> Any:
        """The thing that `point_at` pointed at."""
        if not self._is_trusted:
            where = pointer.get("file") or pointer.get("module")
            raise Failure(
                f"{self.bundle} needs code that comes with it ({where}), and code can do anything",
                "if you trust whoever made it, say so: leaven.load(…, trust_code=True), or --trust-code",
            )
        if "module" in pointer:
            try:
                thing: Any = importlib.import_module(pointer["module"])
            except ImportError as problem:
                fact = f"{self.bundle} needs {pointer['module']}, which can't be imported: {problem}"
                raise Failure(fact) from None
        else:
            thing = self._module(pointer["file"])
        for part in str(pointer["name"]).split("."):
            if not hasattr(thing, part):
                raise Failure(f"there is no {pointer['name']} in {pointer.get('file') or pointer.get('module')}")
            thing = getattr(thing, part)
        return thing

    def _module(self, member: str) -> ModuleType:
        if member in self._modules:
            return self._modules[member]
        if member not in self._members:
            raise Failure(f"{self.bundle} has no {member}")
        file = self._unpacked() / member
        name = file.stem + "_" * is_library(file.stem)  # before the sources hide a library
        with _importing_from(self._unpacked() / "/".join(member.split("/")[:2])):
            try:
                module = load_module(file, name)
            except Exception as problem:
                raise Failure(
                    f"{member} in {self.bundle} can't be run: {type(problem).__name__}: {problem}"
                ) from problem
        without_published(module)
        self._modules[member] = module
        return module

    def _unpacked(self) -> Path:
        """A folder with the sources, until the process ends: tracebacks and torch look into them."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="leaven-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
            for name, content in self._members.items():
                file = self._folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        return self._folder


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let imports look into a folder first, except for those of libraries; afterwards, the names are free again."""
    before = dict(sys.modules)
    found = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if path.is_dir()}
    names = {name for name in found if not is_library(name)}
    for name in [known for known in sys.modules if known.partition(".")[0] in names]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [known for known in sys.modules if known.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name.partition(".")[0] in names})
