"""Solves the head of a model in place of training it: which regularisation is tried, and which is the best.

The loop is in the program: `heads` yields a head for each strength, `keep_if_best` takes its scores, and `load_best`
puts the best one into the model.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from leaven.formats import machine
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure, Stopped
from leaven.runtime.run.length import QUICK_BATCHES
from leaven.runtime.run.losses import Criterion
from leaven.runtime.solving.features import Features, Head, features_of
from leaven.runtime.solving.linear import LinearProblem, Solution
from leaven.terminal.byte_sizes import show_bytes
from leaven.terminal.commands import to_resume
from leaven.terminal.score_text import score_text

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase

STRENGTHS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4)
CLOSE = 1e-5  # to the solution; with less, a head is rated that would be another one if it were solved


class HeadSolver:
    """Finds the weights of a linear head with the lowest loss on the training split, over all of its views.

    Of several `strengths` of L2 regularisation, that with the best score on the validation split is used.
    """

    def __init__(
        self,
        phase: "Phase",
        model: nn.Module,
        data: Data,
        criterion: Criterion,
        *,
        strengths: Sequence[float] = STRENGTHS,
    ) -> None:
        if phase.run.more_epochs and phase.is_last:
            raise Failure(f'the head of phase "{phase.name}" is solved: more epochs would not change it')
        self.strengths = sorted(strengths, reverse=True)  # the start for each follows from those before it
        self.val_features: Features
        self._phase = phase
        self._criterion = criterion
        self._model = model
        self._data = data
        self._head = Head(model)
        self._seconds = 0.0
        self._problem: LinearProblem | None = None
        self._current: tuple[float, Solution] | None = None
        self._best: tuple[float, Solution] | None = None
        self._best_score = -math.inf
        self._scores: Mapping[str, float] = {}  # of the best

    def heads(self) -> Iterator[nn.Module]:
        """A head for each strength, from strong to weak, to be measured on `val_features`."""
        phase, run, data = self._phase, self._phase.run, self._data
        if not len(data.val) and len(self.strengths) > 1:
            raise Failure(
                "the strength of regularisation is chosen on the validation split, and there is none",
                "split some off, as with `split train=80%, val=20%`, or write the strength: `l2=0.01`",
            )
        run.before_batch(phase)
        most = QUICK_BATCHES if run.is_quick else None
        views = max(1, getattr(phase.data.train, "views", 0))
        train = features_of(phase, self._model, self._head, data.train, views, most)
        self.val_features = features_of(phase, self._model, self._head, data.val, most=most)
        _check_memory(train.features)
        phase.loop.batch = phase.loop.whole.batches  # all of them were used: what is left is to measure
        began = time.monotonic()
        outputs, has_bias = len(self._head.weight), self._head.bias is not None
        problem = LinearProblem(train.features, train.targets, self._criterion, outputs, has_bias=has_bias)
        self._problem, self._best, self._best_score = problem, None, -math.inf
        found: list[tuple[float, Solution]] = []
        for strength in self.strengths:
            if run.stop.is_pressed():
                raise Stopped(f"stopped; to resume: {to_resume(run.folder.named)}")
            self._current = strength, problem.solve(strength, expected_start(problem, strength, found), CLOSE)
            found = [*found[-1:], self._current]
            self._seconds = time.monotonic() - began
            yield _Linear(*problem.layer(self._current[1])).to(run.device)

    def keep_if_best(self, scores: Mapping[str, float]) -> None:
        """Keep the current head if its validation scores are the best so far; of equal ones, the stronger is."""
        score = self._phase.score_of(scores)
        score = -scores.get("val.loss", 0.0) if score is None else score
        if self._best is None or score > self._best_score:
            self._best, self._best_score, self._scores = self._current, score, scores

    def load_best(self) -> Tensor:
        """Put the best head into the model; its loss on the training split."""
        if self._problem is None or self._best is None:
            raise Failure("the program did not call `solver.keep_if_best` for any head")
        strength, found = self._best
        self._head.set(*self._problem.layer(found))
        if self._phase.run.fabric.world_size > 1:
            for parameter in self._head.layer.parameters():
                torch.distributed.broadcast(parameter.data, src=0)
        self._say(strength)
        return self._problem.loss_of(found)

    def _say(self, strength: float) -> None:
        run = self._phase.run
        tried = f" of {len(self.strengths)} tried" if len(self.strengths) > 1 else ""
        score = self._scores.get(run.scores.monitor)
        told = f", {run.scores.monitor} {score_text(score)}" if score is not None else ""
        run.print(f"{self._phase.name}: solved in {self._seconds:.1f} s, L2 strength {strength:g}{tried}{told}")


def expected_start(problem: LinearProblem, strength: float, found: Sequence[tuple[float, Solution]]) -> Solution:
    """Where the solution is expected by those of the last two strengths: they move steadily with its logarithm."""
    if len(found) < 2 or not strength or found[0][0] == found[1][0]:
        return found[-1][1] if found else problem.zero
    (first, before), (second, last) = found
    expected = last.continued(before, math.log(strength / second) / math.log(second / first))
    return min(last, expected, key=lambda one: float(problem.objective(one, strength)))


def _check_memory(features: Tensor) -> None:
    """A problem has its features three times at most: standardised and rotated, in 64 bits."""
    needed, there = 3 * 8 * features.numel(), machine.memory()
    if needed > there:
        raise Failure(
            f"solving the head needs {show_bytes(needed)} of memory; {show_bytes(there)} are available",
            "train it with an optimizer: remove `solver`",
        )


class _Linear(nn.Module):
    """A linear layer with given weights."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.float())
        self.register_buffer("bias", bias.float())

    def forward(self, features: Tensor) -> Tensor:
        return nn.functional.linear(features, self.weight, self.bias)  # type: ignore[arg-type]
