"""The phases of a run in their order: which one is the last, which are finished, and what each leaves to the next."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from leaven.formats.run_folder import leaving_file
from leaven.runtime.failures import Failure
from leaven.runtime.run.folder import RunFolder


class PhaseOrder:
    """The phases of a run, numbered from 0. Those before `first` are of an earlier run; `saved` is the last checkpoint
    of this one."""

    def __init__(self, folder: RunFolder, saved: Mapping[str, Any] | None, first: str | None) -> None:
        self.optimizer_state: Mapping[str, Any] = {}  # what the phase before left
        self._names: Sequence[str] = ()
        self._folder = folder
        self._saved = saved
        self._first_name = first
        self._first = 0

    def announce(self, names: Sequence[str]) -> None:
        """Say which phases there are."""
        self._names = names
        if self._first_name is not None:
            if self._first_name not in names:
                raise Failure(f'there is no phase "{self._first_name}"')
            self._first = names.index(self._first_name)

    def is_last(self, number: int, name: str) -> bool:
        """Whether the phase that begins now is the last; a program with a single one need not announce it."""
        if not self._names:
            self.announce((name,))
        if number >= len(self._names):
            raise Failure(
                f'the phase "{name}" is not announced',
                f"in `main`, call it within a block `with run.training(…, {json.dumps(name, ensure_ascii=False)}):`",
            )
        return number + 1 == len(self._names)

    def is_finished(self, number: int) -> bool:
        """Whether a phase was finished when the run was interrupted in a later one, or is that of an earlier run."""
        return number < self._first or (self._saved is not None and bool(self._saved["phase"] > number))

    def has_left(self, number: int) -> bool:
        """Whether a phase is finished, or left its weights when the run was interrupted before the next one."""
        return self.is_finished(number) or self._folder.has(leaving_file(number))

    def load_left(self, number: int, model: nn.Module) -> None:
        """Load what a finished phase has left."""
        left = self._folder.read(leaving_file(number))
        if left is None and number < self._first:
            help = "give the run that did the phases before: `--of RUN`"
            raise Failure(f'the phase "{self._first_name}" has no weights to start from', help)
        if left is not None:
            model.load_state_dict(left["model"])
            self.optimizer_state = left["optimizer_state"]

    def leave(self, number: int, model: nn.Module) -> None:
        """Leave the weights, and the state of the optimizer, to the next phase."""
        left = {"model": model.state_dict(), "optimizer_state": self.optimizer_state}
        self._folder.write(leaving_file(number), left)
