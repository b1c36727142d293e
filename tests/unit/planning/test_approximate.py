"""`exact=false` is printed as what it is: an approximation."""

from pathlib import Path

from PIL import Image

import leaven
from leaven.planning.explain import explain
from leaven.program.emit import emit
from leaven.program.standalone import standalone

RECIPE = "model resnet18()\ndata digits()\nfreeze all - head\ntrain epochs=2, cache=on"


def test_the_plan_says_that_it_is_approximate(tmp_path: Path) -> None:
    file = tmp_path / "recipe.leaven"
    file.write_text(f"{RECIPE}, exact=false")
    told = explain(leaven.make_plan(file))
    assert "frozen layers: run once per image, in the fastest way here; their outputs are stored" in told
    assert "`exact=false` asks for this approximation" in told
    alone = standalone(leaven.make_plan(file))
    file.write_text(RECIPE)
    assert alone == standalone(leaven.make_plan(file)), "a standalone program is always exact"


def test_files_that_become_smaller_are_decoded_at_a_smaller_size(tmp_path: Path) -> None:
    for name in ("ant", "bee"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (64, 64)).save(tmp_path / "photos" / name / f"{number}.jpg")
    file = tmp_path / "recipe.leaven"
    recipe = 'model conv(8) -> global_pool() -> linear(classes)\ndata folder("photos") {{ eval {} }}\ntrain exact=false'
    file.write_text(recipe.format("resize(16) -> center_crop(16)"))
    plan = leaven.make_plan(file)
    assert "images: decoded at a smaller size if they are JPEG, resized and cropped once, and stored" in explain(plan)
    assert emit(plan).count("exact=False)  # line 3") == 2
    file.write_text(recipe.format("center_crop(16)"))
    assert "exact=False" not in emit(leaven.make_plan(file))
