"""Slow weights follow the fast ones at the right steps."""

from pathlib import Path

import torch
from tests.unit.techniques.at_hand import is_same, net, phase_in, state_of

from leaven.techniques import Lookahead


def step(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for weight in module.parameters():
            weight += 1.0


def test_fast_weights_run_and_are_drawn_back(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path, train=80), net()
    lookahead = Lookahead(module, phase, every=3, share=0.5)
    begun, gone = state_of(module)["6.bias"], []
    for phase.loop.batch in range(7):
        step(module)
        lookahead.after_step(module)
        gone.append((module[6].bias.detach() - begun)[0].item())
    assert torch.allclose(torch.tensor(gone), torch.tensor([1, 2, 1.5, 2.5, 3.5, 3.0, 4.0]))


def test_both_meet_when_an_epoch_ends(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path), net()
    lookahead = Lookahead(module, phase, every=100, share=0.25)
    phase.loop.batch = phase.loop.whole.batches - 1
    step(module)
    lookahead.after_step(module)
    assert all(map(torch.equal, lookahead.slow, module.parameters()))


def test_saved_state_is_resumed(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path, train=80), net()
    lookahead = Lookahead(module, phase, every=3)
    for _ in range(2):
        step(module)
        lookahead.after_step(module)
    twin = net()
    twin.load_state_dict(module.state_dict())
    other = Lookahead(twin, phase, every=3)
    other.load_state_dict(lookahead.state_dict())
    for one, ahead in ((module, lookahead), (twin, other)):
        step(one)
        ahead.after_step(one)
    assert is_same(state_of(module), state_of(twin))
