"""The target of regression: one or several numbers.

The model is trained on standardised numbers, with the mean and the standard deviation of the training split, and
whoever uses it gets them back in their own units (docs/decisions/0014-targets-are-standardised.md).
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any, ClassVar

from leaven.formats.numerals import MARKS, is_ambiguous, number_in
from leaven.formats.target import BadTarget, Doubt, each_sample, shown
from leaven.formats.target_kind import TargetKind

Vector = tuple[float, ...]
DECILES = 10
FEWEST = 10  # samples in a stratum
LARGEST = 1e30  # of a number, and 1 / LARGEST of a range: 32 bits hold it, and 64 its square
SMALLEST_RANGE = 1e-6  # of the largest number: sums of squares of 64 bits still tell such numbers apart


@dataclass(frozen=True)
class Quantities:
    """Numbers by their names. A value is standardised once `mean` and `std` are known; `decimal` is the mark by which
    texts are read as numbers."""

    names: tuple[str, ...]
    mean: Vector = ()
    std: Vector = ()
    decimal: str | None = None
    task: ClassVar[str] = "regression"
    kind: ClassVar[TargetKind] = "number"

    @property
    def brief(self) -> str:
        return ", ".join(self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def scales(self) -> list[tuple[float, float]]:
        """Mean and standard deviation of each number; 0 and 1 where they are not known."""
        return list(zip(self.mean or [0.0] * len(self.names), self.std or [1.0] * len(self.names), strict=True))

    def value(self, given: Any) -> Vector:
        """The value of a sample with one number, or with several: in order, or by name."""
        given = [given[name] for name in self.names] if isinstance(given, Mapping) else as_list(given)
        if len(given) != len(self.names):
            known = f"there {'is 1 target' if len(self.names) == 1 else f'are {len(self.names)} targets'}"
            listed = ", ".join(f"`{name}`" for name in self.names)
            raise BadTarget("not-a-number", f"has {len(given)} numbers, but {known}: {listed}")
        numbers = [_number(one, name, self.decimal) for one, name in zip(given, self.names, strict=True)]
        return tuple((number - mean) / std for number, (mean, std) in zip(numbers, self.scales, strict=True))

    def plain(self, value: Vector) -> dict[str, float]:
        numbers = [number * std + mean for number, (mean, std) in zip(value, self.scales, strict=True)]
        return dict(zip(self.names, numbers, strict=True))

    def fitted(self, values: Sequence[Vector], train: Sequence[int]) -> tuple["Quantities", Sequence[Vector]]:
        """With mean and standard deviation of the training split, and values standardised by them."""
        columns = list(zip(*(values[index] for index in train), strict=True))
        std = [pstdev(column) for column in columns]
        for name, spread in zip(self.names, std, strict=True):
            if not spread:
                raise BadTarget("constant-target", f"has the same `{name}` in every training sample")
        fitted = replace(self, mean=tuple(map(fmean, columns)), std=tuple(std))
        return fitted, [fitted.value(value) for value in values]

    def strata(self, values: Sequence[Vector]) -> Sequence[int]:
        """The deciles of the number, or of the first of several, so that every split has its whole range."""
        count = min(DECILES, len(values) // FEWEST)
        if count < 2:
            return [0] * len(values)
        strata = [0] * len(values)
        for rank, index in enumerate(sorted(range(len(values)), key=lambda index: values[index][0])):
            strata[index] = rank * count // len(values)
        return strata

    def stratum(self, number: int) -> str:
        return f"the {number + 1}th part of the range of `{self.names[0]}`"

    def unseen(self, train: Sequence[Vector], other: Sequence[Vector]) -> str:
        return ""

    def to_json(self) -> dict[str, Any]:
        decimal = {"decimal": self.decimal} if self.decimal is not None else {}
        return {"names": list(self.names), "mean": list(self.mean), "std": list(self.std), **decimal}


def read_target(data: Any) -> Quantities:
    match data:
        case {"names": [*names], "mean": [*mean], "std": [*std]}:
            decimal = mark if (mark := data.get("decimal")) in MARKS else None
            read = Quantities(tuple(map(str, names)), tuple(map(float, mean)), tuple(map(float, std)), decimal)
            is_scaled = len(mean) == len(std) == len(names) and all(map(math.isfinite, (*mean, *std)))
            if names and ((is_scaled and min(std) > 0) or not (mean or std)):
                return read
    raise ValueError("the targets can't be read")


@dataclass(frozen=True)
class Numbers:
    """One number or several: the columns of a table, or what a data set gives for each sample."""

    columns: str | Sequence[str] = ()
    decimal: str | None = None
    argument: ClassVar[str] = "target"
    attribute: ClassVar[str] = "target_names"

    def __post_init__(self) -> None:
        columns = (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)
        object.__setattr__(self, "columns", columns)

    def told(self, dataset: Any) -> Quantities | None:
        names = getattr(dataset, self.attribute, None)
        if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
            return Quantities(tuple(names))
        return None

    def read(self, given: Sequence[Any]) -> tuple[Quantities, list[Vector]]:
        if not given:
            raise BadTarget("not-a-number", "has no samples")
        if self.decimal not in (None, *MARKS):
            fact = f"can't be read with the decimal mark `{shown(self.decimal)}`"
            raise BadTarget("wrong-value", fact, 'it is a point or a comma: `decimal=","`')
        count = len(self.columns) or len(as_list(given[0]))
        default = ("target",) if count == 1 else tuple(f"target_{number + 1}" for number in range(count))
        target = Quantities(tuple(self.columns) or default, decimal=self.decimal)
        long = next((at for at, one in enumerate(given) if len(as_list(one)) > 1), None)
        if len(self.columns) == 1 and long is not None:
            fact = f"has a list of {len(as_list(given[long]))} numbers as `{self.columns[0]}`"
            help = "put each number into its own column, and list the columns: `target=[…]`"
            raise BadTarget("not-a-number", fact, help, at=long)
        values = each_sample(target.value, given)
        for name, column in zip(target.names, zip(*values, strict=True), strict=True):
            _check_range(name, min(column), max(column))
        return target, values

    def doubt(self, target: Quantities, values: Sequence[Vector]) -> Doubt | None:
        for name, column in zip(target.names, zip(*values, strict=True), strict=True):
            if len(distinct := sorted(set(column))) == 2 and len(values) >= FEWEST:
                fact = f"has only the numbers {distinct[0]:g} and {distinct[1]:g} as `{name}`"
                return Doubt(fact, f'to predict which of two classes, write `label="{name}"`')
        return None


def _check_range(name: str, low: float, high: float) -> None:
    """Numbers differ, and by enough to be told apart."""
    if low == high:
        raise BadTarget("constant-target", f"has only the number {low:g} as `{name}`, so there is nothing to learn")
    largest = max(-low, high)
    if high - low < SMALLEST_RANGE * largest:
        fact = f"has `{name}` from {low:.17g} to {high:.17g}, which differ by less than a millionth of their size"
        raise BadTarget("target-range", fact, f"subtract {low:.17g} from all of them")
    if high - low < 1 / LARGEST:
        fact = f"has `{name}` from {low:g} to {high:g}, which differ by less than {1 / LARGEST:g}"
        raise BadTarget("target-range", fact, "use a smaller unit")


def as_list(given: Any) -> Sequence[Any]:
    """One number or several, as a list."""
    given = given.tolist() if hasattr(given, "tolist") else given
    return given if isinstance(given, list | tuple) else [given]


def _number(given: Any, name: str, decimal: str | None) -> float:
    if given is None or given == "":
        raise BadTarget("not-a-number", f"has no `{name}`", "fill it in, or remove the line")
    try:
        number = _parsed(given, decimal) if isinstance(given, str) else float(given)
    except (TypeError, ValueError):
        fact = f"has `{shown(given)}` as `{name}`, which is not a number"
        raise BadTarget("not-a-number", fact, _meant(given, name)) from None
    except OverflowError:  # an integer
        number = sys.float_info.max
    if not math.isfinite(number):
        raise BadTarget("not-a-number", f"has `{given}` as `{name}`, which is not a finite number")
    if abs(number) > LARGEST:
        fact = f"has `{shown(given)}` as `{name}`, but the largest number that can be a target is {LARGEST:g}"
        raise BadTarget("target-range", fact, "use a larger unit, or logarithms")
    return number


def _parsed(given: str, decimal: str | None) -> float:
    """The number in a text; a ValueError where it is none."""
    number = number_in(given, decimal)
    if number is None and not given.strip().isalpha():
        raise ValueError
    return float(given) if number is None else number  # NaN and the like, which are reported as such


def _meant(given: Any, name: str) -> str:
    """The help for a text that is not a number."""
    if isinstance(given, str) and is_ambiguous(given):
        return 'say what the comma is: `decimal=","` where a fraction follows it, `decimal="."` where thousands do'
    if isinstance(given, str) and number_in(given, ",") is not None:
        return 'write `decimal=","` where numbers have a decimal comma'
    return f'to predict a class, write `label="{name}"`' if isinstance(given, str) and given.isalpha() else ""
