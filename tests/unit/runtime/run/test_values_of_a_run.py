"""The values that a run is put together of, each by itself."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import digits
from leaven.runtime.data.splits import split
from leaven.runtime.failures import Diverged, Failure
from leaven.runtime.run.batch_losses import BatchLosses
from leaven.runtime.run.fabric import fabric_with
from leaven.runtime.run.folder import RunFolder
from leaven.runtime.run.length import EpochSize, Length
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.order import PhaseOrder
from leaven.runtime.run.plain_state import PlainState, lost_state_lines
from leaven.runtime.run.scores import Scores
from leaven.runtime.run.training_record import TrainingRecord


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "lock.json").write_text("{}")
    return RunFolder(tmp_path, writes=True, waits=False)


def losses_in(folder: RunFolder) -> BatchLosses:
    loop = Loop(Length(2), EpochSize(4), epoch=1, batch=2)
    record = TrainingRecord(folder, None, trains=True)
    return BatchLosses("head", 0, loop, record, fabric_with(accelerator="cpu", devices=1))


class TestBatchLosses:
    def test_means_weight_each_loss_by_its_share(self, folder: RunFolder) -> None:
        losses = losses_in(folder)
        losses.add(torch.tensor(1.0), {"boxes": torch.tensor(0.5)}, share=1.0)
        losses.add(torch.tensor(4.0), {"boxes": torch.tensor(2.0)}, share=0.5)
        assert losses.means() == (2.0, {"boxes": 1.0})
        assert losses.last == 4.0

    def test_they_go_on_where_they_were_saved(self, folder: RunFolder) -> None:
        before, losses = losses_in(folder), losses_in(folder)
        before.add(torch.tensor(3.0), {})
        losses.load_state(before.state())
        losses.add(torch.tensor(1.0), {})
        assert losses.means() == (2.0, {})

    def test_one_that_is_no_number_is_named_by_its_batch(self, folder: RunFolder) -> None:
        with pytest.raises(Diverged, match='the loss is nan at batch 3 of epoch 2 in phase "head"'):
            losses_in(folder).add(torch.tensor(math.nan), {})


class TestPhaseOrder:
    def test_a_phase_leaves_its_weights_to_the_next(self, folder: RunFolder) -> None:
        order, model, other = PhaseOrder(folder, None, None), nn.Linear(2, 2), nn.Linear(2, 2)
        order.announce(("head", "all"))
        assert [order.is_last(number, name) for number, name in enumerate(("head", "all"))] == [False, True]
        order.leave(0, model)
        later = PhaseOrder(folder, None, "all")
        later.announce(("head", "all"))
        assert later.is_finished(0)
        assert not later.is_finished(1)
        later.load_left(0, other)
        assert torch.equal(other.weight, model.weight)

    def test_a_phase_that_is_not_there_is_refused(self, folder: RunFolder) -> None:
        with pytest.raises(Failure, match='there is no phase "tail"'):
            PhaseOrder(folder, None, "tail").announce(("head", "all"))
        order = PhaseOrder(folder, None, None)
        order.announce(("head",))
        with pytest.raises(Failure, match='the phase "all" is not announced'):
            order.is_last(1, "all")


def test_a_lower_loss_is_better_and_that_of_training_stands_in_for_a_score_that_is_missing(folder: RunFolder) -> None:
    scores = Scores(folder, "val.accuracy", ["error"])
    assert [scores.signed(name, 0.5) for name in ("val.accuracy", "val.loss", "val.error")] == [0.5, -0.5, -0.5]
    assert scores.of_epoch({"train.loss": 2.0}) == ("train.loss", 2.0)
    assert scores.of_epoch({"train.loss": 2.0, "val.accuracy": 0.9}) == ("val.accuracy", 0.9)


class Counting(nn.Module):
    calls = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return images


def test_plain_state_that_changes_in_training_is_named() -> None:
    state, model = PlainState(), Counting()
    data = Data(digits(), split(digits(), train=80, val=10, test=10), train_transform=None, eval_transform=None)
    state.begin_phase(data, model=model, loss=None, optimizer=None)
    assert not state.changed([])
    model(torch.zeros(1))
    assert state.changed([]) == {"model": ["calls"]}
    (line,) = lost_state_lines(state.changed([]))
    assert line.startswith("calls of the model changed in training")
