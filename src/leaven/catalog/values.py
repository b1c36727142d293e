"""Values of a recipe: what was written or filled in, its type known, and where each comes from.

The rooms above build and read them; how one is written in a recipe is left to `value_text.py`.
"""

from dataclasses import field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from leaven.catalog.card import Card
from leaven.language.record import Record
from leaven.language.source import SourceKind, Span
from leaven.language.syntax import Value as Syntax


class Unknown(Enum):
    """A value that could not be determined. The reason is reported already, so later stages ignore it."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


class Written(Record):
    """Written in a recipe file or in an option on the command line."""

    span: Span

    def __str__(self) -> str:
        source = self.span.source
        if source.kind is SourceKind.OPTION:
            return f"option {source.name}"
        return f"{source.name}, line {self.span.line}" if source.kind is SourceKind.BASE else f"line {self.span.line}"


class Default(Record):
    """Not written; `reason` says why it is so."""

    reason: str

    @property
    def span(self) -> None:
        """Nowhere."""

    def __str__(self) -> str:
        if self.reason.startswith("of "):
            return f"default {self.reason}"
        return f"default: {self.reason}" if self.reason else "default"


Origin = Written | Default


def is_written(origin: Origin) -> bool:
    """Whether it is in a recipe or on the command line, rather than in a card's default statement."""
    return isinstance(origin, Written) and origin.span.source.kind is not SourceKind.DEFAULT


_SINGULARS = ("epoch", "step", "minute", "hour", "sample")


def plural_unit(unit: str) -> str:
    """The unit as Leaven writes it: `epoch` and `epochs` are the same."""
    return f"{unit}s" if unit in _SINGULARS else "%" if unit == "percent" else unit


class Quantity(Record):
    """A number with its unit, in the plural: `5 epochs`, `30%`."""

    amount: int | float
    unit: str


class FilePath(Record):
    """A path as written, and the place that it means."""

    text: str
    place: Path = field(compare=False)
    span: Span | None = field(default=None, compare=False)


class Score(Record):
    """A number that training watches: `val.accuracy`."""

    split: str
    metric: str

    def __str__(self) -> str:
        return f"{self.split}.{self.metric}"


class FromData(Record):
    """`classes` or `channels`: known at the latest when the data is there."""

    name: str
    number: int | None


class Pending(Record):
    """A value that an `arg` without a default, or the data, gives when the recipe runs.

    `name` is its name, or a calculation with it as it would be written: `size * 2`.
    """

    name: str


Number = int | float | Quantity | FromData | Pending  # what a calculation may come to


class UserDefinition(Record):
    """A function or class in user code."""

    module: str
    name: str


class Setting(Record):
    """One argument of a call or statement. `syntax` is what was written, where it depends on an `arg`."""

    name: str
    value: Any
    origin: Origin = field(compare=False)
    syntax: Syntax | None = field(default=None, compare=False)

    @property
    def span(self) -> Span | None:
        return self.origin.span


class Invocation(Record):
    """A card put to use with its arguments."""

    card: Card
    settings: tuple[Setting, ...]
    origin: Origin = field(compare=False)

    @property
    def span(self) -> Span | None:
        return self.origin.span

    def value(self, name: str, default: Any = None) -> Any:
        """The value of an argument."""
        setting = self.setting(name)
        return default if setting is None else setting.value

    def __getitem__(self, name: str) -> Setting:
        """An argument that the card has."""
        setting = self.setting(name)
        if setting is None:
            raise KeyError(name)
        return setting

    def setting(self, name: str) -> Setting | None:
        return next((setting for setting in self.settings if setting.name == name), None)

    def with_setting(self, setting: Setting) -> "Invocation":
        """The same with another value of an argument that it has."""
        return replace(self, settings=tuple(setting if old.name == setting.name else old for old in self.settings))

    def without_setting(self, name: str) -> "Invocation":
        return replace(self, settings=tuple(setting for setting in self.settings if setting.name != name))


class Arg(Record):
    """An argument of the recipe, and the value it has now."""

    name: str
    type: str
    choices: tuple[str, ...]
    value: Any
    help: str
    origin: Origin = field(compare=False)


class UserModule(Record):
    """An imported file or package of user code."""

    alias: str
    target: str
    is_file: bool
    place: Path | None = field(compare=False)
