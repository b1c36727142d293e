"""The names of a program: each is free where it is used, whatever the recipe calls its files and `arg`s."""

import builtins
import re
from collections.abc import Collection, Iterable
from itertools import count
from keyword import iskeyword
from unicodedata import normalize

from leaven.plan.plan import Plan

VARIABLES = {  # of programs, and the modules that they import
    *("args", "run", "data", "dataset", "split", "transform", "train_transform", "eval_transform", "model", "teacher"),
    *("metrics", "phase", "criterion", "optimizer", "schedule", "images", "targets", "outputs", "loss", "scores"),
    *("averaged", "num_classes", "num_outputs", "channels", "parser", "parse_args", "main", "train", "closure"),
    *("argparse", "partial", "torch", "nn", "T", "timm", "torchvision", "bundle", "runtime", "techniques", "task"),
}
_BEGINNINGS = ("build_", "train_", "teacher_")  # of the names that depend on the recipe
_ARGS = {  # of every program
    *(
        "resume",
        "more_epochs",
        "finish",
        "train_only",
        "snapshot",
        "output",
        "from_phase",
        "of",
        "quick",
        "devices",
        "machines",
    ),
}


class Names:
    """What a program calls the user's modules and the `arg`s of the recipe; `taken` are names of its own."""

    def __init__(self, plan: Plan, taken: Collection[str] = ()) -> None:
        self._taken = {*VARIABLES, *dir(builtins), *taken}
        aliases = [module.alias for module in plan.user_modules]
        self._modules = _free(aliases, self._taken, _BEGINNINGS, "user_")
        self._args = _free((arg.name for arg in plan.args), _ARGS, ("_",), "arg")
        self.of_user = frozenset(self._modules.values())

    def user(self, target: str) -> str:
        """Something of the user's: `mine.Net`."""
        module, dot, rest = target.partition(".")
        return f"{self._modules[module]}{dot}{rest}"

    def arg(self, name: str) -> str:
        """The attribute of `args` that holds the value of an `arg`."""
        return self._args[name]

    def variables(self, wanted: Iterable[str]) -> list[str]:
        """Names for variables: the wanted ones, with a number where they aren't free."""
        found: list[str] = []
        for name in wanted:
            candidates = (name if at == 1 else f"{name}_{at}" for at in count(1))
            found.append(next(one for one in candidates if one not in {*found, *self._taken, *self.of_user}))
        return found


def is_parameter(name: str) -> bool:
    """Whether a call can name an argument so."""
    return name.isidentifier() and not iskeyword(name) and normalize("NFKC", name) == name


def _free(names: Iterable[str], taken: Collection[str], odd: tuple[str, ...], prefix: str) -> dict[str, str]:
    """A Python name for each: another beginning where it begins oddly, and underscores after it where it is taken."""
    found: dict[str, str] = {}
    for name in names:
        free = normalize("NFKC", name)  # as Python reads names
        if not free.isidentifier():
            free = re.sub(r"\W", "_", free, flags=re.ASCII)
        if free.startswith(odd):
            free = f"{prefix}{free}"
        while iskeyword(free) or free in taken or free in found.values():
            free += "_"
        found[name] = free
    return found
