"""The names of a program: each is free where it is used, whatever the recipe calls its files, techniques and `arg`s.

Which names a program uses is read from the program itself: it is first written with stand-ins for the user's names.
"""

import ast
import builtins
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count
from keyword import iskeyword
from unicodedata import normalize

from leaven.formats.program_flags import FLAGS
from leaven.plan.plan import Plan

_ARGS = frozenset({"machines", *(flag.name for flag in FLAGS)})  # the attributes of `args` in any program
_STAND_IN = "__stand_in_"
SHARED = "train"  # the loop that several phases share, or the function of the only phase


def function_names(plan: Plan) -> list[str]:
    """The names of the functions of the phases: `train_fine_tune`; where there is only one phase, `train`."""
    if len(plan.phases) == 1:
        return [SHARED]
    slugs = [re.sub(r"\W+", "_", each.name.lower(), flags=re.ASCII).strip("_") or "phase" for each in plan.phases]
    found: list[str] = []
    for number, slug in enumerate(slugs, 1):
        name = f"{SHARED}_{slug}" if slugs.count(slug) == 1 else f"{SHARED}_{slug}_{number}"
        while name in found:
            name += "_"
        found.append(name)
    return found


def with_free_names(plan: Plan, write: Callable[["Names"], str]) -> str:
    """A program in which no name of the user's is one that the program uses itself."""
    draft = write(Names(plan))
    return write(Names(plan, {name for name in names_in(draft) if not name.startswith(_STAND_IN)}))


class Names:
    """What a program calls the user's modules, its techniques and the `arg`s of the recipe.

    `taken` are the program's own names. Without them, the names of modules and techniques are stand-ins.
    """

    def __init__(self, plan: Plan, taken: Collection[str] | None = None) -> None:
        aliases = [module.alias for module in plan.user_modules]
        self._taken = None if taken is None else {*taken, *dir(builtins)}
        if self._taken is None:
            self._modules = {alias: f"{_STAND_IN}module_{at}" for at, alias in enumerate(aliases)}
        else:
            self._modules = _free(aliases, self._taken, "user")
        self.models_before = {  # the variables that hold the model as it was when a phase began
            phase.name: f"model_before{name.removeprefix(SHARED)}"
            for phase, name in zip(plan.phases, function_names(plan), strict=True)
            if phase.is_remembered
        }
        self._args = _free((arg.name for arg in plan.args), _ARGS, "arg")

    def user(self, target: str) -> str:
        """Something of the user's: `mine.Net`."""
        module, dot, rest = target.partition(".")
        return f"{self._modules[module]}{dot}{rest}"

    def arg(self, name: str) -> str:
        """The attribute of `args` that holds the value of an `arg`."""
        return self._args[name]

    def variables(self, wanted: Iterable[str]) -> list[str]:
        """Names for the variables of techniques: the wanted ones, with a number where they aren't free."""
        if self._taken is None:
            return [f"{_STAND_IN}variable_{at}" for at, _ in enumerate(wanted)]
        found: list[str] = []
        for name in (_public(each, "technique") for each in wanted):
            candidates = (name if at == 1 else f"{name}_{at}" for at in count(1))
            taken = {*found, *self._taken, *self._modules.values()}
            found.append(next(one for one in candidates if is_parameter(one) and one not in taken))
        return found


def is_parameter(name: str) -> bool:
    """Whether a call can name an argument so."""
    return name.isidentifier() and not iskeyword(name) and normalize("NFKC", name) == name


def names_in(program: str) -> set[str]:
    """Every name that a program defines or uses, in any of its scopes."""
    return {name for node in ast.walk(ast.parse(program)) for name in _names_of(node)}


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case ast.MatchMapping(rest=str(name)):
            yield name


def _free(names: Iterable[str], taken: Collection[str], prefix: str) -> dict[str, str]:
    """A Python name for each, with underscores after it where it is taken."""
    found: dict[str, str] = {}
    for name in names:
        free = _public(name, prefix)
        while iskeyword(free) or free in taken or free in found.values():
            free += "_"
        found[name] = free
    return found


def _public(name: str, prefix: str) -> str:
    """A name as Python reads it; leading underscores, which Python's own and private names have, become the prefix."""
    free = normalize("NFKC", name)
    if not free.isidentifier():
        free = re.sub(r"\W", "_", free, flags=re.ASCII)
    return f"{prefix}_{free.strip('_')}".rstrip("_") if free.startswith("_") else free
