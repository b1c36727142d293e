"""What models answer before and after edits, and the programs that ask the same."""

import json
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from leaven.bundle import Bundle
from leaven.lab import edit, predictions
from leaven.lab.answers import Answers
from leaven.lab.subject import Subject
from leaven.runtime.failures import Failure
from leaven.tasks import detection, multilabel, regression, segmentation
from leaven.tasks.detection.prediction import Detection
from leaven.tasks.segmentation.target import MaskClasses


def test_an_edit_changes_the_answer_and_says_by_how_many_points(colours: Bundle, photo: str) -> None:
    (answer,) = predictions(colours, photo, hue=-0.35).each
    assert (answer.before.answer, answer.after.answer) == ("red", "blue")
    assert answer.is_flipped
    assert answer.words == "red → blue"
    blue = next(one for one in answer.changes if one.name == "blue")
    assert blue.difference == answer.after.numbers()["blue"] - answer.before.numbers()["blue"] > 0
    assert f"{100 * blue.difference:+.1f}" in str(predictions(colours, photo, hue=-0.35))


def test_without_edits_there_is_only_one_answer(colours: Bundle, photo: str) -> None:
    answers = predictions(colours, photo)
    assert not answers.each[0].is_flipped
    assert "before" not in str(answers)


def test_models_agree_or_are_told_apart(colours_file: Path, make_colours: Callable[..., Path], photo: str) -> None:
    same, other = make_colours("same.bundle", "red", "green", "blue"), make_colours("other.bundle", "a", "b", "c")
    assert predictions([colours_file, same], photo).agreement == "both models answer red"
    assert predictions([colours_file, other], photo).agreement == f"{colours_file} answers red; {other} answers a"


def test_the_program_gives_the_same_answer_to_the_last_bit(colours_file: Path, photo: str) -> None:
    answers = predictions([colours_file, Subject("efficientnet_lite0")], photo, noise=0.2, rotate=33.3, pad=7)
    variables: dict[str, Any] = {}
    exec(answers.as_python(), variables)
    for one, again in zip(answers.each, variables["answers"], strict=True):
        assert one.after.probabilities.tobytes() == again.probabilities.tobytes()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_program_runs_by_itself(colours_file: Path, photo: str) -> None:
    answers = predictions(colours_file, photo, hue=-0.35)
    done = subprocess.run([sys.executable, "-c", answers.as_python()], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.split()[0]) == ("", "blue")


def test_texts_are_asked_alike(reviews_file: Path) -> None:
    answers = predictions(reviews_file, "the film was good", replace=("good", "awful"), case="upper")
    variables: dict[str, Any] = {}
    exec(answers.as_python(), variables)
    assert variables["text"] == "THE FILM WAS AWFUL"
    again = variables["answers"][0].probabilities
    assert answers.each[0].after.probabilities.tobytes() == again.tobytes()  # type: ignore[attr-defined]
    assert answers.as_recipe() is None


def test_edits_of_texts_are_not_for_images(colours: Bundle, photo: str) -> None:
    with pytest.raises(Failure, match=r"`negate` is for texts, but .* takes images"):
        predictions(colours, photo, negate=True)


def test_an_image_in_memory_can_be_asked_but_not_be_written_as_python(colours: Bundle) -> None:
    answers = predictions(colours, np.full((20, 20, 3), (200, 0, 0), dtype=np.uint8), pad=2)
    assert answers.each[0].before.answer == "red"
    with pytest.raises(Failure, match="image in memory"):
        answers.as_python()


def test_json_is_plain_and_the_picture_is_the_changed_image(colours: Bundle, photo: str) -> None:
    answers = predictions(colours, photo, pad=5)
    told = json.loads(json.dumps(answers.to_json(), allow_nan=False))
    assert told["edits"] == [{"edit": "pad", "pixels": 5}]
    assert told["answers"][0]["answer"] == {"before": "red", "after": "red", "flipped": False}
    assert Image.open(BytesIO(answers.picture())).size == (50, 50)


def test_predictions_that_are_known_are_not_computed_again(colours: Bundle, photo: str) -> None:
    known = colours(edit(photo, hue=-0.35).value)
    answers = predictions(colours, photo, pad=1, before={str(colours.path): known})
    assert answers.each[0].before is known


def test_hostile_names_do_not_command_the_terminal(make_colours: Callable[..., Path], photo: str) -> None:
    answers = predictions(make_colours("c.bundle", "\x1b[31mred", "<img onerror=x>", "c"), photo, pad=1)
    assert "\x1b" not in str(answers)
    assert "\x1b" not in repr(answers)


# -- of other tasks


def test_labels_are_the_same_in_any_order() -> None:
    one = multilabel.Prediction(("a", "b", "c"), np.array([0.9, 0.2, 0.6]))
    other = multilabel.Prediction(("a", "b", "c"), np.array([0.6, 0.4, 0.9]))
    assert one.answer == "a;c"
    assert one.is_same(other)
    assert one.is_answer("c; a")
    assert not one.is_answer("a")
    assert multilabel.Prediction(("a",), np.array([0.1])).is_answer("no label")


def test_numbers_are_the_same_within_a_tenth_of_their_deviation() -> None:
    def price(value: float) -> regression.Prediction:
        return regression.Prediction({"price": value, "age": 3.0}, {"price": 10.0, "age": 1.0})

    assert price(100).is_same(price(100.9))
    assert not price(100).is_same(price(101.1))
    assert price(100).is_answer("price 100.5, age 3")
    assert price(100).is_answer("price 90 to 110")
    assert price(100).is_answer("100")
    assert not price(100).is_answer("price 100, age 4")
    with pytest.raises(Failure, match="is not a number"):
        price(100).is_answer("cheap")


def found(*objects: tuple[str, tuple[float, float, float, float]]) -> detection.Prediction:
    every = tuple(Detection(label, 0.9, box, 0) for label, box in objects)
    return detection.Prediction(every, (100, 100))


def test_objects_agree_if_their_boxes_overlap() -> None:
    one = found(("dog", (0, 0, 10, 10)), ("cat", (50, 50, 60, 60)))
    other = found(("dog", (1, 0, 11, 10)), ("dog", (50, 50, 60, 60)))
    assert one.answer == "1 cat, 1 dog"
    assert not one.is_same(other)
    assert one.agreement(other).startswith("1 of 3 objects are in both")
    assert one.agreement(one).startswith("2 of 2 objects")
    assert found().agreement(found()) == "no object in both"


def test_pixels_agree_by_their_class() -> None:
    target = MaskClasses(("road", "sky"))
    one = segmentation.Prediction(target, np.array([[0, 0], [1, 1]]))
    other = segmentation.Prediction(target, np.array([[0, 0], [0, 1]]))
    assert one.answer == "road, sky"
    assert one.is_same(other)
    assert one.agreement(other) == "75.0 % of the pixels have the same class"


def test_places_are_not_compared_with_those_before_a_rotation() -> None:
    before, after = found(("dog", (0, 0, 10, 10))), found(("dog", (40, 40, 50, 50)))
    from leaven.lab.answers import Answer

    moved = Answer(None, before, after, is_moved=True)  # type: ignore[arg-type]
    assert moved.agreement == "places are not compared: the edits move what is in the image"
    assert Answer(None, before, after).agreement.startswith("0 of 2 objects")  # type: ignore[arg-type]


def test_answers_are_a_value(colours: Bundle, photo: str) -> None:
    answers = predictions(colours, photo, pad=5)
    assert isinstance(answers, Answers)
    assert repr(answers) == f'<Answers: "photo.png" padded by 5 px: {colours.path}: red>'
