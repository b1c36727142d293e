"""Values of a recipe as Python expressions, and the recipe lines that they come from."""

import os.path
from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

from leaven.binding.parameter_defaults import is_chosen
from leaven.binding.scope import BOUND_BY_DATA
from leaven.catalog.card import Card
from leaven.catalog.values import (
    FilePath,
    FromData,
    Invocation,
    Origin,
    Pending,
    Quantity,
    Setting,
    UserDefinition,
    Written,
    is_written,
)
from leaven.language import syntax
from leaven.language.source import SourceKind
from leaven.program.code import Code, Item, call, listing, number, text
from leaven.program.imports import Imports
from leaven.recipe.task import Task


class Values:
    """Writes values, and remembers which `arg`s of the recipe and which imports they need."""

    def __init__(self, imports: Imports, task: Task) -> None:
        self.imports = imports
        self._task = task.name
        self.outputs = task.outputs_name
        self.used_args: set[str] = set()
        self._names: set[str] = set()

    def runtime(self, name: str) -> str:
        """A function or class of Leaven's runtime."""
        return self.imports.use(f"leaven.runtime.{name}")

    def task(self, name: str) -> str:
        """A function or class of the recipe's task."""
        return self.imports.use(f"leaven.tasks.{self._task}.{name}")

    @contextmanager
    def noting(self) -> Iterator[set[str]]:
        """Collects the names of a function's scope (`args`, `classes`, …) that the values use."""
        self._names = set()
        yield self._names

    def name(self, name: str) -> str:
        self._names.add(name)
        return name

    def setting(self, setting: Setting) -> Code:
        """The value of a setting; where it depends on an `arg`, the calculation with it."""
        if setting.syntax is not None:
            return self.expression(setting.syntax)
        if setting.name == "interpolation" and isinstance(setting.value, str):
            self.imports.use("torchvision.transforms.v2.InterpolationMode")
            return f"T.InterpolationMode.{setting.value.upper().replace('-', '_')}"
        if setting.name == "dtype" and isinstance(setting.value, str):
            return self.imports.use(f"torch.{setting.value.removeprefix('torch.')}")
        return self.value(setting.value)

    def operand(self, setting: Setting) -> Code:
        """A setting as part of a larger calculation."""
        return self._operand(setting.syntax) if setting.syntax is not None else self.setting(setting)

    def value(self, value: Any) -> Code:
        match value:
            case str():
                return text(value)
            case FilePath(place=place):
                return text(path_text(place))
            case Quantity(amount=amount):
                return number(amount)
            case FromData(name=name):
                return self._from_data(name)
            case Pending(name=name):
                return self._arg(name)
            case UserDefinition(module=module, name=name):
                return user_name(f"{module}.{name}")
            case Invocation():
                return self.call(value)
            case float():
                return number(value)
            case tuple() | list():
                return listing(*(self.value(each) for each in value))
        return repr(value)

    def expression(self, value: syntax.Value) -> str:
        """A calculation as it was written, with the program's arguments in place of the recipe's."""
        match value:
            case syntax.Binary(operator=operator, left=left, right=right):
                return f"{self._operand(left)} {operator} {self._operand(right)}"
            case syntax.Negative(value=inner):
                return f"-{self._operand(inner)}"
            case syntax.Number(value=amount):
                return number(amount)
            case syntax.Literal(value=word):
                return repr(word)
            case syntax.Name(path=path):
                return self._arg(path)
            case syntax.String(value=written):
                return text(written)
            case syntax.List(items=items):
                return "[" + ", ".join(self.expression(item) for item in items) + "]"
        raise AssertionError(f"no expression: {value}")

    def _operand(self, value: syntax.Value) -> str:
        written = self.expression(value)
        return f"({written})" if isinstance(value, syntax.Binary) else written

    def _arg(self, name: str) -> str:
        if name in BOUND_BY_DATA:
            return self._from_data(name)
        self.used_args.add(name)
        return f"{self.name('args')}.{argument_name(name)}"

    def _from_data(self, name: str) -> str:
        return self.name("channels" if name == "channels" else self.outputs)

    # -- calls

    def call(self, invocation: Invocation, *first: Code, function: str = "", **more: Code) -> Code:
        """A call of a card's target: first what is given here, then by name what the recipe says."""
        name = function or self.target(invocation)
        given = self.arguments(invocation, frozenset(more), by_name=bool(first))
        return call(name, *first, *given, **more)

    def target(self, invocation: Invocation) -> str:
        card = invocation.card
        return user_name(card.name) if card.kind == "user" else self.imports.use(card.target)

    def function(self, invocation: Invocation) -> Code:
        """A user's function with the recipe's arguments bound by name; the program gives the positional ones."""
        given = self.arguments(invocation, by_name=True)
        if not given:
            return user_name(invocation.card.name)
        self.imports.add("from functools import partial")
        return call("partial", user_name(invocation.card.name), *given)

    def arguments(
        self, invocation: Invocation, without: frozenset[str] = frozenset(), *, by_name: bool = False
    ) -> list[Item]:
        """The settings that differ from the defaults of what is called."""
        items = []
        is_leading = not by_name  # required arguments come first, without names
        for setting in invocation.settings:
            parameter = invocation.card.parameter(setting.name)
            name = (parameter.target if parameter and parameter.target else None) or setting.name
            is_leading = is_leading and parameter is not None and parameter.required and parameter.positional
            if name in without or not is_chosen(setting, invocation):
                continue
            items.append(Item(self._argument(setting, invocation.card), "" if is_leading else f"{name}="))
        return items

    def _argument(self, setting: Setting, card: Card) -> Code:
        """A setting as the library takes it: some strings are members of an enum, some lists are tensors."""
        parameter = card.parameter(setting.name)
        if parameter is not None and parameter.enum and isinstance(setting.value, str):
            return f"{self.imports.use(parameter.enum)}.{setting.value.upper()}"
        if parameter is not None and parameter.is_tensor and isinstance(setting.value, tuple | list):
            return call(self.imports.use("torch.tensor"), self.setting(setting))
        return self.setting(setting)


