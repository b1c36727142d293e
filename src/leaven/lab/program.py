"""The program of a recipe or of a run, imported: its functions are called without running it."""

import argparse
import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from leaven.formats.python_modules import load_module
from leaven.formats.run_folder import PROGRAM
from leaven.plan.plan import Plan
from leaven.plan.values import ArgValue
from leaven.program.files import write_program
from leaven.program.names import SHARED, Names
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import USER_FILE
from leaven.runtime.seeding import seed_all


class Program:
    """The module of a program in a folder, with the arguments that the folder's run was given, else the defaults."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / PROGRAM
        self.module = load_module(self.file, f"leaven_program_{id(self.file)}")
        command, sys.argv = sys.argv, [str(self.file), "--resume", str(folder)]  # whatever this process was started by
        try:
            self.args: argparse.Namespace = self.module.parse_args()
        finally:
            sys.argv = command

    def build_data(self, seed: int) -> Data:
        """The data of the program, whose construction may draw from the global generators."""
        seed_all(seed)
        data: Data = self.call(self.module.build_data)
        return data

    def call(self, function: Callable[..., Any], *first: Any, data: Data | None = None) -> Any:
        """Call a function of the program, with the other arguments that it has."""
        wanted = inspect.signature(function).parameters
        more: dict[str, Any] = {"args": self.args} if "args" in wanted else {}
        if data is not None:
            more |= {name: data.outputs for name in ("num_classes", "num_outputs") if name in wanted}
            more |= {"class_names": data.classes} if "class_names" in wanted else {}
            more |= {"channels": data.channels} if "channels" in wanted else {}
        return function(*first, **more)

    def assigned(self, name: str, **objects: Any) -> Any:
        """What `main` assigns to a variable, from these objects."""
        self._carry_out(lambda one: isinstance(one, ast.Assign | ast.AnnAssign) and _assigns(one, name), objects)
        return objects[name]

    def train(self, **objects: Any) -> None:
        """Carry out the phases, as `main` does with these objects."""
        self._carry_out(lambda one: any(name.startswith(SHARED) for name in _called(one)), objects)

    def _carry_out(self, is_wanted: Callable[[ast.stmt], bool], objects: dict[str, Any]) -> None:
        parsed = ast.parse(self.file.read_text(encoding="utf-8"))
        main = next(each for each in parsed.body if isinstance(each, ast.FunctionDef) and each.name == "main")
        wanted = ast.Module([one for one in main.body if is_wanted(one)], type_ignores=[])
        exec(compile(wanted, str(self.file), "exec"), vars(self.module), objects)

    def techniques(self, function: str, hook: str, objects: dict[str, Any]) -> list[tuple[Any, bool]]:
        """The techniques whose hook a function of the program calls, in that order, made as it makes them.

        Each comes with whether the function calls its `before_epoch`, too.
        """
        parsed = ast.parse(self.file.read_text(encoding="utf-8"))
        found = next(each for each in parsed.body if isinstance(each, ast.FunctionDef) and each.name == function)
        calls = [node for node in ast.walk(found) if isinstance(node, ast.Call) and _hook_of(node) is not None]
        hooked = {hook: [one for each in calls if (one := _called_on(each, hook))] for hook in (hook, "before_epoch")}
        made = dict(objects)
        for name in hooked[hook]:
            wanted = [one for one in found.body if isinstance(one, ast.Assign) and _assigns(one, name)]
            exec(compile(ast.Module(list(wanted), type_ignores=[]), str(self.file), "exec"), vars(self.module), made)
        return [(made[name], name in hooked["before_epoch"]) for name in hooked[hook]]

    def user_function(self, function: str, plan: Plan) -> Any:
        """The function that the recipe calls `mine.f`, of the module that the program has imported under any name."""
        alias, _, name = function.partition(".")
        target = next(module.target for module in plan.user_modules if module.alias == alias)
        imported = [value for value in vars(self.module).values() if isinstance(value, ModuleType)]
        files = {str(Path(target).resolve()), str((self.file.parent / target).resolve())}  # where it may be found
        found = next(each for each in imported if each.__name__ == target or vars(each).get(USER_FILE) in files)
        return attrgetter(name)(found)


@contextmanager
def program_of(plan: Plan) -> Iterator[Program]:
    """The program of a plan, in a folder that is there as long as the context lasts."""
    with TemporaryDirectory(prefix="leaven-") as place:
        yield Program(write_program(plan, Path(place).resolve()).parent)


def seed_of(plan: Plan, args: argparse.Namespace) -> int:
    """The seed of a program, which may be an `arg`."""
    seed = next(argument.value for argument in plan.data.loading if argument.name == "seed")
    return int(getattr(args, Names(plan).arg(seed.name)) if isinstance(seed, ArgValue) else seed)  # type: ignore[arg-type]


def _assigns(statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _hook_of(call: ast.Call) -> str | None:
    """The method that is called on a variable."""
    return call.func.attr if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) else None


def _called_on(call: ast.Call, hook: str) -> str | None:
    """The variable on which a hook is called."""
    if _hook_of(call) != hook:
        return None
    return call.func.value.id  # type: ignore[attr-defined, no-any-return]


def _called(statement: ast.stmt) -> list[str]:
    """The functions of the program that a statement calls."""
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return [function.id for function in calls if isinstance(function, ast.Name)]
