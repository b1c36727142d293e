"""What a model takes is found from an example, and read back from a bundle as it was written."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from leaven.bundle.inputs import Takes, Texts, like, read
from leaven.runtime.failures import Failure

EXAMPLES = [
    (Image.new("RGB", (40, 30)), {"kind": "image", "mode": "RGB", "size": [40, 30]}),
    (np.zeros((12, 10), np.uint8), {"kind": "array", "mode": "L", "size": [12, 10]}),
    (torch.zeros(3, 8, 9), {"kind": "tensor", "mode": "RGB", "size": [3, 8, 9]}),
    ("good", {"kind": "text", "mode": "", "size": [1]}),
    (("good", "bad"), {"kind": "text", "mode": "", "size": [2]}),
]
KINDS = [written["kind"] for _, written in EXAMPLES]


@pytest.mark.parametrize(("example", "written"), EXAMPLES, ids=KINDS)
def test_what_bundles_say_of_their_inputs_is_read_back(example: Any, written: dict[str, Any]) -> None:
    takes = like(example)
    assert takes.to_json() == written
    assert read(written) == takes


def test_the_columns_of_texts_are_read_back() -> None:
    takes = Texts(2).with_columns(["premise", "hypothesis"])
    assert takes.to_json() == {"kind": "text", "mode": "", "size": [2], "columns": ["premise", "hypothesis"]}
    assert read(takes.to_json()) == takes


@pytest.mark.parametrize("takes", [like(example) for example, _ in EXAMPLES], ids=KINDS)
def test_a_golden_input_is_one_that_the_model_can_be_given(takes: Takes) -> None:
    for made in takes.golden_inputs((32, 32), torch.Generator().manual_seed(0)):
        given = takes.as_input(made)
        assert takes.is_one(given)
        assert type(takes.converted(given)) is type(given)


def test_other_examples_are_refused() -> None:
    with pytest.raises(Failure, match="takes images, arrays, tensors or texts, not int"):
        like(5)
    with pytest.raises(ValueError, match="can't be read"):
        read({"kind": "sound", "mode": "", "size": [1]})
