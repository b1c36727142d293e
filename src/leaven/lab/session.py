"""A recipe opened in Python, to look at its objects and to train it step by step.

The objects are those of the program itself: it runs in a thread, and waits before every batch until `step` is called.
"""

import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torchmetrics import Metric

from leaven.lab.look import look
from leaven.lab.program import Program
from leaven.lab.tracing.opened import Opened, SplitName
from leaven.pictures.batch import draw_batch
from leaven.plan.plan import Plan
from leaven.program.files import write_program
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Stopped
from leaven.runtime.run.phase import Phase
from leaven.runtime.run.run import Run

SHOWN = 60  # layers, in a summary


class Session:
    """A recipe that is being run: `batch`, `step` and `evaluate`; its `model`, `optimizer` and `data`."""

    def __init__(self, plan: Plan) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="leaven-")
        self._name = plan.name
        self.folder = Path(self._place.name)
        self._plan = plan
        write_program(plan, self.folder)
        self._program = Program(self.folder)
        self.run: Run = self._program.assigned("run", args=self._program.args)
        self.data: Data = self._program.build_data(self.run.seed)
        self.model: nn.Module = self._program.call(self._program.module.build_model, data=self.data)
        self.metrics: Mapping[str, Metric] = self._program.assigned("metrics", data=self.data, args=self._program.args)
        self._turn = _Turn()
        self.run.before_batch = self._turn.wait
        self.run.shows_training = False
        self.run.uses_planner = False  # batches have images
        self._thread = threading.Thread(target=self._train, daemon=True, name="leaven session")

    # -- looking

    def __repr__(self) -> str:
        return f"<Session {self._name}: {self._turn}; {type(self.model).__name__}; {self.data!r}>"

    def batch(self, split: str = "train") -> tuple[Tensor, Tensor]:
        """The images and targets of the first batch of a split; of train, those of the next step."""
        phase = self._turn.phase
        if split == "train" and phase is not None:
            batches = self.data.train.batches(phase.epochs_before + phase.epoch, first=phase.batch)
        else:
            batches = getattr(self.data, split).batches(0)
        return next(iter(batches))

    def look(self, file: str | os.PathLike[str] | None = None, *, split: SplitName = "train", epoch: int = 1) -> Path:
        """Draw the first batch of an epoch with its labels, and a sample after each transform; the file.

        Without a `file`, it is named like the recipe: `dogs_look.png`.
        """
        drawn = Path(file or f"{self._plan.name}_look.png")
        draw_batch(look(Opened(self._name, self._plan, self._program, self.data), split, epoch).rows, drawn)
        return drawn

    def evaluate(self, split: str = "val") -> dict[str, float]:
        """The current scores of the model: `{"val.accuracy": 0.95}`."""
        current = self._turn.phase
        planned = next((each for each in self._plan.phases if current is not None and each.name == current.name), None)
        own = (planned or self._plan.phases[-1]).override("eval_step")
        step = {"step": self._program.user_function(own.function, self._plan)} if own is not None else {}
        scores: dict[str, float] = self._program.module.task.evaluate(
            self.run, self.model, getattr(self.data, split), self.metrics, **step
        )
        return scores

    @property
    def optimizer(self) -> Any:
        """The optimizer of the current phase; there is none before the first step."""
        return self._turn.phase.checkpoint.parts.get("optimizer") if self._turn.phase is not None else None

    def summary(self) -> str:
        """The layers with parameters, how many each has, and which of them are frozen."""
        rows = []
        for name, module in self.model.named_modules():
            if own := list(module.parameters(recurse=False)):
                count = f"{sum(parameter.numel() for parameter in own):,}"
                is_trainable = any(parameter.requires_grad for parameter in own)
                rows.append((name, type(module).__name__, count, "" if is_trainable else "frozen"))
        shown = rows[:SHOWN] + ([("…", "", "", "")] if len(rows) > SHOWN else [])
        widths = [max(len(row[at]) for row in shown) for at in range(3)]
        lines = ["  ".join([a.ljust(widths[0]), b.ljust(widths[1]), c.rjust(widths[2]), d]) for a, b, c, d in shown]
        total = sum(parameter.numel() for parameter in self.model.parameters())
        trainable = sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)
        counts = f"{len(self.data.train):,} train, {len(self.data.val):,} val, {len(self.data.test):,} test"
        lines = [line.rstrip() for line in lines]
        lines += ["", f"{trainable:,} of {total:,} parameters trainable; {counts}; {self.data.target.brief}"]
        return "\n".join(lines)

    # -- training

    def step(self, count: int = 1) -> float | None:
        """Train on `count` batches; the loss of the last one, or None when training is over."""
        loss = None
        for _ in range(count):
            if not self._thread.is_alive() and not self._turn.is_over:
                self._thread.start()
                self._turn.arrive()
            if self._turn.is_over:
                break
            phase = self._turn.phase
            self._turn.go()
            loss = phase.losses.last if phase is not None else None
        problem, self._turn.problem = self._turn.problem, None
        if problem is not None:
            raise problem
        return loss

    def close(self) -> None:
        """End the session, and remove its files."""
        if self._thread.is_alive():
            self._turn.stop()
            self._thread.join()
        self.data.close()
        self._place.cleanup()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self.close()

    def _train(self) -> None:
        try:
            objects = {"run": self.run, "model": self.model, "data": self.data, "metrics": self.metrics}
            self._program.train(args=self._program.args, **objects)
        except BaseException as problem:
            self._turn.end(problem)
        else:
            self._turn.end(None)


class _Turn:
    """Lets either the program or the session run: the program waits before every batch for the session's `go`."""

    def __init__(self) -> None:
        self.phase: Phase | None = None
        self.is_over = False
        self.problem: BaseException | None = None  # what went wrong in the program
        self._is_stopped = False
        self._may_go = threading.Semaphore(0)
        self._has_arrived = threading.Semaphore(0)

    def __str__(self) -> str:
        """`phase "head", epoch 1/10, batch 3`."""
        phase = self.phase
        if self.is_over:
            return "trained"
        if phase is None:
            return "not begun"
        return f'phase "{phase.name}", epoch {phase.loop.epoch_text}, batch {phase.batch}'

    def wait(self, phase: Phase) -> None:
        """In the program's thread: wait before a batch."""
        self.phase = phase
        self._has_arrived.release()
        self._may_go.acquire()
        if self._is_stopped:
            raise Stopped

    def go(self) -> None:
        """Let the program train on one batch."""
        self._may_go.release()
        self.arrive()

    def arrive(self) -> None:
        self._has_arrived.acquire()

    def end(self, problem: BaseException | None) -> None:
        self.is_over = True
        self.problem = None if isinstance(problem, Stopped) else problem
        self._has_arrived.release()

    def stop(self) -> None:
        self._is_stopped = True
        self._may_go.release()
