"""From the values of a recipe to those of a plan: cards become import paths, syntax becomes calculations."""

import os.path
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from leaven.binding.parameter_defaults import is_chosen
from leaven.binding.scope import BOUND_BY_DATA
from leaven.catalog.card import Card
from leaven.catalog.value_text import value_text
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
    is_written,
)
from leaven.language import syntax
from leaven.language.source import SourceKind
from leaven.plan.values import (
    Argument,
    ArgValue,
    Because,
    Bound,
    Calculation,
    Call,
    Entries,
    Negative,
    Reference,
    Value,
    Variable,
)

_FROM_DATA = {name: Variable("channels" if name == "channels" else "outputs") for name in BOUND_BY_DATA}

# -- reasons


def because(*origins: Origin) -> tuple[Because, ...]:
    return tuple(dict.fromkeys(_reason(origin) for origin in origins))


def _reason(origin: Origin) -> Because:
    if isinstance(origin, Default):
        return Because(str(origin), is_default=True)
    if not is_written(origin):
        return Because("default", is_default=True)
    is_here = origin.span.source.kind in (SourceKind.RECIPE, SourceKind.INPUT)
    return Because(str(origin), origin.span.line if is_here else None)


def because_of_call(invocation: Invocation) -> tuple[Because, ...]:
    """The reasons for a call, and for those of its arguments that are written."""
    return because(invocation.origin, *(s.origin for s in invocation.settings if is_written(s.origin)))


# -- values


def value_of(setting: Setting) -> Value:
    """The value of a setting; where it depends on an `arg`, the calculation with it."""
    if setting.syntax is not None:
        return _expression(setting.syntax)
    return plain_value(setting.value)


def plain_value(value: Any) -> Value:
    match value:
        case FilePath(place=place):
            return path_text(place)
        case Quantity(amount=amount):
            return amount
        case FromData(name=name):
            return _FROM_DATA[name]
        case Pending(name=name):
            return _name(name)
        case UserDefinition(module=module, name=name):
            return Reference(f"{module}.{name}", is_user=True)
        case Invocation():
            return call_of(value)
        case tuple() | list():
            return tuple(plain_value(each) for each in value)
        case dict():
            return Entries(tuple((str(key), plain_value(each)) for key, each in value.items()))
        case None | bool() | int() | float() | str():
            return value
    raise AssertionError(f"no value of a plan: {value!r}")


_STARTED_IN = ContextVar[Path | None]("_STARTED_IN", default=None)


@contextmanager
def started_in(folder: Path | None) -> Iterator[None]:
    """Paths in the plan are relative to this folder, for a program to share; None for a run in the current one."""
    before = _STARTED_IN.set(folder)
    try:
        yield
    finally:
        _STARTED_IN.reset(before)


def path_text(place: os.PathLike[str]) -> str:
    """A path relative to where the program is started; absolute for what does not move with it."""
    absolute, start = os.path.abspath(place), _STARTED_IN.get()
    relative = os.path.relpath(absolute, start)
    moves_along = not relative.startswith("..") or (start is not None and move_together(Path(absolute), start))
    return relative if moves_along else absolute


def move_together(one: Path, other: Path) -> bool:
    """Whether two places are in a folder that can be moved as a whole: neither the root, nor one above the home."""
    try:
        common = Path(os.path.commonpath([os.path.abspath(one), os.path.abspath(other)]))
    except ValueError:  # on different drives
        return False
    return common != Path(common.anchor) and common not in Path.home().parents


def _expression(value: syntax.Value) -> Value:
    """A calculation as it was written, with the program's arguments in place of the recipe's."""
    match value:
        case syntax.Binary(operator=operator, left=left, right=right):
            return Calculation(operator, _expression(left), _expression(right))
        case syntax.Negative(value=inner):
            return Negative(_expression(inner))
        case syntax.Number(value=amount):
            return amount
        case syntax.Literal(value=word) | syntax.String(value=word):
            return word
        case syntax.Name(path=path):
            return _name(path)
        case syntax.List(items=items):
            return tuple(_expression(item) for item in items)
    raise AssertionError(f"no expression: {value}")


def _name(name: str) -> Value:
    return _FROM_DATA.get(name) or ArgValue(name)


# -- calls


