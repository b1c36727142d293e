"""Values of a recipe as Python expressions, and why each stands where it stands."""

import os.path
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

from leaven.binding.parameter_defaults import is_chosen
from leaven.catalog.card import Card
from leaven.catalog.values import (
    Default,
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

_SHORT_REASON = 70


class Values:
    """Writes values, and remembers which `arg`s of the recipe and which imports they need."""

    def __init__(self, imports: Imports, args: Iterable[str]) -> None:
        self.imports = imports
        self.args = frozenset(args)
        self.used_args: set[str] = set()
        self._names: set[str] = set()

    @contextmanager
    def noting(self) -> Iterator[set[str]]:
        """Notes which names of a function's scope (`args`, `classes`, …) the values written meanwhile use."""
        self._names = set()
        yield self._names

    def name(self, name: str) -> str:
        self._names.add(name)
        return name

    def setting(self, setting: Setting) -> Code:
        """What a setting comes to; where it depends on an `arg`, as it was calculated with it."""
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
                return self.name(name)
            case Pending(name=name):
                return self._arg(name)
            case UserDefinition(module=module, name=name):
                return f"{module}.{name}"
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
        if name in ("classes", "channels"):
            return self.name(name)
        self.used_args.add(name)
        return f"{self.name('args')}.{argument_name(name)}"

    # -- calls

    def call(self, invocation: Invocation, *first: Code, function: str = "", **more: Code) -> Code:
        """A call of what a card stands for, with what is given first and, then by name, what the recipe says."""
        name = function or self.target(invocation)
        given = self.arguments(invocation, frozenset(more), by_name=bool(first))
        return call(name, *first, *given, **more)

    def target(self, invocation: Invocation) -> str:
        card = invocation.card
        return card.name if card.kind == "user" else self.imports.use(card.target)

    def function(self, invocation: Invocation) -> Code:
        """A function of the user's, with what the recipe says bound by name: the places before are the program's."""
        given = self.arguments(invocation, by_name=True)
        if not given:
            return invocation.card.name
        self.imports.add("from functools import partial")
        return call("partial", invocation.card.name, *given)

    def arguments(
        self, invocation: Invocation, without: frozenset[str] = frozenset(), *, by_name: bool = False
    ) -> list[Item]:
        """The settings that say something other than what holds anyway."""
        items = []
        is_leading = not by_name  # those that must be given come first, and need no name
        for setting in invocation.settings:
            parameter = invocation.card.parameter(setting.name)
            name = (parameter.target if parameter and parameter.target else None) or setting.name
            is_leading = is_leading and parameter is not None and parameter.required and parameter.positional
            if name in without or not is_chosen(setting, invocation):
                continue
            items.append(Item(self._argument(setting, invocation.card), "" if is_leading else f"{name}="))
        return items

    def _argument(self, setting: Setting, card: Card) -> Code:
        """A setting as the library wants it: some texts are members of an enum, some lists are tensors."""
        parameter = card.parameter(setting.name)
        if parameter is not None and parameter.enum and isinstance(setting.value, str):
            return f"{self.imports.use(parameter.enum)}.{setting.value.upper()}"
        if parameter is not None and parameter.is_tensor and isinstance(setting.value, tuple | list):
            return call(self.imports.use("torch.tensor"), self.setting(setting))
        return self.setting(setting)


def argument_name(arg: str) -> str:
    """How a program calls an `arg`; `class` and the like have a meaning in Python."""
    return f"{arg}_" if iskeyword(arg) else arg


def is_own_function(invocation: Invocation) -> bool:
    """Whether the user's file defines it as a function, to be called at work, and not as a class to be made before."""
    return invocation.card.kind == "user" and invocation.card.definition.form == "function"


def path_text(place: os.PathLike[str]) -> str:
    """A path from where the program is started, if it lies below; else from the root."""
    absolute = os.path.abspath(place)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith("..") else relative


# -- reasons


def cite(*origins: Origin) -> str:
    """Where a choice comes from, in a few words: `lines 5, 7`, `default: the data comes undivided`."""
    written = [origin for origin in origins if isinstance(origin, Written) and is_written(origin)]
    if not written:
        reasons = [origin.reason for origin in origins if isinstance(origin, Default)]
        reason = next((reason for reason in reasons if reason and not reason.startswith("of ")), "")
        return f"default: {reason}" if reason and len(reason) <= _SHORT_REASON else "default"
    here = sorted({o.span.line for o in written if o.span.source.kind in (SourceKind.RECIPE, SourceKind.INPUT)})
    others = dict.fromkeys(str(o) for o in written if o.span.source.kind not in (SourceKind.RECIPE, SourceKind.INPUT))
    cited = [f"line{'s' * (len(here) > 1)} {', '.join(map(str, here))}"] if here else []
    return "; ".join([*cited, *others])


def origins_of(invocation: Invocation) -> list[Origin]:
    """The origins of a call and of all that is said in it."""
    found: list[Origin] = [invocation.origin]
    found += [setting.origin for setting in invocation.settings if is_written(setting.origin)]
    return found


def cite_call(invocation: Invocation, *more: Origin) -> str:
    return cite(*origins_of(invocation), *more)
