"""Where the image that a model was given lies in the one that it was made from."""

import pytest
import torch
from PIL import Image
from torchvision.transforms import v2 as T

from leaven.runtime.data.places import prepared

PHOTO = Image.new("RGB", (200, 120))
TENSOR = [T.ToImage(), T.ToDtype(torch.float32, scale=True)]


def back(transforms: list[object], box: list[float]) -> list[float]:
    tensor, place = prepared(PHOTO, T.Compose([*transforms, *TENSOR]))
    assert tensor.ndim == 3
    found: list[float] = place.boxes(torch.tensor([box]))[0].tolist()
    return found


def test_an_unchanged_image() -> None:
    assert back([], [10, 20, 30, 40]) == pytest.approx([10, 20, 30, 40], abs=1e-3)


def test_a_resized_image() -> None:
    assert back([T.Resize([60, 50])], [10, 20, 30, 40]) == pytest.approx([40, 40, 120, 80], abs=1e-3)


def test_a_cropped_image() -> None:
    assert back([T.CenterCrop(100)], [0, 0, 30, 40]) == pytest.approx([50, 10, 80, 50], abs=1e-3)


def test_a_padded_image_has_no_boxes_outside_of_the_photo() -> None:
    assert back([T.Pad(10)], [0, 0, 30, 40]) == pytest.approx([0, 0, 20, 30], abs=1e-3)


def test_code_that_takes_an_image_alone() -> None:
    tensor, place = prepared(PHOTO, lambda image: torch.zeros(3, 12, 10))
    assert tuple(tensor.shape) == (3, 12, 10)
    assert place.size == (200, 120)
