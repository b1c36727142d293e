"""The rules of docs/architecture.md, held by reading every import of the source."""

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

from leaven.language import parse_tables

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "leaven"


def _allowed_imports() -> dict[str, set[str]]:
    """The table of rooms in docs/architecture.md: which rooms each may import."""
    rows = re.findall(
        r"^\| `(\w+)` \|.*\|([^|]*)\|$", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.M
    )
    return {room: set(re.findall(r"\w+", imports)) for room, imports in rows}


COMPILER = ("language", "catalog", "messages", "statements", "binding", "recipe", "rules", "planning", "program")
WORKSHOP = ("runtime", "techniques", "components", "tasks", "plain", "bundle")
GROUND = ("files", "terminal", "cache", "formats", "targets", "sources", "plan")  # which both halves use
ROOMS = _allowed_imports()
HEAVY = {"torch", "torchvision", "timm", "torchmetrics", "lightning", "transformers"}
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "base", "manager", "managers"}


@dataclass(frozen=True)
class Import:
    """A module that a file of the package imports, anywhere in it."""

    file: Path
    line: int
    target: str

    @property
    def room(self) -> str:
        """The room of the importing file; empty for the files at the top of the package."""
        return room_of(self.file.relative_to(PACKAGE).with_suffix("").parts)

    @property
    def target_room(self) -> str | None:
        """The imported room; empty for the top of the package, None outside of it."""
        parts = self.target.split(".")
        if parts[0] != "leaven":
            return None
        return room_of((*parts[1:], "")) if len(parts) > 1 and parts[1] in ROOMS else ""

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.target}"


def room_of(parts: Sequence[str]) -> str:
    """The room of a module, by the parts of its path: the first folder, or `targets` in the folder of a task."""
    match [part for part in parts if part]:
        case ["tasks", _, "target", *_]:
            return "targets"
        case [room, *_] if len(parts) > 1:
            return room
    return ""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def imports() -> tuple[Import, ...]:
    return tuple(
        Import(file, node.lineno, target)  # type: ignore[attr-defined]
        for file in modules()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for target in _targets(node, file)
    )


def _targets(node: ast.AST, file: Path) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            package = ".".join(("leaven", *file.relative_to(PACKAGE).parent.parts))
            origin = resolve_name("." * level + (module or ""), package)
            # `from leaven import catalog` imports leaven.catalog
            return [f"{origin}.{alias.name}" for alias in names] if origin == "leaven" else [origin]
        case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
            return [name] if _name_of(function) in ("import_module", "__import__") else []
    return []


def _name_of(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def test_the_table_lists_the_rooms_that_there_are() -> None:
    rooms = {room_of(file.relative_to(PACKAGE).with_suffix("").parts) for file in modules()}
    assert rooms - {""} == set(ROOMS)


def test_no_two_rooms_may_import_each_other() -> None:
    """Each room may import only rooms listed before it, so that there is no circle."""
    order = list(ROOMS)
    wrong = [f"{room}: {other}" for room in order for other in ROOMS[room] if other not in order[: order.index(room)]]
    assert not wrong, "\n".join(wrong)


def test_a_room_imports_only_the_rooms_that_the_table_allows() -> None:
    """The top of the package, `leaven/__init__.py`, may use all rooms but the doors, and only the doors may use it."""
    allowed = ROOMS | {"cli": ROOMS["cli"] | {""}, "": set(ROOMS) - {"cli"}}
    inner = [found for found in imports() if found.target_room is not None and found.file.name != "__main__.py"]
    wrong = [str(f) for f in inner if f.target_room != f.room and f.target_room not in allowed[f.room]]
    assert not wrong, "\n".join(wrong)


def test_the_compiler_never_imports_torch_not_even_inside_a_function() -> None:
    heavy = [found for found in imports() if found.target.split(".")[0] in HEAVY]
    wrong = [str(found) for found in heavy if found.room in (*GROUND, *COMPILER, "serving", "jobs", "api", "")]
    assert not wrong, "\n".join(wrong)


def test_the_workshop_never_imports_the_compiler() -> None:
    wrong = [str(found) for found in imports() if found.room in WORKSHOP and found.target_room in COMPILER]
    assert not wrong, "\n".join(wrong)


def test_only_pictures_imports_matplotlib_and_only_to_draw() -> None:
    """It is an extra, and takes long to load."""
    wrong = [str(f) for f in imports() if f.target.split(".")[0] == "matplotlib" and f.room != "pictures"]
    assert not wrong, "\n".join(wrong)
    names = [f"leaven.pictures.{file.stem}" for file in (PACKAGE / "pictures").glob("*.py") if file.stem != "__init__"]
    program = f"import {', '.join(names)}, sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.split()) == ("", ["False"])


def test_what_both_halves_stand_on_needs_only_the_standard_library() -> None:
    ground = [found for found in imports() if found.room in GROUND and found.target_room not in GROUND]
    formats = {
        "pyarrow",
        "numpy",
        "scipy",
        "yaml",
        "PIL",
    }  # of tables, of CIFAR's pickles, of the dogs' lists, of YOLO's names, of masks
    wrong = [str(found) for found in ground if found.target.split(".")[0] not in {*sys.stdlib_module_names, *formats}]
    assert not wrong, "\n".join(wrong)


def test_loading_the_compiler_and_the_command_line_does_not_load_torch() -> None:
    """What the imports of imports load; a library could bring torch along."""
    names = [
        ".".join(("leaven", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for file in modules()
        if room_of(file.relative_to(PACKAGE).with_suffix("").parts)
        in (*GROUND, *COMPILER, "serving", "jobs", "api", "cli")
    ]
    program = f"import {', '.join(names)}, sys; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.split()) == ("", [])


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_no_file_or_folder_has_a_name_that_says_nothing(folder: str) -> None:
    paths = {*(ROOT / folder).rglob("*.py"), *(path for path in (ROOT / folder).rglob("*") if path.is_dir())}
    wrong = [str(path.relative_to(ROOT)) for path in paths if path.stem in VAGUE_NAMES]
    assert not wrong, "\n".join(wrong)


def test_the_grammar_has_one_reading() -> None:
    """Built strictly, Lark refuses every conflict of rules and every collision of terminals. There is no exception."""
    parse_tables.build_lark(strict=True)
