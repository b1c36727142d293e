"""A run as a value: what it left in its folder, read when it is asked for."""

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaven.formats import run_folder
from leaven.formats.score_text import score_text

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
        from leaven import bundle
        from leaven.runs.unfinished import find_unfinished, load_unfinished

        found = find_unfinished(self.folder)
        if found is not None:
            return load_unfinished(found, trust_code=self._trust_code)
        return bundle.load(self.folder, trust_code=self._trust_code)

    def resume(self, epochs: int = 0) -> "Run":
        """Train on: an interrupted run to its end, and some further `epochs`."""
        if not epochs and self.is_finished and run_folder.is_trained(self.folder):
            return self
        flags, given = (["--more-epochs", str(epochs)], f"epochs={epochs}") if epochs else ([], "")
        return self._go_on(flags, f"resume({given})")

    def finish(self) -> "Run":
        """Save the best epoch so far, and train no further."""
        return self if self.is_finished else self._go_on(["--finish"], "finish()")

    def _go_on(self, flags: list[str], called: str) -> "Run":
        from leaven.runs.running import run_program

        self.__dict__.pop("model", None)
        run_program(self.folder, flags, called=f'leaven.open_run("{self.folder}").{called}')
        return self

    def __repr__(self) -> str:
        epochs = len(self.curve)
        state = "finished" if self.is_finished else "not finished"
        scores = ", ".join(f"{name} {score_text(value)}" for name, value in self.scores.items())
        return f"<Run {self.folder}: {state}, {epochs} epoch{'s' * (epochs != 1)}{f'; {scores}' if scores else ''}>"


def open_run(place: str | os.PathLike[str], *, trust_code: bool = False) -> Run:
    """A run by its folder, or the newest in a folder of runs."""
    from leaven.runtime.failures import Failure

    path = Path(os.fspath(place))
    program = run_folder.newest(path, run_folder.PROGRAM)
    if program is not None:
        return Run(program.parent, trust_code=trust_code)
    if told := run_folder.only_in_smoke_test(path, run_folder.PROGRAM):
        raise Failure(*told)
    raise Failure(f"{path} is not a run: {'it has no program.py' if path.exists() else 'the folder does not exist'}")
