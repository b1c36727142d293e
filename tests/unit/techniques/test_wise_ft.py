"""Between the start and now: what is measured, what is left, what is kept out."""

from pathlib import Path

import torch
from tests.unit.techniques.at_hand import is_same, net, phase_in, state_of

from leaven.techniques import WiseFt


def test_the_measured_weights_lie_between_and_the_trained_ones_stay(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path), net()
    wise_ft = WiseFt(module, phase.data, phase, layers=["0", "1", "3"], alpha=0.25)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 4.0
    trained = state_of(module)
    measured = wise_ft.model_for_eval(module)
    assert is_same(state_of(module), trained)
    for name, weight in measured.named_parameters():
        way = 0.0 if name.startswith("6") else 3.0
        assert torch.allclose(weight, trained[name] - way), name
    wise_ft.at_end(module)
    assert is_same(state_of(module), measured.state_dict())


def test_statistics_are_gathered_for_the_weights_in_between(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path), net()
    wise_ft = WiseFt(module, phase.data, phase, layers=["0", "1", "3"])
    with torch.no_grad():
        module[0].bias += 4.0
    measured = wise_ft.model_for_eval(module)
    images = torch.cat([images for images, _ in phase.data.train.batches(0)])
    seen = measured.get_submodule("0")(images).mean((0, 2, 3))
    assert torch.allclose(measured.get_buffer("1.running_mean"), seen, atol=1e-5)


def test_statistics_of_frozen_layers_stay(tmp_path: Path) -> None:
    from leaven.runtime import freeze

    phase, module = phase_in(tmp_path), net()
    freeze(module, only=["0", "1"])
    before = state_of(module)
    measured = WiseFt(module, phase.data, phase, layers=["3"]).model_for_eval(module)
    assert torch.equal(measured.get_buffer("1.running_mean"), before["1.running_mean"])