def call_of(
    invocation: Invocation,
    *first: Value,
    target: str = "",
    by_name: bool = False,
    without: Iterable[str] = (),
    more: Iterable[Argument] = (),
) -> Call:
    """The call of what a card stands for: `first`, then the recipe's arguments, then `more`, which replaces these.

    Required arguments come without names, if nothing is before them.
    """
    added = tuple(more)
    left_out = frozenset(without) | {argument.name for argument in added}
    given = arguments_of(invocation, without=left_out, by_name=by_name or bool(first))
    is_user = invocation.card.kind == "user" and not target
    return Call(
        target=target or (invocation.card.name if is_user else invocation.card.target),
        arguments=(*(Argument("", value) for value in first), *given, *added),
        is_user=is_user,
        text=call_text(invocation),
        because=because_of_call(invocation),
    )


def arguments_of(invocation: Invocation, *, without: Iterable[str] = (), by_name: bool = False) -> tuple[Argument, ...]:
    """The settings that differ from the defaults of what is called, by the names that it gives them."""
    found: list[Argument] = []
    is_leading = not by_name
    left_out = frozenset(without)
    for setting in invocation.settings:
        parameter = invocation.card.parameter(setting.name)
        name = (parameter.target if parameter and parameter.target else None) or setting.name
        is_leading = is_leading and parameter is not None and parameter.required and parameter.positional
        if name not in left_out and is_chosen(setting, invocation):
            value = _library_value(setting, invocation.card)
            text = setting_text(setting, invocation)
            found.append(Argument("" if is_leading else name, value, text, because(setting.origin)))
    return tuple(found)


def _library_value(setting: Setting, card: Card) -> Value:
    """A setting as the library takes it: some strings are members of an enum, some lists are tensors."""
    parameter = card.parameter(setting.name)
    if parameter is not None and parameter.enum and isinstance(setting.value, str):
        if parameter.enum == "torch":
            return Reference(f"torch.{setting.value}")
        return Reference(parameter.enum, setting.value.upper().replace("-", "_"))
    if parameter is not None and parameter.is_tensor and isinstance(setting.value, tuple | list):
        return tensor(value_of(setting))
    return value_of(setting)


def tensor(value: Value) -> Call:
    return Call("torch.tensor", (Argument("", value),))


def argument(setting: Setting, invocation: Invocation | None = None, name: str | None = None) -> Argument:
    """One setting as an argument under a name; its own where none is given."""
    text = setting_text(setting, invocation)
    return Argument(setting.name if name is None else name, value_of(setting), text, because(setting.origin))


def measurable(setting: Setting, name: str | None = None) -> Argument:
    """A setting that may be `auto`, which is what it then is, even as the value of an `arg`."""
    found = argument(setting, name=name)
    return replace(found, value=setting.value) if setting.value == "auto" else found


def function_of(invocation: Invocation) -> Bound:
    """A user's function with the recipe's arguments; the program gives the positional ones."""
    return Bound(call_of(invocation, by_name=True))


def is_user_function(invocation: Invocation) -> bool:
    """Whether it is a user's function, called during training, and not a class, instantiated before."""
    return invocation.card.kind == "user" and invocation.card.definition.form == "function"


# -- words


def call_text(invocation: Invocation) -> str:
    """A call as the recipe would write it, with what was chosen."""
    chosen = [setting for setting in invocation.settings if is_chosen(setting, invocation)]
    given = ", ".join(f"{setting.name}={setting_text(setting, invocation)}" for setting in chosen)
    return f"{recipe_name(invocation)}({given})"


def recipe_name(invocation: Invocation) -> str:
    return invocation.card.friendly or invocation.card.name


def setting_text(setting: Setting, invocation: Invocation | None = None) -> str:
    """The value of a setting as people read it, as it is now."""
    value = setting.value
    parameter = invocation.card.parameter(setting.name) if invocation is not None else None
    if parameter is not None and value in parameter.choices:
        return str(value)
    if isinstance(value, Quantity):
        unit = value.unit if value.unit == "%" else f" {value.unit}"
        return f"{value.amount:g}{unit.removesuffix('s') if value.amount == 1 and unit != '%' else unit}"
    return _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, Invocation):
        return call_text(value)
    if isinstance(value, tuple | list) and any(isinstance(each, Invocation) for each in value):
        return f"[{', '.join(map(_value_text, value))}]"
    return value_text(float(f"{value:.12g}") if isinstance(value, float) else value)
