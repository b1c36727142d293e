"""How large the images are in which epoch."""

from pathlib import Path

import torch
from tests.unit.techniques.at_hand import phase_in

from leaven.techniques import ProgressiveResizing


def test_images_grow_to_full_size(tmp_path: Path) -> None:
    phase = phase_in(tmp_path, epochs=5)
    resizing = ProgressiveResizing(until=4, start=0.5, multiple=4)
    images, labels, sizes = torch.rand(2, 3, 32, 48), torch.tensor([0, 1]), []
    for phase.loop.epoch in range(5):
        resizing.before_epoch(phase)
        smaller, same = resizing.on_batch(images, labels)
        assert same is labels
        sizes.append(tuple(smaller.shape[-2:]))
    assert sizes == [(16, 24), (20, 32), (24, 36), (28, 40), (32, 48)]
    assert smaller is images, "at full size nothing is done"


def test_a_picture_of_one_colour_keeps_it(tmp_path: Path) -> None:
    resizing = ProgressiveResizing(until=2, start=0.5)
    resizing.before_epoch(phase_in(tmp_path))
    smaller, _ = resizing.on_batch(torch.full((1, 1, 30, 30), 0.5), torch.tensor([0]))
    assert torch.allclose(smaller, torch.tensor(0.5))


def test_sizes_that_fit_no_multiple_stay_within_the_picture(tmp_path: Path) -> None:
    resizing = ProgressiveResizing(until=2, start=0.9, multiple=8)
    resizing.before_epoch(phase_in(tmp_path))
    assert resizing.on_batch(torch.rand(1, 1, 6, 6), torch.tensor([0]))[0].shape[-2:] == (6, 6)
