"""Curves over the values of an edit, and the points where an answer flips."""

import json
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from leaven.bundle import Bundle
from leaven.lab import edit, smallest_flip, vary
from leaven.lab.curves import flips
from leaven.runtime.failures import Failure


def test_the_flip_point_is_between_the_answers(colours: Bundle, photo: str) -> None:
    (curve,) = vary(colours, photo, "hue").each
    assert curve.answers[curve.values.index(0.0)] == "red"
    for flip in curve.flips:
        step = 0.002 if flip.at > 0 else -0.002
        assert colours(flip.given.value).label == flip.after != "red"
        assert colours(edit(photo, hue=flip.at - step).value).label == "red"
    assert [flip.after for flip in curve.flips] == ["blue", "green"]
    assert curve.flips[0].at < 0 < curve.flips[1].at


def test_an_answer_that_stays_has_no_flip(colours: Bundle, photo: str) -> None:
    curves = vary(colours, photo, "pad", (0, 3))
    assert curves.values == (0, 1, 2, 3)
    assert curves.each[0].flips == ()
    assert "the answer stays the same" in str(curves)
    assert curves.as_recipe() is None


def test_other_edits_stay(colours: Bundle, photo: str) -> None:
    curves = vary(colours, edit(photo, grey=True), "brightness", values=[0.5, 1])
    assert curves.each[0].numbers["red"] == pytest.approx([1 / 3, 1 / 3], abs=0.02), "a grey image has no colour"


def test_several_models_have_a_curve_each_and_a_picture(colours_file: Path, photo: str) -> None:
    pytest.importorskip("matplotlib")
    curves = vary([colours_file, "efficientnet_lite0"], photo, "hue", steps=5)
    assert [one.model.name for one in curves.each] == [str(colours_file), "efficientnet_lite0"]
    assert Image.open(BytesIO(curves.picture())).width > 600
    json.dumps(curves.to_json(), allow_nan=False)


def test_the_program_computes_the_same_curves(colours_file: Path, photo: str) -> None:
    curves = vary(colours_file, edit(photo, pad=3), "hue", steps=5, k=2)
    variables: dict[str, object] = {}
    exec(curves.as_python(), variables)
    assert variables["curves"].to_json() == curves.to_json()  # type: ignore[attr-defined]


def test_the_smallest_flip_is_the_smallest_of_all(colours: Bundle, photo: str) -> None:
    found = []
    smallest = smallest_flip(colours, photo, on_step=found.append)
    assert smallest is not None
    assert smallest.size == min(one.size for one in found)
    assert colours(smallest.given.value).label == smallest.after != smallest.before == "red"
    assert {one.given.edits[-1].name for one in found} >= {"hue"}
    assert smallest_flip(colours, photo, ["pad"]) is None or "pad" in str(found)


def test_each_word_of_a_text_is_tried(reviews_file: Path) -> None:
    curves = vary(reviews_file, "the film was really good", "drop")
    assert curves.values == (1, 2, 3, 4, 5)
    for flip in flips(reviews_file, "the film was really good"):
        assert flip.after != flip.before
    with pytest.raises(Failure, match="the text has only 1"):
        vary(reviews_file, "good", "drop")


def test_what_can_not_be_varied_is_reported(colours: Bundle, photo: str) -> None:
    with pytest.raises(Failure, match="`cover` can't be varied"):
        vary(colours, photo, "cover")
    with pytest.raises(Failure, match="`drop` is for texts"):
        vary(colours, photo, "drop")
    with pytest.raises(Failure, match="factor must be a number from 0 to 20"):
        vary(colours, photo, "brightness", (-1, 1))
