"""An edit does the same however it is said: in Python, as JSON, in words; and its recipe form is a recipe."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leaven
from leaven.lab.edits.edited import Edited, edit
from leaven.lab.edits.kinds import KINDS, edit_from_json, make_edit
from leaven.lab.edits.phrases import edit_at
from leaven.language.source import Source
from leaven.runtime.failures import Failure

IMAGES: dict[str, Any] = {
    "brightness": 0.5, "contrast": 0.4, "saturation": 2, "hue": 0.2, "blur": 1.5, "sharpen": 3, "noise": (0.1, 3),
    "rotate": -30, "shift": (0.1, -0.2), "scale": 1.5, "crop": (0.5, 0.25, 0.5), "pad": 8, "jpeg": 10,
    "resolution": 0.2, "grey": True, "cover": (0.1, 0.1, 0.5, 0.25), "paste": ("patch.png", 0.25, 0.5),
}  # fmt: skip
TEXTS: dict[str, Any] = {
    "replace": ("good", 'b"a\\d'), "drop": 2, "swap": "good", "misspell": (3, 1), "case": "upper", "negate": True
}  # fmt: skip
TEXT = "This good movie is long."


@pytest.fixture
def photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A photo with edges and colours, and a patch to paste on it."""
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((80, 60)).save("photo.png")
    Image.new("RGB", (10, 10), "red").save("patch.png")
    return "photo.png"


def test_every_edit_is_tried_here() -> None:
    assert {*IMAGES, *TEXTS} == set(KINDS)


@pytest.mark.parametrize("name", IMAGES)
def test_an_edit_of_an_image_says_how_to_do_it_again(photo: str, name: str) -> None:
    changed = edit(photo, **{name: IMAGES[name]})
    assert changed.value.tobytes() != Image.open(photo).tobytes()
    assert _as_python(changed).tobytes() == changed.value.tobytes()
    assert _said_again(changed).value.tobytes() == changed.value.tobytes()


@pytest.mark.parametrize("name", TEXTS)
def test_an_edit_of_a_text_says_how_to_do_it_again(name: str) -> None:
    changed = edit(TEXT, **{name: TEXTS[name]})
    assert changed.value != TEXT
    assert _as_python(changed) == changed.value
    assert _said_again(changed).value == changed.value


def _as_python(changed: Edited) -> Any:
    variables: dict[str, Any] = {"edit": edit}
    exec(changed.as_python("found"), variables)
    return variables["found"]


def _said_again(changed: Edited) -> Edited:
    """The same, once through JSON and once through words; both must be equal."""
    (one,) = changed.edits
    assert edit_from_json(one.to_json()) == one
    read = edit_at(one.words, 0)
    assert read == (one, len(one.words))
    return Edited(changed.input, (read[0],))


@pytest.mark.parametrize("name", [name for name in IMAGES if KINDS[name].recipe is not None])
def test_the_transform_for_training_is_one_that_recipes_accept(name: str) -> None:
    step = make_edit(name, IMAGES[name]).as_recipe()
    recipe = f"model resnet18()\ndata digits() {{\n    train {step}\n    eval resize(64)\n}}\n"
    errors = [one.headline for one in leaven.check(Source("r.leaven", recipe)).diagnostics if one.is_error]
    assert errors == []


@pytest.mark.parametrize("name", [name for name in IMAGES if KINDS[name].neutral is not None and name != "jpeg"])
def test_the_neutral_value_changes_nothing(photo: str, name: str) -> None:
    changed = edit(photo, **{name: KINDS[name].neutral}).value
    difference = np.abs(np.asarray(changed, dtype=int) - np.asarray(Image.open(photo), dtype=int))
    assert difference.max() <= (8 if name == "hue" else 0), "hue rounds colours"


def test_edits_are_applied_in_their_order(photo: str) -> None:
    one = edit(photo, pad=10, crop=0.5).value
    other = edit(photo, crop=0.5, pad=10).value
    assert one.size == (50, 40)
    assert other.size == (60, 50)


