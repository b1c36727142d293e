"""Where a run ends that is not trained to its end (`--finish`): in which phase, and with which weights.

By default with the best epoch so far, which is one of the last phase in which an epoch has ended; with
`checkpoint keep=last`, where there is none, with the last weights. The phases after it are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaven.formats.run_folder import BEST, LAST, phase_left_in
from leaven.runtime.failures import Failure
from leaven.runtime.run.folder import read_checkpoint
from leaven.terminal.commands import to_resume

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase


@dataclass(frozen=True)
class Ending:
    """The last phase, counted from 0, and its weights; None means those that the phase is resumed with, or left."""

    phase: int
    file: str
    weights: Mapping[str, Any] | None = None
    epoch: int | None = None
    caveats: tuple[str, ...] = ()  # about a model that learned nothing

    def told(self, chosen: "ChosenEpoch | None") -> str:
        """`the best epoch so far, 3 of 10 in phase "head"`."""
        what = {BEST: "the best epoch so far", LAST: "the last weights"}.get(self.file, self.file)
        return f"{what}, {chosen.epoch}" if chosen is not None else what


@dataclass(frozen=True)
class Epoch:
    """An epoch of a run: `3 of 10 in phase "head"`."""

    phase: str
    number: int
    planned: int

    def __str__(self) -> str:
        return f'{self.number} of {self.planned} in phase "{self.phase}"'


@dataclass(frozen=True)
class ChosenEpoch:
    """The epoch that the final weights are of, with its validation scores."""

    epoch: Epoch
    scores: Mapping[str, float]


class PhasesEnded(Exception):
    """A program came to a phase that is left out; `Run.training` ends there."""


def best_so_far(folder: Path, *, keeps_best: bool) -> Ending:
    """The best epoch so far of a run; where it does not keep that one, the last weights."""
    last = read_checkpoint(folder / LAST) if (folder / LAST).is_file() else None
    if (folder / BEST).is_file():
        best = read_ending(folder, BEST)
        if keeps_best or last is None or best.phase >= last["phase"]:
            return best
    if last is None or keeps_best or not last["rows"]:
        raise Failure("no epoch has ended yet, so there is nothing to save", f"train it further: {to_resume(folder)}")
    return Ending(last["phase"], LAST)


def chosen_epoch(phase: "Phase | None", rows: Sequence[Mapping[str, Any]], epoch: int | None) -> ChosenEpoch | None:
    """An epoch of the last phase; by default the last one, if the weights are those after it."""
    if phase is None or not phase.total_epochs or (epoch is None and phase.batch):
        return None
    number = phase.epoch if epoch is None else epoch
    row = next((row for row in rows if row["phase"] == phase.name and row["epoch"] == number), None)
    if row is None:
        return None
    scores = {name: value for name, value in row.items() if name.startswith("val.")}
    return ChosenEpoch(Epoch(phase.name, number, phase.total_epochs), scores)


def read_ending(folder: Path, name: str) -> Ending:
    """Where a run ends with a checkpoint in its folder."""
    file = folder / name
    if not file.is_file():
        raise Failure(f"{file} does not exist")
    found = read_checkpoint(file)
    if "state" in found:
        return Ending(found["phase"], name)
    if (left := phase_left_in(name)) is not None:
        return Ending(left, name)
    if "phase" not in found:
        raise Failure(f"{file} is not a checkpoint of a run")
    return Ending(found["phase"], name, found["model"], found["epoch"], tuple(found.get("caveats", ())))
