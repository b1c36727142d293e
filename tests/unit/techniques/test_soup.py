"""Which epochs go into the mean, and what becomes of it."""

from pathlib import Path

import pytest
import torch
from tests.unit.techniques.at_hand import net, phase_in, state_of

from leaven.runtime import Phase
from leaven.techniques import Soup


def epoch(soup: Soup, phase: Phase, module: torch.nn.Module, score: float) -> float:
    """Goes on by one epoch; how far the measured model is from the first weights."""
    with torch.no_grad():
        for weight in module.parameters():
            weight += 1.0
    measured = soup.model_for_eval(module)
    soup.after_epoch(phase, module, {"val.accuracy": score})
    return (measured.get_parameter("6.bias") - net()[6].bias)[0].item()


@pytest.mark.parametrize(("way", "means"), [("greedy", [1, 1.5, 2, 7 / 3]), ("uniform", [1, 1.5, 2, 2.5])])
def test_an_epoch_that_lowers_the_score_is_left_out_unless_all_are_kept(
    tmp_path: Path, way: str, means: list[float]
) -> None:
    phase, module = phase_in(tmp_path), net()
    soup = Soup(module, phase.data, phase, way=way)  # type: ignore[arg-type]
    found = [epoch(soup, phase, module, score) for score in (0.5, 0.6, 0.55, 0.6)]
    assert found == pytest.approx(means)
    soup.at_end(module)
    assert (module[6].bias - net()[6].bias)[0].item() == pytest.approx(means[-1])


def test_training_continues_from_the_weights_themselves(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path), net()
    soup = Soup(module, phase.data, phase)
    for score in (0.5, 0.4):
        epoch(soup, phase, module, score)
    assert torch.allclose(state_of(module)["6.bias"], net()[6].bias + 2)


def test_saved_state_is_resumed(tmp_path: Path) -> None:
    phase, module = phase_in(tmp_path), net()
    soup, other = Soup(module, phase.data, phase), Soup(module, phase.data, phase)
    epoch(soup, phase, module, 0.5)
    other.load_state_dict(soup.state_dict())
    first, second = (one.model_for_eval(module).state_dict() for one in (soup, other))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert (other.count, other.score) == (1, 0.5)
