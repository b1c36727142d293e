"""What a model takes is found from an example, and read back from a bundle as it was written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from leaven.bundle.inputs import InputKind, Texts, like, read
from leaven.bundle.inputs.images import Images
from leaven.bundle.inputs.text_arguments import find_texts
from leaven.formats.tables import PLAIN, Layout
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
def test_the_inputs_of_bundles_are_read_back(example: Any, written: dict[str, Any]) -> None:
    takes = like(example)
    assert takes.to_json() == written
    assert read(written) == takes


def test_the_columns_of_texts_are_read_back() -> None:
    takes = Texts(2).with_columns(["premise", "hypothesis"], PLAIN)
    assert takes.to_json() == {"kind": "text", "mode": "", "size": [2], "columns": ["premise", "hypothesis"]}
    assert read(takes.to_json()) == takes


def test_the_layout_of_tables_is_read_back() -> None:
    layout = Layout(separator="\t", header=False, columns=("label", "text"), quote=None, encoding="cp1252")
    takes = Texts(1).with_columns(["text"], layout)
    assert read(json.loads(json.dumps(takes.to_json()))) == takes
    strange = {**takes.to_json(), "layout": {"separator": 3, "header": "yes", "columns": 7, "quote": [], "rest": 1}}
    assert read(strange) == Texts(1).with_columns(["text"], PLAIN)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("good,Great movie\nbad,Terrible\n", ["Great movie", "Terrible"]),
        ("Great movie, loved it\nTerrible.\n", ["Great movie, loved it", "Terrible."]),
        ("Great movie, loved it\nA long, slow, dull film\n", ["Great movie, loved it", "A long, slow, dull film"]),
    ],
    ids=["a table", "a line without a comma", "a line with two"],
)
def test_lines_with_commas_are_no_table(content: str, texts: list[str], tmp_path: Path) -> None:
    file = tmp_path / "reviews.txt"
    file.write_text(content)
    assert find_texts([str(file)], 1, ["text"], Layout(columns=("label", "text"))) == (texts, [])


def test_the_table_of_images_is_read_back() -> None:
    layout = Layout(separator=" ", columns=("image", "label"))
    takes = Images("image", "RGB", ()).with_columns(["image"], layout, ".jpg")
    assert read(json.loads(json.dumps(takes.to_json()))) == takes


@pytest.mark.parametrize("takes", [like(example) for example, _ in EXAMPLES], ids=KINDS)
def test_a_golden_input_is_one_that_the_model_can_be_given(takes: InputKind) -> None:
    for made in takes.golden_inputs((32, 32), torch.Generator().manual_seed(0)):
        given = takes.as_input(made)
        assert takes.is_one(given)
        assert type(takes.converted(given)) is type(given)


def test_other_examples_are_refused() -> None:
    with pytest.raises(Failure, match="takes images, arrays, tensors or texts, not int"):
        like(5)
    with pytest.raises(ValueError, match="can't be read"):
        read({"kind": "sound", "mode": "", "size": [1]})
