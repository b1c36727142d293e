"""A kind of edit as a row of a table, and one edit: its name and its arguments.

Decides which arguments are accepted and how an edit is written in words, in Python and as JSON; what it does to an
image or a text is left to the functions of the table.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from leaven.formats.finite_json import as_json
from leaven.runtime.failures import Failure
from leaven.terminal.visible import visible

Noun = Literal["image", "text"]
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Parameter:
    """An argument of an edit with its bounds; without a default it must be given."""

    name: str
    type: Literal["number", "count", "text", "word"] = "number"  # a word is given by its place, from 1, or as itself
    low: float = -math.inf
    high: float = math.inf
    default: Any = None
    choices: tuple[str, ...] = ()

    def read(self, value: Any, of: str) -> Any:
        """A value as this parameter has it; a Failure where it can't be one."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        match self.type:
            case "number" if is_number:
                read = float(value)
            case "count" if is_number and value == int(value):
                read = int(value)
            case "word" if is_number and value == int(value) and value >= 1:
                return int(value)
            case "text" | "word" if isinstance(value, str) and (not self.choices or value in self.choices):
                return value
            case _:
                raise Failure(f"`{of}`: {self.name} must be {self._wanted()}, not {_shown(value)}")
        if not self.low <= read <= self.high:
            raise Failure(f"`{of}`: {self.name} must be {self._wanted()}, not {_number(read)}")
        return read

    def _wanted(self) -> str:
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        what = {"number": "a number", "count": "a whole number", "text": "a text", "word": "a word or its place"}
        low, high = (None if math.isinf(edge) else _number(edge) for edge in (self.low, self.high))
        bounds = f" from {low} to {high}" if low and high else f" of at least {low}" if low else ""
        return what[self.type] + bounds


@dataclass(frozen=True)
class EditKind:
    """A kind of edit: a row of the table.

    `phrase` says it in words, with an optional end in brackets that is left out where its arguments are the defaults.
    `neutral` is the first argument with which nothing changes, `sweep` the range of the first argument that is tried;
    an edit of one word is tried with each word (`by_word`).
    """

    name: str
    noun: Noun
    summary: str
    phrase: str
    apply: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    neutral: float | None = None
    sweep: tuple[float, float] | None = None
    by_word: bool = False
    moves: bool = False  # what is in the image has another place afterwards
    recipe: Callable[..., str] | None = None  # the transform that prepares a model for it, as a recipe writes it

    def with_arguments(self, *arguments: Any) -> "Edit":
        """The edit with these arguments; a Failure where they don't fit."""
        least = sum(parameter.default is None for parameter in self.parameters)
        if not least <= len(arguments) <= len(self.parameters):
            names = ", ".join(parameter.name for parameter in self.parameters) or "no arguments"
            raise Failure(f"`{self.name}` takes {names}, not {len(arguments)} values")
        given = [*arguments, *(parameter.default for parameter in self.parameters[len(arguments) :])]
        read = tuple(one.read(value, self.name) for one, value in zip(self.parameters, given, strict=True))
        return Edit(self.name, read, self)

    @property
    def pattern(self) -> str:
        """A regular expression for the words of such an edit, with a group for each argument."""
        main, _, optional = self.phrase.partition("[")
        end = f"(?:{self._pattern_of(optional.rstrip(']'))})?" if optional else ""
        return self._pattern_of(main) + end

    def _pattern_of(self, words: str) -> str:
        parts = _PLACEHOLDER.split(words)
        types = {parameter.name: parameter.type for parameter in self.parameters}
        return "".join(
            _VALUES[types[part]] if at % 2 else r"\s+".join(map(re.escape, re.split(r" +", part)))
            for at, part in enumerate(parts)
        )


_NUMBER_PATTERN = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_TEXT_PATTERN = r'("(?:[^"\\\n]|\\.)*")'
_VALUES = {
    "number": _NUMBER_PATTERN,
    "count": _NUMBER_PATTERN,
    "text": _TEXT_PATTERN,
    "word": r'(\d+|"(?:[^"\\\n]|\\.)*")',
}


@dataclass(frozen=True, repr=False)
class Edit:
    """A change of an input: `brightness 0.5`."""

    name: str
    arguments: tuple[Any, ...]
    kind: EditKind = field(compare=False)

    def apply(self, value: Any) -> Any:
        """A changed copy of an image or of a text."""
        return self.kind.apply(value, *self.arguments)

    @property
    def words(self) -> str:
        """As checks and reports say it: `padded by 8 px`."""
        main, _, optional = self.kind.phrase.partition("[")
        given = dict(zip((one.name for one in self.kind.parameters), self.arguments, strict=True))
        extra = [one for one in self.kind.parameters if f"{{{one.name}}}" in optional]
        is_usual = all(given[one.name] == one.default for one in extra)
        phrase = main if is_usual else main + optional.rstrip("]")
        return _PLACEHOLDER.sub(lambda found: written(given[found[1]]), phrase)

    @property
    def keyword(self) -> str:
        """As an argument of `edit` in Python: `brightness=0.5`."""
        given = list(self.arguments)
        for parameter in reversed(self.kind.parameters):
            if parameter.default is None or given[-1] != parameter.default:
                break
            given.pop()
        value = True if not self.kind.parameters else given[0] if len(given) == 1 else tuple(given)
        return f"{self.name}={value!r}"

    def as_recipe(self) -> str | None:
        """The transform that prepares a model for such inputs; None where there is none."""
        return self.kind.recipe(*self.arguments) if self.kind.recipe is not None else None

    @as_json
    def to_json(self) -> dict[str, Any]:
        named = zip((one.name for one in self.kind.parameters), self.arguments, strict=True)
        return {"edit": self.name, **dict(named)}

    def __repr__(self) -> str:
        return f"<Edit: {visible(self.words)}>"


def written(value: Any) -> str:
    """An argument in words: a number without a needless `.0`, a text in quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _shown(value: Any) -> str:
    shown = visible(repr(value))
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


def read_edit(kind: EditKind, named: Mapping[str, Any]) -> Edit:
    """An edit from its arguments by name, as `to_json` wrote them."""
    names = [one.name for one in kind.parameters]
    if unknown := [name for name in named if name not in names]:
        raise Failure(f"`{kind.name}` has no `{visible(str(unknown[0]))}`", f"it takes {', '.join(names) or 'nothing'}")
    missing = [one.name for one in kind.parameters if one.default is None and one.name not in named]
    if missing:
        raise Failure(f"`{kind.name}` needs `{missing[0]}`")
    given: Sequence[Any] = [named.get(one.name, one.default) for one in kind.parameters]
    return kind.with_arguments(*given)
