"""The target of classification: one of several classes."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from leaven.formats.target import BadTarget, Kind, values_of

LISTED = 12  # class names in a message
_NAMES = ("classes", "categories")  # the attributes of a data set that may hold them
_COUNTS = ("num_classes", "n_classes")


@dataclass(frozen=True)
class Classes:
    """The classes in the order of the outputs. A value is the index of a class."""

    names: tuple[str, ...]
    column: str = "label"
    task: ClassVar[str] = "classification"
    kind: ClassVar[Kind] = "class"

    @property
    def brief(self) -> str:
        return f"{len(self.names)} classes"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def value(self, given: Any) -> int:
        """The index of a class that is given by its name or its index."""
        given = plain(given)
        if isinstance(given, str) and given in self.names:
            return self.names.index(given)
        if isinstance(given, int) and 0 <= given < len(self.names):
            return given
        near = difflib.get_close_matches(str(given), self.names, n=1)
        raise BadTarget(
            "no-classes",
            f"has the class `{given}`, which is not one of the {len(self.names)} known classes",
            f"did you mean `{near[0]}`?" if near else f"the classes are: {listed(self.names)}",
        )

    def plain(self, value: int) -> str:
        return self.names[value]

    def fitted(self, values: Sequence[int], train: Sequence[int]) -> tuple["Classes", Sequence[int]]:
        return self, values

    def strata(self, values: Sequence[int]) -> Sequence[int]:
        return values

    def stratum(self, number: int) -> str:
        return self.names[number]

    def unseen(self, train: Sequence[int], other: Sequence[int]) -> str:
        names = [self.names[value] for value in sorted(set(other) - set(train))]
        return f"the class{'es' * (len(names) > 1)} {listed(names)}" if names else ""

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names), "column": self.column}


def read_target(data: Any) -> Classes:
    match data:
        case {"names": [*names], "column": str(column)}:
            return Classes(tuple(str(name) for name in names), column)
    raise ValueError("the classes can't be read")


@dataclass(frozen=True)
class Label:
    """The classes are the different labels, unless their names are known."""

    column: str = "label"
    names: tuple[str, ...] | None = None
    argument: ClassVar[str] = "label"
    attribute: ClassVar[str] = "classes"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def told(self, dataset: Any) -> Classes | None:
        if self.names is not None:
            return Classes(self.names, self.column)
        for attribute in _NAMES:
            names = getattr(dataset, attribute, None)
            if isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 1:
                # ImageNet's are tuples of words for the same thing
                return Classes(tuple(", ".join(name) if isinstance(name, tuple) else str(name) for name in names))
        for attribute in _COUNTS:
            count = getattr(dataset, attribute, None)
            if isinstance(count, int) and not isinstance(count, bool):
                return Classes(tuple(str(number) for number in range(count)))
        return None

    def read(self, given: Sequence[Any]) -> tuple[Classes, list[int]]:
        if self.names is not None:
            known = Classes(self.names, self.column)
            return known, values_of(known, given)
        labels = [plain(label) for label in given]
        target = Classes(_names(labels), self.column)
        index = {name: at for at, name in enumerate(target.names)}
        return target, [index[str(label)] for label in labels]


def _names(labels: Sequence[Any]) -> tuple[str, ...]:
    """The different labels, in order."""
    for at, label in enumerate(labels):
        if label is None or label == "":
            raise BadTarget("wrong-label", "has no label", "fill it in, or remove the line", at=at)
        if not isinstance(label, int | str):
            help = 'several labels per image are another task: `labels="…"`' if isinstance(label, list | tuple) else ""
            fact = f"has a label of type {type(label).__name__}, which is not a class"
            raise BadTarget("wrong-label", fact, help, at=at)
    distinct = set(labels)
    if len(distinct) < 2:
        has = f"only the class `{labels[0]}`" if labels else "no classes"
        help = 'name the column with the classes: `label="…"`'
        raise BadTarget("no-classes", f"has {has}, but a classifier needs two or more", help)
    return tuple(map(str, in_order(distinct)))


def in_order(labels: set[Any]) -> list[Any]:
    """Labels in alphabetical order, and numbers as numbers."""
    if all(isinstance(label, int) or label.isdecimal() for label in labels):
        return sorted(labels, key=lambda label: (int(label), str(label)))
    return sorted(labels, key=str)


def plain(label: Any) -> Any:
    """A label as Python's own int or str: a NumPy scalar or a tensor of one element is its number."""
    if hasattr(label, "item") and _size(label) == 1:
        label = label.item()
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _size(label: Any) -> Any:
    return label.numel() if hasattr(label, "numel") else getattr(label, "size", None)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