NAMES = {  # that programs use for something else than a user's module
    *("args", "run", "data", "dataset", "split", "transform", "train_transform", "eval_transform", "model", "teacher"),
    *("metrics", "phase", "criterion", "optimizer", "schedule", "images", "labels", "outputs", "loss", "scores"),
    *("averaged", "classes", "channels", "parser", "parse_args", "main", "train", "closure"),
    *("argparse", "partial", "torch", "nn", "T", "timm", "torchvision", "bundle", "runtime", "techniques", "task"),
}


def user_name(name: str) -> str:
    """The program's name for something of the user's: a module that is called like one of the program's own variables
    gets an underscore."""
    module, dot, rest = name.partition(".")
    return f"{module}_{dot}{rest}" if module in NAMES else name


def argument_name(arg: str) -> str:
    """The Python name of an `arg`: keywords such as `class` get an underscore."""
    return f"{arg}_" if iskeyword(arg) else arg


def is_own_function(invocation: Invocation) -> bool:
    """Whether it is a user's function, called during training, and not a class, instantiated before."""
    return invocation.card.kind == "user" and invocation.card.definition.form == "function"


def path_text(place: os.PathLike[str]) -> str:
    """A path relative to where the program is started, if it is inside; else an absolute one."""
    absolute = os.path.abspath(place)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith("..") else relative


# -- citations


def cite(*origins: Origin) -> str:
    """Where a choice comes from: `lines 5, 7`; nothing for a default."""
    written = [origin for origin in origins if isinstance(origin, Written) and is_written(origin)]
    here = sorted({o.span.line for o in written if o.span.source.kind in (SourceKind.RECIPE, SourceKind.INPUT)})
    others = dict.fromkeys(str(o) for o in written if o.span.source.kind not in (SourceKind.RECIPE, SourceKind.INPUT))
    cited = [f"line{'s' * (len(here) > 1)} {', '.join(map(str, here))}"] if here else []
    return "; ".join([*cited, *others])


def origins_of(invocation: Invocation) -> list[Origin]:
    """The origins of a call and of its arguments."""
    found: list[Origin] = [invocation.origin]
    found += [setting.origin for setting in invocation.settings if is_written(setting.origin)]
    return found


def cite_call(invocation: Invocation, *more: Origin) -> str:
    return cite(*origins_of(invocation), *more)
