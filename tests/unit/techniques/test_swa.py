"""The mean of the last epochs: when it begins, what it is, with which statistics and at which rate."""

from pathlib import Path

import torch
from tests.unit.techniques.at_hand import is_same, net, phase_in, state_of

from leaven.runtime import cosine
from leaven.techniques import Swa


def shifted(module: torch.nn.Module, by: float) -> None:
    with torch.no_grad():
        for weight in module.parameters():
            weight += by


def test_the_average_counts_the_ends_of_the_epochs_from_start_on(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path, epochs=3), net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    swa = Swa(module, phase.data, optimizer, phase, start=1)
    begun = state_of(module)
    for _ in range(3):
        for batch in range(phase.loop.whole.batches):
            phase.loop.batch = batch
            shifted(module, 1.0)
            swa.after_step(module)
        measured = swa.model_for_eval(module)
        assert (measured is module) == (phase.loop.epoch == 0)
        phase.loop.epoch += 1
    steps = phase.loop.whole.batches
    assert torch.allclose(measured.get_parameter("0.weight"), begun["0.weight"] + (2 * steps + 3 * steps) / 2)
    trained = state_of(module)
    assert not torch.equal(trained["1.running_mean"], measured.state_dict()["1.running_mean"]), "gathered anew"
    swa.at_end(module)
    assert is_same(state_of(module), measured.state_dict())


def test_the_rate_is_held_against_the_schedule_and_in_proportion(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path, epochs=2), net()
    groups = [{"params": module[0].parameters()}, {"params": module[6].parameters(), "lr": 0.4}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    schedule = cosine(optimizer, 10)
    swa = Swa(module, phase.data, optimizer, phase, start=1, lr=0.02)
    swa.before_epoch(phase)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.4]
    phase.loop.epoch = 1
    swa.before_epoch(phase)
    optimizer.step()
    schedule.step()
    swa.after_step(module)
    assert [group["lr"] for group in optimizer.param_groups] == [0.02, 0.08]


def test_without_a_rate_the_schedule_continues(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path), net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    swa = Swa(module, phase.data, optimizer, phase, start=0)
    optimizer.param_groups[0]["lr"] = 0.03
    swa.after_step(module)
    assert optimizer.param_groups[0]["lr"] == 0.03


def test_saved_state_is_resumed(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path), net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    swa, other = (Swa(module, phase.data, optimizer, phase, start=0) for _ in range(2))
    phase.loop.batch = phase.loop.whole.batches - 1
    shifted(module, 1.0)
    swa.after_step(module)
    other.load_state_dict(swa.state_dict())
    shifted(module, 1.0)
    for one in (swa, other):
        one.after_step(module)
    assert is_same(dict(swa.average.state_dict()), dict(other.average.state_dict()))
