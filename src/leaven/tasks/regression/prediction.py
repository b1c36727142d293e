"""The prediction of a regression model for one image."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from leaven.runtime.failures import Failure
from leaven.tasks import protocol
from leaven.tasks.regression.target import Quantities
from leaven.terminal.visible import visible

SAME = 0.1  # standard deviations in training by which numbers may differ and be the same answer
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


@dataclass(frozen=True, repr=False)
class Prediction(protocol.Prediction):
    """The predicted numbers by name, in their own units; `spread` is their standard deviation in training."""

    values: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict, compare=False)
    are_shares: ClassVar[bool] = False

    @property
    def value(self) -> float:
        """The predicted number; of several, the first."""
        return next(iter(self.values.values()))

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def describe(self, top: int) -> str:
        rows = [(visible(name), number) for name, number in self.cells(on_screen=True).items()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {number}" for name, number in rows)

    def cells(self, top: int = 0, *, on_screen: bool = False) -> dict[str, str]:
        least = 6 if on_screen else 9
        return {name: digits(value, self.spread.get(name, 1.0), least) for name, value in self.values.items()}

    def to_json(self, top: int) -> dict[str, Any]:
        return {"values": dict(self.values)}

    # -- compared with another

    @property
    def answer(self) -> str:
        cells = self.cells(on_screen=True)
        return ", ".join(cells.values() if len(cells) == 1 else (f"{name} {number}" for name, number in cells.items()))

    def numbers(self) -> dict[str, float]:
        return dict(self.values)

    def shown_number(self, name: str, number: float) -> str:
        return digits(number, self.spread.get(name, 1.0))

    def is_same(self, other: protocol.Prediction) -> bool:
        """Every number differs by at most a tenth of its standard deviation in training."""
        return isinstance(other, Prediction) and all(
            self._is_near(name, value, value) for name, value in other.values.items()
        )

    def is_answer(self, expected: str) -> bool:
        """The number, or each by its name, is about the same, or in a range: `34.2`, `30 to 40`, `age 30 to 40`."""
        names = "|".join(re.escape(name) for name in sorted(self.values, key=len, reverse=True))
        form = rf"(?:({names})\s+)?({_NUMBER})(?:\s+to\s+({_NUMBER}))?"
        if not re.fullmatch(rf"{form}(?:,\s*{form})*", expected):
            raise Failure(f"“{expected}” is not a number", 'expect a number or a range: `is 34.2`, `is "30 to 40"`')
        found = [(one[1] or next(iter(self.values)), one[2], one[3] or one[2]) for one in re.finditer(form, expected)]
        return all(self._is_near(name, float(low), float(high)) for name, low, high in found)

    def _is_near(self, name: str, low: float, high: float) -> bool:
        slack = SAME * self.spread.get(name, 0.0)
        return low - slack <= self.values.get(name, math.nan) <= high + slack

    def __repr__(self) -> str:
        return f"<Prediction: {', '.join(map(' '.join, self.cells(on_screen=True).items()))}>"


def digits(number: float, spread: float, least: int = 6) -> str:
    """A number with enough digits to tell it from others that differ by a thousandth of their spread."""
    if not number or not math.isfinite(number):
        return f"{number:g}"
    needed = math.ceil(math.log10(abs(number) / spread)) + 4
    if needed > least and abs(number) < 1e15:  # without an exponent
        needed = max(needed, len(f"{abs(number):.0f}"))
    return f"{number:.{min(17, max(least, needed))}g}"


def in_units(values: Tensor, target: Quantities) -> Tensor:
    """Standardised numbers in their own units."""
    mean, std = torch.tensor(target.scales, dtype=values.dtype, device=values.device).unbind(1)
    return values * std + mean


def predictions(outputs: Tensor, target: Quantities) -> list[Prediction]:
    rows = in_units(outputs.double(), target).cpu().tolist()
    spread = dict(zip(target.names, (std for _, std in target.scales), strict=True))
    return [Prediction(dict(zip(target.names, row, strict=True)), spread) for row in rows]
