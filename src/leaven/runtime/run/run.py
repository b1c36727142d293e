"""A run: its folder, its checkpoints, its loggers, and how it is stopped.

The loop is in the program, where it can be read and changed; what surrounds one phase of it is in `phase.py`. A
checkpoint is written at the end of every epoch, and more often if the recipe says so. Seeds are derived from where a
run is, not from what was drawn before, so a run that is resumed ends as if it had never been interrupted.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from leaven.formats.run_folder import LAST, read_metrics
from leaven.formats.split_sizes import sizes_text
from leaven.formats.sweep_folder import CHOSEN
from leaven.pictures.figure import is_installed
from leaven.runtime.data.batches import Batches, Data, Split
from leaven.runtime.failures import Stopped, Trained
from leaven.runtime.model.masks import apply_masks
from leaven.runtime.run import progress
from leaven.runtime.run.checkpoint import CheckpointPolicy
from leaven.runtime.run.curves import show_curves
from leaven.runtime.run.ending import ChosenEpoch, PhasesEnded, chosen_epoch, ending_of
from leaven.runtime.run.fabric import fabric_for, precision_of, use_precision
from leaven.runtime.run.folder import RunFolder, open_folder
from leaven.runtime.run.guard import end_at_once
from leaven.runtime.run.length import QUICK_BATCHES, EpochSize, Length, length_of
from leaven.runtime.run.loggers import Logger
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.measuring import choose_batch_size
from leaven.runtime.run.optimizer_state import load_optimizer_state
from leaven.runtime.run.order import PhaseOrder
from leaven.runtime.run.outlook import Outlook
from leaven.runtime.run.phase import Phase
from leaven.runtime.run.plain_state import PlainState
from leaven.runtime.run.rank_watch import RANKS
from leaven.runtime.run.record import record_data, record_start
from leaven.runtime.run.samples import Columns, as_arrays
from leaven.runtime.run.scores import Scores
from leaven.runtime.run.stopping import StopSignal
from leaven.runtime.run.training_record import TrainingRecord
from leaven.runtime.seeding import seed_all
from leaven.runtime.stored.storing import store_decoded
from leaven.runtime.trials.group import current_trial
from leaven.terminal.commands import to_finish, to_resume, to_use


class Run:
    """A training run in a folder of its own. `monitor` is the score that decides which epoch is the best.

    `epochs` are those of all phases, for the time left. `devices`, `precision` and `strategy` are Fabric's. `threads`
    compute on a CPU, by default one per core; a run that is resumed has as many as before.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        *,
        seed: int,
        monitor: str,
        epochs: int = 0,
        lower_is_better: Sequence[str] = (),
        devices: int | str = "auto",
        strategy: str = "auto",
        precision: str = "32-true",
        threads: int | None = None,
        loggers: Iterable[Callable[[Path], Logger]] = (),
        checkpoint: CheckpointPolicy | None = None,
    ) -> None:
        self.fabric = fabric = fabric_for(args, devices, strategy, precision)
        RANKS.begin(fabric, end_at_once)
        fabric.launch()
        self.trial = current_trial()  # among others that train together
        self.device: torch.device = fabric.device
        self.seed = seed
        self.is_quick: bool = args.quick
        self.more_epochs: int = args.more_epochs
        self.checkpoint = checkpoint or CheckpointPolicy()
        named = Path(fabric.broadcast(str(open_folder(args, owner=self)) if fabric.is_global_zero else ""))
        writes = fabric.is_global_zero and args.snapshot is None
        self.folder = RunFolder(named, writes=writes, waits=self.trial is not None)
        RANKS.folder = named
        self.saved = self.folder.read(LAST)
        self.scores = Scores(self.folder, monitor, lower_is_better)
        if self.saved is not None:
            self.scores.load_state_dict(self.saved)
        self.ending = ending_of(args, self.folder, keeps_best=self.checkpoint.keep != "last")
        if self.ending.saved is not None:  # the best epoch may be a later one than that of the last checkpoint
            self.scores.rows = read_metrics(self.folder.path)
        self.record = TrainingRecord(self.folder, self.saved, trains=self.ending.trains)
        self.order = PhaseOrder(self.folder, self.saved, args.from_phase)
        self.plain_state = PlainState()
        self.chosen: ChosenEpoch | None = None  # of which the final weights are
        self.caveats: tuple[str, ...] = ()  # about a model that learned nothing
        self.samples: dict[str, Columns] = {}  # of each split, as the final weights were measured on them
        self.phases = 0  # that have begun
        self.last_phase: Phase | None = None
        self.is_trained = False  # whether the final weights are known
        self._data: Data | None = None
        self._total_epochs = epochs
        self._epochs_before = 0  # the next phase
        self._precision = fabric.strategy.precision
        self.scores.loggers = [make(self.folder.path) for make in loggers] if writes else []
        warning = record_start(self.folder, args, fabric, self.saved, seed=seed, threads=threads)
        self.stop = StopSignal(fabric) if self.trial is None else self.trial.group.stop
        self.before_batch: Callable[[Phase], object] = lambda _: None
        self.uses_planner = not self.is_quick
        self.shows_training = self.trial is None  # nor where the program waits before every batch
        seed_all(seed)
        verb = "finishing" if args.finish is not None else "resuming"
        self.print(f"{verb if self.saved or not self.ending.trains else 'run'} {named}")
        if warning:
            self.print(warning)

    @property
    def next_commands(self) -> str:
        """What to type to go on with the run, when it is stopped; of a trial, the sweep tells."""
        if self.ending.is_trial:
            return ""
        finish = f"\nto use its best epoch so far: {to_finish(self.folder.named)}" if self.scores.rows else ""
        return f"; to resume: {to_resume(self.folder.named)}{finish}"

    # -- phases

    @contextmanager
    def training(self, first: str, /, *others: str) -> Iterator[None]:
        """All phases, by their names; with `--finish`, those after the best epoch so far are left out."""
        self.order.announce((first, *others))
        try:
            yield
        except PhasesEnded as ended:
            self.print(f'left out: phase "{ended}" and those after it')

    def store_decoded(self, split: Split, *, transforms: int = 0, exact: bool = True) -> None:
        """Decode each image of a split once, and apply the first `transforms`: later epochs and runs read the result.

        Nothing else changes, unless it need not be `exact`: then a JPEG file that is resized to at most half of its
        size is decoded at a smaller one. Where that is not possible or not faster, images are decoded in every epoch,
        and a line says why.
        """
        if self.is_planned:
            store_decoded(self, split, transforms, exact=exact)

    def choose_batch_size(self, model: nn.Module, data: Data) -> None:
        """Let batches have twice as many samples, or twice that, …, as long as that is measured to be faster."""
        self.fabric.to_device(model)
        choose_batch_size(self, model, data, may_measure=self.is_planned)

    @property
    def is_planned(self) -> bool:
        """Whether outputs are stored and settings measured: as the planner decided, and something is left to train."""
        return self.uses_planner and self.ending.trains and not self.folder.lock.get("trained")

    def phase(
        self,
        name: str,
        model: nn.Module,
        data: Data,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        samples: int | None = None,
        minutes: float | None = None,
        accumulate: int = 1,
        precision: str | None = None,
        compile: bool = False,
    ) -> Phase:
        """The next phase, with the model on its device. Phases are numbered in the order of the calls.

        Its length is a number of `epochs`, optimizer `steps` or `samples`, or of `minutes` of training.
        """
        length = length_of(epochs=epochs, steps=steps, samples=samples, minutes=minutes)
        number = self.phases
        is_last = self.order.is_last(number, name)
        if self.ending.saved is not None and number > self.ending.saved.phase:
            raise PhasesEnded(name)
        use_precision(self.fabric, self._precision if precision is None else precision_of(precision))
        self.fabric.to_device(model)
        batches = self._at_most_quick(data.train.steps(self.fabric.world_size))
        epoch = EpochSize(batches, len(data.train), data.train.batch_size, accumulate)
        if is_last:
            if self.saved and self.saved["phase"] == number:
                length = replace(length, amount=max(length.amount, self.saved["planned"]))
            length = length.longer_by(self.more_epochs, epoch)
        if self.is_quick:
            length = Length(min(length.amount, 1))
        if self._data is None:
            self._data = data
            record_data(self.folder, data, self.fabric)
            self.print(f"{sizes_text(len(data.train), len(data.val), len(data.test))}; {data.target.brief}")
        loop, before = Loop(length, epoch), self._epochs_before
        self.phases, self._epochs_before = number + 1, before + loop.most_epochs
        left = self._total_epochs - self._epochs_before
        outlook = Outlook(
            phase=name,
            loop=loop,
            epochs_before=before,
            epochs_after=0 if is_last else None if self.is_quick or left < 0 else left + self.more_epochs,
            validation_batches=self._evaluation_batches(data.val),
            is_quick=self.is_quick,
            is_shown=self.trial is None,
        )
        phase = self.last_phase = Phase(self, name, number, model, data, loop, outlook, before, compile, is_last)
        return phase

    def _at_most_quick(self, batches: int) -> int:
        return min(batches, QUICK_BATCHES) if self.is_quick else batches

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
        """Let an optimizer continue with the state of the one in the phase before."""
        load_optimizer_state(self.order.optimizer_state, optimizer, model)

    def load_best(self, model: nn.Module) -> None:
        """Load the best weights of the last phase, and make masks over pruned weights permanent."""
        assert self.last_phase is not None, "the program has no phase"
        name, loop = self.last_phase.name, self.last_phase.loop
        if self.ending.is_trial and self.ending.trains:
            keeps_best = self.checkpoint.keep != "last" or loop.is_stopped_early
            best = self.scores.best_epochs.get(name, loop.epoch) if keeps_best else None
            self.folder.note(trained=True, **{CHOSEN: best})
            self.scores.close()
            raise Trained
        found = self.ending.saved or self.folder.best_of(self.phases - 1)
        if found is not None and found.weights is not None:
            model.load_state_dict(found.weights)
        apply_masks(model)
        self.is_trained = True
        self.caveats = found.caveats if found is not None else self.scores.caveats("val")
        self.samples["val"] = as_arrays(found.samples) if found is not None else self.scores.columns("val")
        self.chosen = chosen_epoch(name, loop, self.scores.rows, found)
        number = self.chosen.epoch.number if self.chosen is not None else None
        if self.ending.trains:
            self.folder.note(trained=True, **{CHOSEN: number})
            return
        if number is not None:
            self.scores.best_epochs[name] = number
        self.print(self.ending.line(self.chosen))

    # -- scores and messages

    def _evaluation_batches(self, split: Batches) -> int:
        """About how many batches a split is evaluated in."""
        return self._at_most_quick(math.ceil(len(split) / split.batch_size))

    def evaluation_bar(self, split: Batches) -> progress.Bar:
        """The bar of an evaluation: that of the current epoch, or of the whole run."""
        batches = self._evaluation_batches(split)
        if split.name == "val" and self.last_phase is not None:
            return self.last_phase.outlook.validation(batches)
        return progress.Bar({"val": "validation", "test": "testing"}.get(split.name, split.name), batches)

    def stop_if_asked(self) -> None:
        """Between two batches of an evaluation: stop where nothing is lost, and the evaluation is done again.

        Several processes may have different numbers of batches; they stop after the next step.
        """
        if not self.is_asked_to_stop():
            return
        if self.last_phase is not None and self.last_phase.loop.awaits_scores:
            self.last_phase.checkpoint.stop()
        if self.is_trained:
            raise Stopped(f"stopped; {self.ending.once_more(self.folder.named)}")

    def stop_here(self) -> None:
        """Where nothing is lost that a resumed run would not do again: stop, if that is asked for."""
        if self.is_asked_to_stop():
            raise Stopped(f"stopped{self.next_commands}")

    def is_asked_to_stop(self) -> bool:
        """Whether a single process may stop here; several stop after the next step."""
        return self.fabric.world_size == 1 and self.stop.is_pressed_here

    def print(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self.fabric.is_global_zero and self.trial is None:
            progress.say(text)

    def final_scores(self, test: Mapping[str, float]) -> dict[str, float]:
        """The test scores; without a test split, the validation scores of the epoch that was chosen."""
        return dict(test) or (dict(self.chosen.scores) if self.chosen is not None else {})

    def report(self, scores: Mapping[str, float]) -> None:
        """Write the final scores, and print a table of them."""
        self.folder.write_scores(self.final_scores(scores))
        self.scores.log(scores)
        self.scores.close()
        self.samples["test"] = self.scores.columns("test")
        self.print(f"\n{progress.final_table(self.scores.rows, self.scores.best_epochs, scores)}")
        if scores:
            self.caveats = self.scores.caveats("test")
        if not self.is_quick:
            self.folder.note(caveats=list(self.caveats))
            if self.caveats:
                self.print("\n".join(["", *self.caveats]))
        if not self.is_quick and self.ending.snapshot is None:
            show_curves(self)
        if self._data is not None and self._data.skipped:
            self.print(f"\n{progress.skipped_line(self._data.skipped)}")

    def save_figure(self, name: str, draw: Callable[[], bytes]) -> Path | None:
        """Write a figure into the folder, if it can be drawn here; the run goes on if it can't."""
        if self.is_quick or not self.folder.writes or not is_installed():
            return None
        try:
            return self.folder.write_figure(name, draw())
        except Exception as problem:  # whatever matplotlib raises
            self.print(f"{name} could not be drawn: {type(problem).__name__}: {problem}")
            return None

    def announce(self, file: Path, *, trust_code: bool = False, example: str = "photo.jpg") -> None:
        """Note that the run is finished, and print where the model is and how to use it."""
        self.folder.note(finished=True)
        shown = self.folder.named / file.name if file.parent == self.folder.path else file
        self.print(f"\nsaved {shown}\n{to_use(shown, trust_code=trust_code, example=example)}")
        if self.is_quick:
            self.print("smoke test passed; the model is not trained")
