"""The parts of a plan: calls with their arguments, values that a program can write, and the reason for each choice.

Everything here is plain data in neutral terms: what is called is named by its import path, and nothing refers to a
card, to syntax or to the recipe.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Part:
    """The base class of the parts of a plan: all are frozen dataclasses."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Because(Part):
    """Where a choice comes from: a line of the recipe, another file, an option, or a default with its reason."""

    text: str
    line: int | None = None  # of the recipe itself
    is_default: bool = False


class ArgValue(Part):
    """The value of an `arg`, known when the program runs."""

    name: str


class Variable(Part):
    """Something that the program has at that place: `classes`, `phase.total_steps`."""

    name: str


class Calculation(Part):
    operator: str
    left: "Value"
    right: "Value"


class Negative(Part):
    value: "Value"


class Reference(Part):
    """Something imported that is not called, or a member of it: `torch.float32`, `InterpolationMode.BICUBIC`."""

    target: str
    member: str = ""
    is_user: bool = False


class Entries(Part):
    """A dict."""

    items: tuple[tuple[str, "Value"], ...]


class Argument(Part):
    """An argument of a call; the name is empty where it is given by position."""

    name: str
    value: "Value"
    text: str = field(default="", compare=False)  # as people read it: `5 epochs`
    because: tuple[Because, ...] = field(default=(), compare=False)


class Call(Part):
    """A call, with all arguments that differ from the defaults of what is called."""

    target: str  # by its import path; `mine.Net` where it is the user's
    arguments: tuple[Argument, ...] = ()
    is_user: bool = False
    text: str = field(default="", compare=False)  # as the recipe would write it
    because: tuple[Because, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        return self.target.rpartition(".")[2]

    def argument(self, name: str) -> Argument | None:
        return next((argument for argument in self.arguments if argument.name == name), None)


class Bound(Part):
    """A function or class that the program calls later, with the arguments that the recipe gives."""

    call: Call


Plain = None | bool | int | float | str
Value = Plain | tuple["Value", ...] | ArgValue | Variable | Calculation | Negative | Reference | Entries | Call | Bound


def children(value: Any) -> tuple[Any, ...]:
    """The members of a tuple, or the fields of a part of a plan."""
    if isinstance(value, tuple):
        return value
    return tuple(getattr(value, each.name) for each in fields(value)) if is_dataclass(value) else ()


def parts(value: Any) -> Iterator[Any]:
    """A value or a part of a plan, and everything in it."""
    yield value
    for child in children(value):
        yield from parts(child)


def lines_of(reasons: Iterable[Because]) -> list[int]:
    """The lines of the recipe that some reasons name."""
    return sorted({reason.line for reason in reasons if reason.line is not None})
