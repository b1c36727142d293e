"""The target of classification: one of several classes."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from leaven.formats.class_names import Words, outputs_called, words_of
from leaven.formats.doubtful_labels import doubt_column
from leaven.formats.target import BadTarget, Doubt, check_names, each_sample, plain, shown
from leaven.formats.target_kind import TargetKind

LISTED = 12  # class names in a message


@dataclass(frozen=True)
class Classes:
    """The classes in the order of the outputs. A value is the index of a class.

    Classes of ImageNet have `wnids`: labels may be these, or one of the words of a name. `labels` are what data has in
    place of names that the recipe gives: the class `World` may be 1 there.
    """

    names: tuple[str, ...]
    column: str = "label"
    wnids: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    task: ClassVar[str] = "classification"
    kind: ClassVar[TargetKind] = "class"

    @property
    def brief(self) -> str:
        return f"{len(self.names)} classes"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @cached_property
    def _words(self) -> Words:
        return words_of(self.wnids, self.names)

    def knows(self, name: str) -> bool:
        """Whether a class is called so."""
        return name in self.names or name in self.labels or bool(self.wnids and outputs_called(name, self._words))

    def value(self, given: Any) -> int:
        """The index of a class that is given by its name or its index."""
        given = plain(given)
        if self.labels and str(given) in self.labels:
            return self.labels.index(str(given))
        if isinstance(given, str) and given in self.names:
            return self.names.index(given)
        if isinstance(given, str) and self.wnids:
            outputs = outputs_called(given, self._words)
            if len(outputs) == 1:
                return outputs[0]
            if outputs:
                wnids = " or ".join(f"`{self.wnids[at]}`" for at in outputs)
                fact = f"has the class `{shown(given)}`, which is the name of {len(outputs)} classes"
                raise BadTarget("class-names", fact, f"use the wnid: {wnids}")
        if isinstance(given, int) and 0 <= given < len(self.names):
            return given
        if given is None or given == "":
            raise BadTarget("wrong-label", "has no label", "fill it in, or remove the line")
        near = difflib.get_close_matches(str(given), self.names, n=1)
        raise BadTarget(
            "no-classes",
            f"has the class `{shown(given)}`, which is not one of the {len(self.names)} known classes",
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
        wnids = {"wnids": list(self.wnids)} if self.wnids else {}
        labels = {"labels": list(self.labels)} if self.labels else {}
        return {"names": list(self.names), "column": self.column, **wnids, **labels}


def read_target(data: Any) -> Classes:
    match data:
        case {"names": [*names], "column": str(column)}:
            wnids, labels = (tuple(map(str, data.get(key, ()))) for key in ("wnids", "labels"))
            if {len(wnids), len(labels)} <= {0, len(names)}:
                return Classes(tuple(str(name) for name in names), column, wnids, labels)
    raise ValueError("the classes can't be read")


@dataclass(frozen=True)
class Label:
    """The classes are the different labels, unless their names are known; `class_names` are what to call them."""

    column: str = "label"
    names: tuple[str, ...] | None = None
    class_names: Sequence[str] = ()
    argument: ClassVar[str] = "label"
    attribute: ClassVar[str] = "classes"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def told(self, dataset: Any) -> Classes | None:
        if self.names is not None:
            return Classes(self.names, self.column)
        names = classes_told_by(dataset)
        return None if names is None else Classes(names)

    def read(self, given: Sequence[Any]) -> tuple[Classes, list[int]]:
        if self.names is not None:
            known = Classes(self.names, self.column)
            return known, each_sample(known.value, given)
        labels = [plain(label) for label in given]
        _check(labels)
        names = [str(label) for label in labels]
        distinct = in_order(set(names))
        index = {name: at for at, name in enumerate(distinct)}
        return self._called(distinct), [index[name] for name in names]

    def _called(self, labels: Sequence[str]) -> Classes:
        """The classes with these labels, under the names that they are given."""
        if not self.class_names:
            return Classes(tuple(labels), self.column)
        called = tuple(map(str, self.class_names))
        check_names(called)
        if len(called) != len(labels):
            fact = f"has {len(labels)} classes ({listed(labels)}), but `class_names` names {len(called)}"
            raise BadTarget("wrong-length", fact, "give each class a name, in the order of their labels")
        if repeated := next((name for name, count in Counter(called).items() if count > 1), None):
            raise BadTarget("wrong-value", f"would have two classes that are called `{shown(repeated)}`", "rename one")
        return Classes(called, self.column, labels=tuple(labels))

    def doubt(self, target: Classes, values: Sequence[int]) -> Doubt | None:
        counts = Counter(values)
        return doubt_column({name: counts[at] for at, name in enumerate(target.names)}, self.column)


def classes_told_by(dataset: Any) -> tuple[str, ...] | None:
    """The names of the classes that a user's dataset tells by an attribute, or their numbers."""
    for attribute in ("classes", "categories"):
        if names := names_told_by(dataset, attribute):
            # ImageNet's are tuples of words for the same thing
            return tuple(", ".join(name) if isinstance(name, tuple) else str(name) for name in names)
    counts = [getattr(dataset, attribute, None) for attribute in ("num_classes", "n_classes")]
    known = (count for count in counts if isinstance(count, int) and not isinstance(count, bool))
    return next((tuple(map(str, range(count))) for count in known), None)


def names_told_by(dataset: Any, attribute: str) -> Sequence[Any]:
    """Two names or more in an attribute of a dataset; empty where it has none."""
    names = getattr(dataset, attribute, None)
    return names if isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 1 else ()


def _check(labels: Sequence[Any]) -> None:
    """Every label is the name of a class, and there are two classes or more."""
    for at, label in enumerate(labels):
        if label is None or label == "":
            raise BadTarget("wrong-label", "has no label", "fill it in, or remove the line", at=at)
        if not isinstance(label, int | str):
            help = 'several labels per image are another task: `labels="…"`' if isinstance(label, list | tuple) else ""
            fact = f"has a label of type {type(label).__name__}, which is not a class"
            raise BadTarget("wrong-label", fact, help, at=at)
        if isinstance(label, bool) != isinstance(labels[0], bool):
            fact = f"has the label `{shown(label)}`, but the first label is `{shown(labels[0])}`"
            raise BadTarget("wrong-label", fact, "use either true and false, or other labels, in every row", at=at)
    distinct = {str(label) for label in labels}
    check_names(distinct)
    if len(distinct) < 2:
        has = f"only the class `{shown(labels[0])}`" if labels else "no classes"
        help = 'name the column with the classes: `label="…"`'
        raise BadTarget("no-classes", f"has {has}, but a classifier needs two or more", help)


def in_order(names: set[str]) -> list[str]:
    """Names in alphabetical order, and numbers as numbers."""
    if all(name.removeprefix("-").isdecimal() and len(name) < 20 for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
