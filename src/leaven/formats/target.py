"""What a model learns to predict: the protocol that the target of every task follows.

A task's folder holds its target (`tasks/classification/target.py`), written with the standard library alone, so that a
check and the training read the same data in the same way. A target is plain data: bundles store it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from leaven.formats.target_kind import TargetKind
from leaven.formats.texts import is_utf8

LONGEST = 60  # characters of a label in a message
Value = Any  # of one sample, as its task makes a target of it: the index of a class, or a tuple of numbers


class BadTarget(ValueError):
    """A fault in the labels of a data set: the fact follows the name of the data, or of the sample `at`."""

    def __init__(self, id: str, fact: str, help: str = "", *, at: int | None = None) -> None:
        super().__init__(fact)
        self.fact = fact
        self.help = help
        self.at = at
        self.id = id  # of the page in the docs


class Doubt(NamedTuple):
    """A fact about labels, which follows the name of the data, and what is probably meant instead."""

    fact: str
    help: str


class Target(Protocol):
    """The meaning of each output of a model."""

    task: ClassVar[str]  # the name of the task's folder
    kind: ClassVar[TargetKind]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each output."""

    @property
    def brief(self) -> str:
        """The outputs in a word or two: "10 classes"."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Where the table had the labels from which the target was read, or usually has them."""

    def value(self, given: Any) -> Value:
        """The value of a sample that is labelled so; a BadTarget for a label without a meaning."""

    def plain(self, value: Value) -> Any:
        """A value as people write it."""

    def fitted(self, values: Sequence[Value], train: Sequence[int]) -> tuple["Target", Sequence[Value]]:
        """The target once the training split is known, and all values as the model is trained on them."""

    def strata(self, values: Sequence[Value]) -> Sequence[int]:
        """A number for each sample: samples with the same number are divided alike among the splits."""

    def stratum(self, number: int) -> str:
        """The common property of the samples of a stratum, in words."""

    def unseen(self, train: Sequence[Value], other: Sequence[Value]) -> str:
        """The labels of a split that never occur in training, in words: "the class bee"; empty without any."""

    def to_json(self) -> dict[str, Any]:
        """The target as a bundle stores it; `names` are under that key in every task."""


class TargetReader(Protocol):
    """How the labels of a data set become a target and values."""

    @property
    def argument(self) -> str:
        """The argument of a data statement that asks for it."""

    @property
    def attribute(self) -> str:
        """The attribute in which a data set of the user's may tell what the outputs are called."""

    @property
    def columns(self) -> Sequence[str]:
        """Where a table has the labels."""

    def told(self, dataset: Any) -> Target | None:
        """The target that a user's dataset declares by an attribute; None where only its labels tell."""

    def read(self, given: Sequence[Any]) -> tuple[Target, list[Value]]:
        """The target of samples with these labels, and their values; a BadTarget where they have none."""

    def doubt(self, target: Any, values: Sequence[Value]) -> Doubt | None:
        """Why labels that can be read are probably not what is meant; None where nothing speaks against them."""


@dataclass(frozen=True)
class Known:
    """The target of a trained model, as a reader: it takes only labels that the model has learned."""

    target: Target
    columns: tuple[str, ...] = ()
    argument: str = "label"
    attribute: str = ""

    def told(self, dataset: Any) -> Target:
        return self.target

    def read(self, given: Sequence[Any]) -> tuple[Target, list[Value]]:
        if self.columns and self.target.kind == "class" and any(name.isdecimal() for name in self.target.names):
            # in a table, 1 is the class `1` and not the one with the index 1
            given = [str(one) if isinstance(one := plain(label), int) else one for label in given]
        return self.target, each_sample(self.target.value, given)

    def doubt(self, target: Any, values: Sequence[Value]) -> None:
        return None


def shown(given: Any) -> str:
    """A label in a message: a long one is cut, and what can't be printed is escaped."""
    text = str(given)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return text.encode("utf-8", "backslashreplace").decode()


def plain(label: Any) -> Any:
    """A label as Python's own int or str: a NumPy scalar or a tensor of one element is its number, a list of one label
    is that label."""
    if isinstance(label, list | tuple) and len(label) == 1:
        label = label[0]
    if hasattr(label, "item") and _size(label) == 1:
        label = label.item()
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _size(label: Any) -> Any:
    return label.numel() if hasattr(label, "numel") else getattr(label, "size", None)


def check_names(names: Iterable[str]) -> None:
    """Names of classes or labels are stored in bundles, as UTF-8."""
    for name in names:
        if not is_utf8(name):
            fact = f"has the label `{shown(name)}`, which is not valid Unicode"
            raise BadTarget("wrong-label", fact, "use a valid character instead of the escaped one")


def each_sample(read: Callable[[Any], Any], given: Sequence[Any]) -> list[Any]:
    """The result of a function for the labels of every sample; a BadTarget says at which sample they are wrong."""
    values = []
    for at, label in enumerate(given):
        try:
            values.append(read(label))
        except BadTarget as bad:
            raise BadTarget(bad.id, bad.fact, bad.help, at=at) from None
    return values
