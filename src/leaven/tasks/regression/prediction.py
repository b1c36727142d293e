"""What a regression model says about one image."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leaven.tasks.regression.target import Quantities


@dataclass(frozen=True, repr=False)
class Prediction:
    """The predicted numbers by name, in their own units."""

    values: Mapping[str, float]

    @property
    def value(self) -> float:
        """The predicted number; of several, the first."""
        return next(iter(self.values.values()))

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def describe(self, top: int) -> str:
        width = max(map(len, self.values))
        return "\n".join(f"{name:<{width}}  {value:.6g}" for name, value in self.values.items())

    def cells(self, top: int) -> dict[str, str]:
        return {name: f"{value:.9g}" for name, value in self.values.items()}

    def shown_cells(self, top: int) -> dict[str, str]:
        return {name: f"{value:.6g}" for name, value in self.values.items()}

    def to_json(self, top: int) -> dict[str, Any]:
        return {"values": dict(self.values)}

    def __repr__(self) -> str:
        return f"<Prediction: {', '.join(f'{name} {value:.6g}' for name, value in self.values.items())}>"


def in_units(values: Tensor, target: Quantities) -> Tensor:
    """Standardised numbers in their own units."""
    mean, std = torch.tensor(target.scales, dtype=values.dtype, device=values.device).unbind(1)
    return values * std + mean


def predictions(outputs: Tensor, target: Quantities) -> list[Prediction]:
    rows = in_units(outputs.double(), target).cpu().tolist()
    return [Prediction(dict(zip(target.names, row, strict=True))) for row in rows]
