"""Where a run ends, and what it then does: after all of its phases, or with what it has so far (`--finish`).

By default, `--finish` uses the best epoch so far, which is one of the last phase in which an epoch has ended; with
`checkpoint keep=last`, where there is none, the last weights. The phases after it are left out.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaven.formats.run_folder import BEST, BUNDLE, LAST
from leaven.runtime.failures import Failure
from leaven.runtime.run.folder import RunFolder, SavedWeights
from leaven.runtime.run.loop import Loop
from leaven.terminal.commands import to_finish, to_resume


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


@dataclass(frozen=True)
class Ending:
    """Where a run ends, and what it then does: by default after all phases, with the best epoch of the last one."""

    saved: SavedWeights | None = None  # nothing is trained any more: the model has these
    snapshot: Path | None = None  # the one file that is written
    is_trial: bool = False  # of a sweep: only the best of all gets test scores and a bundle, later

    @property
    def trains(self) -> bool:
        """Whether the epochs that are left are trained."""
        return self.saved is None

    def line(self, chosen: ChosenEpoch | None) -> str:
        """`using the best epoch so far, 3 of 10 in phase "head"`; empty where that goes without saying."""
        if self.saved is None:
            return ""
        name = {BEST: "the best epoch so far", LAST: "the last weights"}.get(self.saved.file, self.saved.file)
        return f"using {name}, {chosen.epoch}" if chosen is not None else f"using {name}"

    def once_more(self, folder: Path) -> str:
        """What to type when the run is stopped at its end."""
        if self.saved is None:
            return f"to resume: {to_resume(folder)}"
        return f"to finish: {to_finish(folder)}"

    def bundle(self, folder: Path) -> Path:
        """The file of the model."""
        return self.snapshot or folder / BUNDLE


class PhasesEnded(Exception):
    """A program came to a phase that is left out; `Run.training` ends there."""


def ending_of(args: argparse.Namespace, folder: RunFolder, *, keeps_best: bool) -> Ending:
    """Where a run ends: with `--finish`, with the weights of a checkpoint, or (an empty name) the best so far.

    A run whose phases are done ends as it would have, with what is left to do.
    """
    saved = None
    if args.finish:
        saved = folder.weights(args.finish)
    elif args.finish is not None and not folder.lock.get("trained"):
        saved = _best_so_far(folder, keeps_best=keeps_best)
    return Ending(saved, Path(args.snapshot) if args.snapshot else None, is_trial=args.train_only)


def _best_so_far(folder: RunFolder, *, keeps_best: bool) -> SavedWeights:
    """The best epoch so far of a run; where it does not keep that one, the last weights."""
    last = folder.read(LAST)
    if folder.has(BEST):
        best = folder.weights(BEST)
        if keeps_best or last is None or best.phase >= last["phase"]:
            return best
    if last is None or keeps_best or not last["rows"]:
        raise Failure(
            "no epoch has ended yet, so there is nothing to save", f"train it further: {to_resume(folder.path)}"
        )
    return SavedWeights(last["phase"], LAST)


def chosen_epoch(
    phase: str, loop: Loop, rows: Sequence[Mapping[str, Any]], weights: SavedWeights | None
) -> ChosenEpoch | None:
    """The epoch of the last phase that weights are of; by default the last one, if they are those after it."""
    epoch = weights.epoch if weights is not None else None
    if not loop.length.amount or (epoch is None and loop.batch):
        return None
    number = loop.epoch if epoch is None else epoch
    row = next((row for row in rows if row["phase"] == phase and row["epoch"] == number), None)
    if row is None:
        return None
    scores = {name: value for name, value in row.items() if name.startswith("val.")}
    return ChosenEpoch(Epoch(phase, number, loop.epoch if loop.length.is_open else loop.epochs), scores)
