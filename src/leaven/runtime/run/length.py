"""How long a phase is, in one of several units, and how many batches that is."""

import math
from dataclasses import dataclass, replace
from typing import Literal, Self

from leaven.runtime.failures import Failure

QUICK_BATCHES = 2  # in an epoch of a smoke test


@dataclass(frozen=True)
class EpochSize:
    """How much an epoch has. `accumulate` batches make an optimizer step, and so does the rest at the end."""

    batches: int
    samples: int = 0
    samples_per_batch: int = 1
    accumulate: int = 1

    @property
    def steps(self) -> int:
        return math.ceil(self.batches / self.accumulate)


@dataclass(frozen=True)
class Length:
    """How long a phase trains: epochs, optimizer steps, samples, or minutes of training."""

    amount: float
    unit: Literal["epochs", "steps", "samples", "minutes"] = "epochs"

    def batches(self, epoch: EpochSize) -> int | None:
        """How many batches that is, in whole steps; None where only the clock knows."""
        match self.unit:
            case "epochs":
                return round(self.amount) * epoch.batches
            case "steps":
                whole, steps = divmod(round(self.amount), epoch.steps)
                return whole * epoch.batches + steps * epoch.accumulate
            case "samples":
                whole, samples = divmod(round(self.amount), epoch.samples)
                steps = math.ceil(samples / epoch.samples_per_batch / epoch.accumulate)
                return whole * epoch.batches + min(steps * epoch.accumulate, epoch.batches)
            case "minutes":
                return None

    @property
    def is_open(self) -> bool:
        """Whether only the clock knows how many steps it has."""
        return self.unit == "minutes"

    def longer_by(self, epochs: int, epoch: EpochSize) -> Self:
        """The same and some epochs."""
        if epochs and self.is_open:
            raise Failure("a phase measured in minutes can't be made longer by epochs")
        size = {"epochs": 1, "steps": epoch.steps, "samples": epoch.samples, "minutes": 0}[self.unit]
        return replace(self, amount=self.amount + epochs * size)


def length_of(**given: float | None) -> Length:
    """The length that is given, in one of its units."""
    units = {unit: amount for unit, amount in given.items() if amount is not None}
    if len(units) != 1:
        raise TypeError(f"a phase is as long as one of {', '.join(given)} says")
    unit, amount = next(iter(units.items()))
    return Length(amount, unit)  # type: ignore[arg-type]
