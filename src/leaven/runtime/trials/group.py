"""Several runs of one program in one process, which take turns.

Each trial runs the program's `main` in a coroutine of its own (a greenlet), and leaves its turn to the others where it
waits for something: the outputs of its model, and its gradients. When all wait, what they wait for is computed for all
of them at once (`fused.py`). As only one runs at a time, nothing in a program needs to know of the others; the
generators of random numbers, torch's gradient mode and the variables of the user's files, which all share, are
exchanged with each turn.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from greenlet import getcurrent, greenlet

from leaven.runtime.failures import Trained
from leaven.runtime.model.outside import UserVariables
from leaven.runtime.run import progress
from leaven.runtime.run.stopping import StopSignal
from leaven.runtime.seeding import generators, set_generators
from leaven.terminal.score_text import score_text

WRITE_EVERY = 60.0  # seconds between two checkpoints of a trial: with many trials, one per epoch would be too much

_current: "Trial | None" = None  # the one whose turn it is


def current_trial() -> "Trial | None":
    """The trial that is running here; None in an ordinary run."""
    return _current


class Trial:
    """A run among others. `body` runs it; `values` say in which it differs."""

    def __init__(self, group: "Group", values: str, body: Callable[[], None]) -> None:
        self.group = group
        self.values = values
        self.request: Any = None
        self.result: Any = None
        self.problem: BaseException | None = None
        self.shares: list[Any] = []  # outputs that wait for their gradients (`fused.py`)
        self.is_alone = False  # whether it does something by itself before it trains
        self._outside = group.outside
        self._body = body
        self._coroutine = greenlet(self._run)

    def take_turn(self) -> bool:
        """Run until the trial waits for something, or ends; whether it waits."""
        global _current
        _current = self
        if self._outside is not self.group.outside:
            self._outside.restore()
        try:
            self._coroutine.switch()
        finally:
            _current = None
        if not self._outside.is_now():
            self._outside = self._outside.again()
        self.group.outside = self._outside
        return not self._coroutine.dead

    def meet(self, request: Any) -> Any:
        """Wait for something that is computed when all others wait, too."""
        self.request = request
        states, has_gradients = generators(), torch.is_grad_enabled()
        getcurrent().parent.switch()
        set_generators(states)
        torch.set_grad_enabled(has_gradients)
        result, self.result = self.result, None
        return result

    def _run(self) -> None:
        torch.set_grad_enabled(True)
        try:
            self._body()
        except Trained:
            pass  # its frames would keep the run alive
        except BaseException as problem:
            self.problem = problem


class Group:
    """Trials that run together. `serve` computes what they wait for, and leaves it as their results."""

    def __init__(self, serve: Callable[[Sequence[Trial]], None], stop: StopSignal) -> None:
        self.stop = stop
        self.trials: list[Trial] = []
        self.shared: dict[Any, Any] = {}  # what is the same for all: data, models, stored outputs
        self.outside = UserVariables()  # the variables of the user's files as they are now
        self._serve = serve
        self._alive: list[Trial] = []
        self._epochs = _Epochs()

    def run(self, bodies: Mapping[str, Callable[[], None]]) -> None:
        """Run trials to their end, by their values; what went wrong is in their `problem`."""
        before = self.outside
        self.trials = [Trial(self, values, body) for values, body in bodies.items()]
        self._alive = list(self.trials)
        while self._alive:
            waiting = []
            for trial in list(self._alive):
                if trial.take_turn():
                    waiting.append(trial)
                else:
                    self._alive.remove(trial)
                    self._epochs.tell_complete(self._alive)
            self._epochs.begin()
            with torch.enable_grad():
                self._serve(waiting)
        before.restore()

    def tell_epoch(self, trial: Trial, title: str, ended: "EndedEpoch") -> None:
        """A trial has ended an epoch: one line tells of it when all have."""
        self._epochs.ended.setdefault(title, {})[trial] = ended
        self._epochs.tell_complete(self._alive)


@dataclass(frozen=True)
class EndedEpoch:
    """What a trial has come to in an epoch: a score, and the same such that higher is better."""

    score: str
    value: float
    signed: float


class _Epochs:
    """The epochs that some trials have ended, each told when all have."""

    def __init__(self) -> None:
        self.ended: dict[str, dict[Trial, EndedEpoch]] = {}
        self._began: float | None = None

    def begin(self) -> None:
        """All have come to their first epoch."""
        self._began = self._began or time.monotonic()

    def tell_complete(self, alive: Sequence[Trial]) -> None:
        """Tell of the epochs that all of these have ended."""
        for title in [title for title, found in self.ended.items() if all(trial in found for trial in alive)]:
            self._tell(title, self.ended.pop(title))

    def _tell(self, title: str, found: Mapping[Trial, EndedEpoch]) -> None:
        now = time.monotonic()
        seconds, self._began = now - (self._began or now), now
        signed = {trial: -math.inf if math.isnan(one.signed) else one.signed for trial, one in found.items()}
        first, last = max(signed, key=signed.__getitem__), min(signed, key=signed.__getitem__)
        best, worst = found[first], found[last]
        spread = f"{best.score} {score_text(worst.value)} to {score_text(best.value)}, best with {first.values}"
        count = f"{len(found)} trial{'s' * (len(found) != 1)}"
        progress.say(f"{title}  {spread}  {count}  {seconds:.1f} s")
