"""Tasks: one folder each, with everything that is particular to it.

    target.py      what is predicted and how it is read from data; standard library only, so that checks use it too
    prediction.py  what a model says about one image
    evaluation.py  how well it does on many

`protocol.py` says what a task must offer; `scoring.py` measures during training, for all of them.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from leaven.tasks.protocol import Task


@cache
def names() -> tuple[str, ...]:
    """The names of the tasks, which are those of their folders."""
    return tuple(sorted(file.parent.name for file in Path(__file__).parent.glob("*/target.py")))


def find(name: str) -> "Task | None":
    """A task by its name."""
    return cast("Task", import_module(f"leaven.tasks.{name}")) if name in names() else None


def members_of_code(task: str) -> Callable[[str], Any]:
    """The `__getattr__` of a task's module: imports `code.py` when one of its members is first asked for.

    The compiler imports the target beside it, and must not import torch with it.
    """

    def member(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {task} has no attribute {name}")
        return getattr(import_module(f"{task}.code"), name)

    return member
