"""The prediction of a regression model for one image."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from leaven.tasks import protocol
from leaven.tasks.regression.target import Quantities
from leaven.terminal.visible import visible


@dataclass(frozen=True, repr=False)
class Prediction(protocol.Prediction):
    """The predicted numbers by name, in their own units; `spread` is their standard deviation in training."""

    values: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def value(self) -> float:
        """The predicted number; of several, the first."""
        return next(iter(self.values.values()))

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def describe(self, top: int) -> str:
        rows = [(visible(name), number) for name, number in self.shown_cells(top).items()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {number}" for name, number in rows)

    def cells(self, top: int) -> dict[str, str]:
        return self._cells(9)

    def shown_cells(self, top: int) -> dict[str, str]:
        return self._cells(6)

    def _cells(self, least: int) -> dict[str, str]:
        return {name: digits(value, self.spread.get(name, 1.0), least) for name, value in self.values.items()}

    def to_json(self, top: int) -> dict[str, Any]:
        return {"values": dict(self.values)}

    def __repr__(self) -> str:
        return f"<Prediction: {', '.join(map(' '.join, self._cells(6).items()))}>"


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
