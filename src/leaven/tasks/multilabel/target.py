"""The target of multi-label classification: a yes or no for each of several labels."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar

from leaven.formats.doubtful_labels import FEWEST, SEPARATORS, doubt_spelling, separator_in
from leaven.formats.target import BadTarget, Doubt, check_names, each_sample, shown
from leaven.formats.target_kind import TargetKind
from leaven.tasks.classification.target import in_order, listed, names_told_by

Bits = tuple[float, ...]  # a 0 or 1 for each label
SEPARATOR = ";"
_BITS = {0: 0.0, 1: 1.0, "0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0}


@dataclass(frozen=True)
class LabelSet:
    """The labels in the order of the outputs, and in which columns of a table they were."""

    names: tuple[str, ...]
    columns: tuple[str, ...] = ("labels",)
    separator: str = SEPARATOR
    task: ClassVar[str] = "multilabel"
    kind: ClassVar[TargetKind] = "binary"

    @property
    def brief(self) -> str:
        return f"{len(self.names)} labels"

    def value(self, given: Any) -> Bits:
        """The value of a sample with these labels: names in a string or a list, or a 0 or 1 for each label.

        A tuple has the cells of several columns.
        """
        labels = as_labels(given, self.separator)
        if not isinstance(given, tuple) and not (len(labels) == len(self.names) and all(map(_is_bit, labels))):
            return self._of_names([_name(label) for label in labels])
        if len(labels) != len(self.names):
            raise BadTarget("wrong-label", f"has {len(labels)} values, but there are {len(self.names)} labels")
        return tuple(_bit(bit, name) for bit, name in zip(labels, self.names, strict=True))

    def _of_names(self, given: Sequence[str]) -> Bits:
        for label in given:
            if label not in self.names:
                near = difflib.get_close_matches(label, self.names, n=1)
                raise BadTarget(
                    "wrong-label",
                    f"has the label `{shown(label)}`, which is not one of the {len(self.names)} known labels",
                    f"did you mean `{near[0]}`?" if near else f"the labels are: {listed(self.names)}",
                )
        return tuple(float(name in given) for name in self.names)

    def plain(self, value: Bits) -> list[str]:
        return list(compress(self.names, value))

    def fitted(self, values: Sequence[Bits], train: Sequence[int]) -> tuple["LabelSet", Sequence[Bits]]:
        return self, values

    def strata(self, values: Sequence[Bits]) -> Sequence[int]:
        """The rarest label of each sample, so that rare labels are in every split; samples without one go together."""
        counts = [sum(column) for column in zip(*values, strict=True)]
        order = sorted(range(len(counts)), key=lambda at: (counts[at], at))
        return [next((at for at in order if value[at]), len(counts)) for value in values]

    def stratum(self, number: int) -> str:
        return self.names[number] if number < len(self.names) else "no label"

    def unseen(self, train: Sequence[Bits], other: Sequence[Bits]) -> str:
        trained, evaluated = _occurring(train), _occurring(other)
        names = [self.names[at] for at in sorted(evaluated - trained)]
        return f"the label{'s' * (len(names) > 1)} {listed(names)}" if names else ""

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names), "columns": list(self.columns), "separator": self.separator}


def _occurring(values: Sequence[Bits]) -> set[int]:
    return {at for value in values for at, bit in enumerate(value) if bit}


def read_target(data: Any) -> LabelSet:
    match data:
        case {"names": [*names], "columns": [*columns], "separator": str(separator)} if names and columns and separator:
            return LabelSet(tuple(map(str, names)), tuple(map(str, columns)), separator)
    raise ValueError("the labels can't be read")


@dataclass(frozen=True)
class Labels:
    """One column with all labels of a sample, or several with a 0 or 1 each; or what a data set gives."""

    columns: str | Sequence[str] = "labels"
    separator: str = SEPARATOR
    argument: ClassVar[str] = "labels"
    attribute: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        columns = (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)
        object.__setattr__(self, "columns", columns)

    def told(self, dataset: Any) -> LabelSet | None:
        names = names_told_by(dataset, self.attribute)
        return LabelSet(tuple(map(str, names))) if names else None

    def read(self, given: Sequence[Any]) -> tuple[LabelSet, list[Bits]]:
        columns = tuple(self.columns)
        if not self.separator:
            raise BadTarget("wrong-label", "can't be split into labels: `label_separator` is empty")
        target = LabelSet(columns if len(columns) > 1 else self._names(given), columns, self.separator)
        values = each_sample(target.value, given)
        if not _occurring(values):
            raise BadTarget("wrong-label", "has no labels at all")
        return target, values

    def doubt(self, target: LabelSet, values: Sequence[Bits]) -> Doubt | None:
        is_one = len(values) >= FEWEST and all(sum(value) == 1 for value in values)
        if len(tuple(self.columns)) > 1:
            help = "for one class per image, write its name into one column, and `label=` with that column"
            return Doubt("has exactly one 1 in every row", help) if is_one else None
        separator = separator_in(target.names)
        if separator is None and is_one:
            help = f'if no image can have several, write `label="{self.columns[0]}"`'
            return Doubt("has exactly one label in every row", help)
        if separator is None:
            return doubt_spelling(target.names)
        joined = next(name for name in target.names if separator in name)
        fact = f"has labels such as `{shown(joined)}`, which look like several labels"
        return Doubt(fact, f'say what separates labels: `label_separator="{separator}"`')

    def _names(self, given: Sequence[Any]) -> tuple[str, ...]:
        """The different labels, in order; where every sample has as many zeros and ones, these are numbered."""
        lists = each_sample(lambda row: as_labels(row, self.separator), given)
        widths = {len(labels) for labels in lists}
        if len(widths) == 1 and min(widths) > 1 and all(_is_bit(bit) for labels in lists for bit in labels):
            return tuple(str(number) for number in range(min(widths)))
        names = {name for some in each_sample(lambda labels: list(map(_name, labels)), lists) for name in some}
        if names <= {"0", "1"}:
            column = self.columns[0]
            has = f"only 0 and 1 as `{column}`" if names else "no labels at all"
            help = f'a single yes or no is a class: `label="{column}"`' if names else ""
            raise BadTarget("wrong-label", f"has {has}", help)
        check_names(names)
        if len(names) < 2:
            (name,) = names
            separator = next((mark for mark in SEPARATORS if mark in name.strip() and mark != " "), None)
            help = "a single yes or no is a class: write it as two classes, and name the column by `label=`"
            if separator is not None:
                help = f'say what separates labels: `label_separator="{separator}"`'
            raise BadTarget("wrong-label", f"has only the label `{shown(name)}`", help)
        return tuple(in_order(names))


def as_labels(given: Any, separator: str) -> Sequence[Any]:
    """The labels of a sample as a list; the empty string has none."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, str):
        return [label for part in given.split(separator) if (label := part.strip())]
    if isinstance(given, list | tuple | set | frozenset):
        return list(given)
    if given is None:
        raise BadTarget("wrong-label", "has no labels", "write an empty list or string where none applies")
    raise BadTarget("wrong-label", f"has `{shown(given)}` in place of a list of labels")


def _is_bit(given: Any) -> bool:
    return isinstance(given, int | float) and given in (0, 1)


def _bit(given: Any, name: str) -> float:
    word = given.strip().lower() if isinstance(given, str) else given
    if not isinstance(word, str | int | float) or word not in _BITS:
        fact = (
            f"has no `{name}`" if given in ("", None) else f"has `{shown(given)}` as `{name}`, which is neither 0 nor 1"
        )
        raise BadTarget("wrong-label", fact, "write 1 where the label applies and 0 where it does not")
    return _BITS[word]


def _name(label: Any) -> str:
    if isinstance(label, bool) or not isinstance(label, str | int) or label == "":
        fault = "an empty label" if label == "" else f"`{shown(label)}`, which is not the name of a label"
        raise BadTarget("wrong-label", f"has {fault}")
    return str(label)
