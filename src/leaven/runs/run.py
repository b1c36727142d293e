"""A run as a value: what it left in its folder, read when it is asked for."""

import os
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from leaven.formats import run_folder, sweep_folder
from leaven.runs.processes import raised_as_failure, run_in_process
from leaven.terminal.score_text import score_text

if TYPE_CHECKING:
    from leaven.bundle import Bundle


class Run:
    """A run: its `folder`, `scores`, `curve` and `model`."""

    def __init__(self, folder: str | os.PathLike[str], *, trust_code: bool = False) -> None:
        self.folder = Path(os.fspath(folder))
        self._trust_code = trust_code

    @property
    def is_finished(self) -> bool:
        """Whether its model is saved."""
        return run_folder.is_finished(self.folder)

    @property
    def scores(self) -> dict[str, float]:
        """The final scores: on the test split, or without one the validation scores of the saved epoch."""
        return run_folder.read_json(self.folder / run_folder.SCORES)

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The epochs: `{"phase": "train", "epoch": 1, "train.loss": 2.1, "val.accuracy": 0.3, …}` for each."""
        return run_folder.read_metrics(self.folder)

    @cached_property
    def model(self) -> "Bundle":
        """The trained model; of a run that is not finished, its best epoch so far."""
        from leaven.runs.models import load_model

        return load_model(self.folder, trust_code=self._trust_code)

    def resume(self, epochs: int = 0) -> "Run":
        """Train on: an interrupted run to its end, and some further `epochs`."""
        if not epochs and self.is_finished and run_folder.is_trained(self.folder):
            return self
        flags, given = (["--more-epochs", str(epochs)], f"epochs={epochs}") if epochs else ([], "")
        return self._run_again(partial(_run, flags), f"resume({given})")

    def finish(self) -> "Run":
        """Save the best epoch so far, and train no further."""
        return self if self.is_finished else self._run_again(partial(_run, ["--finish"]), "finish()")

    def _run_again(self, run: Callable[[Path, str], None], call: str) -> Self:
        """Run what is in the folder, and note the call in the lock."""
        self.__dict__.pop("model", None)
        with raised_as_failure():
            run(self.folder, f'leaven.open_run("{self.folder}").{call}')
        return self

    def __repr__(self) -> str:
        epochs = len(self.curve)
        state = "finished" if self.is_finished else "not finished"
        scores = ", ".join(f"{name} {score_text(value)}" for name, value in self.scores.items())
        return f"<Run {self.folder}: {state}, {epochs} epoch{'s' * (epochs != 1)}{f'; {scores}' if scores else ''}>"


def _run(flags: list[str], folder: Path, called: str) -> None:
    run_in_process(folder, flags, called=called)


def open_run(place: str | os.PathLike[str], *, trust_code: bool = False) -> Run:
    """A run by its folder, or the newest in a folder of runs."""
    from leaven.runtime.failures import Failure

    path = Path(os.fspath(place))
    program = run_folder.newest(path, run_folder.PROGRAM)
    if program is None:
        raise Failure(*run_folder.not_a_run(path))
    return run_in(program.parent, trust_code=trust_code)


def run_in(folder: Path, *, trust_code: bool) -> Run:
    """The run or the sweep in a folder."""
    from leaven.runs.sweep import Sweep

    return (Sweep if sweep_folder.is_sweep(folder) else Run)(folder, trust_code=trust_code)
