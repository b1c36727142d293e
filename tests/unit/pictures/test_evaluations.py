"""Figures of evaluations: any number of classes, any names, any numbers."""

import io

import numpy as np
import pytest
from PIL import Image

from leaven.pictures.bars import draw_bars
from leaven.pictures.confusion import draw_confusion
from leaven.pictures.scatter import draw_scatter

ODD = ["犬", "a$b_c^{", "<b>", "x" * 300, "Собака", "\x1b"]


@pytest.mark.parametrize("count", [1, 2, 10, 120])
def test_confusion_of_any_number_of_classes(count: int) -> None:
    names = (ODD * count)[:count]
    image = Image.open(io.BytesIO(draw_confusion(names, np.eye(count, dtype=np.int64) * 7)))
    assert 200 < image.width < 2000
    blue = np.asarray(image.convert("RGB"))[:, :, 0] < 40  # the diagonal
    assert blue.sum() > 1000


def test_numbers_of_any_size() -> None:
    same = np.full(5, 3.0)
    for numbers in (np.array([1e-30, 2e-30]), np.array([-1e30, 1e30]), same):
        assert draw_scatter(dict.fromkeys(ODD, (numbers, numbers[::-1]))).startswith(b"\x89PNG")


def test_bars_of_any_number_of_names() -> None:
    assert draw_bars({}, ("precision", "recall")).startswith(b"\x89PNG")
    many = {f"{name} {n}": (0.0, 1.0) for name in ODD for n in range(20)}
    assert Image.open(io.BytesIO(draw_bars(many, ("precision", "recall")))).height < 4000