def test_an_edit_may_be_repeated(photo: str) -> None:
    changed = edit(edit(photo, pad=1), pad=2, grey=True)
    assert changed.value.size == (86, 66)
    assert changed.words == '"photo.png" padded by 1 px, padded by 2 px, in grey'
    assert changed.as_python() == "changed = edit(edit('photo.png', pad=1), pad=2, grey=True).value\n"
    assert _as_python_named(changed).tobytes() == changed.value.tobytes()


def _as_python_named(changed: Edited) -> Any:
    variables: dict[str, Any] = {"edit": edit}
    exec(changed.as_python(), variables)
    return variables["changed"]


def test_noise_is_the_same_with_the_same_seed_only(photo: str) -> None:
    one, again, other = (edit(photo, noise=(0.2, seed)).value.tobytes() for seed in (1, 1, 2))
    assert one == again != other


def test_transparency_stays_as_it_was(photo: str) -> None:
    image = Image.open(photo).convert("RGBA")
    image.putalpha(77)
    for name in ("brightness", "hue", "blur", "noise", "jpeg", "grey"):
        changed = edit(image, **{name: IMAGES[name]}).value
        assert changed.getchannel("A").getextrema() == (77, 77), name


def test_the_recipe_form_puts_transforms_of_tensors_last(photo: str) -> None:
    changed = edit(photo, noise=0.1, resolution=0.5, rotate=10)
    assert changed.as_recipe() == "random_rotation(10) -> to_tensor() -> gaussian_noise(sigma=0.1)"
    assert edit(photo, resolution=0.5).as_recipe() is None


def test_the_last_word_is_swapped_with_the_one_before() -> None:
    assert edit(TEXT, swap=5).value == edit(TEXT, swap=4).value == "This good movie long is."


def test_words_of_a_pair_are_counted_through_both_texts() -> None:
    pair = ("A man sleeps.", "Nobody is awake.")
    assert edit(pair, drop=5).value == ("A man sleeps.", "Nobody awake.")
    assert edit(pair, negate=True).value == ("A man sleeps.", "Nobody is not awake.")


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("It is good.", "It is not good."),
        ("It is not good.", "It is good."),
        ("It isn't good.", "It is good."),
        ("Can't you see?", "Can you see?"),
        ("They won’t come", "They will come"),
    ],
)
def test_negation_is_undone_where_there_is_one(text: str, negated: str) -> None:
    assert edit(text, negate=True).value == negated


@pytest.mark.parametrize(
    ("changes", "report"),
    [
        ({"brightnes": 0.5}, "there is no edit `brightnes`"),
        ({"brightness": "dark"}, "`brightness`: factor must be a number from 0 to 20, not 'dark'"),
        ({"brightness": float("nan")}, "`brightness`: factor must be a number from 0 to 20, not nan"),
        ({"pad": 1.5}, "`pad`: pixels must be a whole number from 0 to 4000, not 1.5"),
        ({"cover": 0.5}, "`cover` takes left, top, width, height, not 1 values"),
        ({"case": "camel"}, "`case`: letters must be lower, upper or title, not 'camel'"),
        ({"grey": True, "negate": True}, "`grey` changes images and `negate` texts"),
    ],
)
def test_what_can_not_be_edited_is_reported(changes: dict[str, Any], report: str) -> None:
    with pytest.raises(Failure) as failure:
        edit(TEXT, **changes)
    assert failure.value.headline.startswith(report)


@pytest.mark.parametrize(
    ("changes", "report"),
    [
        ({"replace": ("goo", "x")}, "the text has no “goo”"),
        ({"drop": 9}, "the text has no word 9"),
        ({"swap": "film"}, "the text has no word “film”"),
    ],
)
def test_words_that_are_not_there_are_reported(changes: dict[str, Any], report: str) -> None:
    with pytest.raises(Failure) as failure:
        _ = edit(TEXT, **changes).value
    assert failure.value.headline.startswith(report)


def test_json_from_elsewhere_is_checked() -> None:
    for data in (None, [], {"edit": 3}, {"edit": "pad"}, {"edit": "pad", "pixels": 1e9}, {"edit": "pad", "px": 1}):
        with pytest.raises(Failure):
            edit_from_json(data)
