"""A sweep as a value: its trials, and the best of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leaven.formats import run_folder, sweep_folder
from leaven.runs.run import Run
from leaven.runs.sweeping import end_sweep, run_sweep


class Trial(Run):
    """A run of a sweep, with the `values` of its `arg`s and the `score` by which it is compared."""

    def __init__(self, folder: Path, result: sweep_folder.Result, *, trust_code: bool = False) -> None:
        super().__init__(folder, trust_code=trust_code)
        self.values: Mapping[str, Any] = result.trial.values
        self.score = result.score


class Sweep(Run):
    """A sweep: its `trials`, and the `best` of them, whose scores, curve and model are the sweep's."""

    @property
    def trials(self) -> list[Trial]:
        """The trials in their order."""
        return [self._trial(result) for result in sweep_folder.results(self.folder)]

    @property
    def best(self) -> Trial:
        """The best trial so far."""
        return self._trial(sweep_folder.ranked(sweep_folder.results(self.folder))[0])

    @property
    def scores(self) -> dict[str, float]:
        return self.best.scores

    @property
    def curve(self) -> list[dict[str, Any]]:
        return self.best.curve

    def resume(self, epochs: int = 0) -> "Sweep":
        """Train what is left of the trials. A trial can be trained further: `sweep.best.resume(epochs=10)`."""
        if epochs:
            raise ValueError("a sweep can't be trained further, but its trials can: `sweep.best.resume(epochs=10)`")
        if self.is_finished and run_folder.is_trained(self.folder):
            return self
        return self._run_again(run_sweep, "resume()")

    def finish(self) -> "Sweep":
        """Save the best trial so far, and train no further."""
        return self if self.is_finished else self._run_again(end_sweep, "finish()")

    def __repr__(self) -> str:
        return super().__repr__().replace("<Run", f"<Sweep of {len(self.trials)} trials", 1)

    def _trial(self, result: sweep_folder.Result) -> Trial:
        return Trial(self.folder / result.trial.name, result, trust_code=self._trust_code)
