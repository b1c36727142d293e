"""A look at a folder is a value, and so is the recipe that fits it."""

from pathlib import Path

import pytest
from PIL import Image

from leaven.first.options import NotUnderstood, TableOptions
from leaven.first.places import look_at
from leaven.first.recipes import first_recipe, suggested_models


def test_a_folder_of_images_is_looked_at_and_gets_a_recipe(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for at in range(15):
            Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / f"{at}.png")
    look = look_at(tmp_path / "photos", TableOptions())
    assert (look.noun, look.total) == ("images", 30)
    assert next(iter(suggested_models(look, scratch=False))) == "efficientnet_lite0"
    text = first_recipe(look, tmp_path / "a.leaven", "resnet18", None, scratch=False)
    assert text.startswith(
        '# 2 classes, 30 images: cat, dog.\nmodel resnet18(pretrained=true)\ndata  folder("photos")\n'
    )
    with pytest.raises(NotUnderstood, match="options about columns are for tables"):
        look_at(tmp_path / "photos", TableOptions(label="x"))


def test_names_of_classes_can_be_shown_in_a_terminal(tmp_path: Path) -> None:
    for name in ("\x1b[31mred", "blue\u202egreen"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / "0.png")
    look = look_at(tmp_path / "photos", TableOptions())
    text = first_recipe(look, tmp_path / "a.leaven", "resnet18", None, scratch=False)
    assert text.startswith("# 2 classes, 2 images: ␛[31mred, blue")
    assert text.replace("\n", "").isprintable()
