"""What happens to a picture where the recipe does not say."""

import textwrap
from pathlib import Path
from typing import Any

import timm
import torch
from torchvision.transforms import v2

import leaven
from leaven.bundle.source_code import Code, Sources
from leaven.bundle.steps import describe, rebuild
from leaven.catalog.values import Default
from leaven.language.source import Source

OWN = """
from torch import nn
from torch.utils.data import Dataset

class Spots(Dataset):
    classes = ("left", "right")

class Net(nn.Module):
    def __init__(self, classes): ...
"""


def steps_of(recipe: str, folder: Path = Path()) -> tuple[list[str], list[str]]:
    checked = leaven.check(Source("recipe.leaven", recipe, folder))
    assert checked.recipe is not None
    data = checked.recipe.data
    assert data.train is not None
    assert data.eval is not None
    return [step.card.friendly for step in data.train.stages], [step.card.friendly for step in data.eval.stages]


def test_pictures_become_numbers_before_they_are_normalised() -> None:
    _, steps = steps_of(
        "model conv(8) -> global_pool() -> linear(classes)\ndata digits() { eval normalize([0.5], [0.5]) }"
    )
    assert steps == ["to_tensor", "normalize"]


def test_normalisation_has_a_number_for_each_channel() -> None:
    checked = leaven.check(Source("recipe.leaven", "model resnet18(in_chans=1)\ndata digits() { eval resize(32) }"))
    assert checked.recipe is not None
    assert checked.recipe.data.eval is not None
    assert checked.recipe.data.eval.stages[-1].value("mean") == (0.449,)


def test_nobody_knows_whether_ones_own_data_may_be_mirrored(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    begin = 'import "mine.py" as mine\ndata mine.Spots()\n'
    train, eval = steps_of(begin + "model resnet18()", tmp_path)
    assert train == eval == ["resize", "center_crop", "to_tensor", "normalize"]
    train, eval = steps_of(begin + "model mine.Net()", tmp_path)
    assert train == eval == ["to_tensor"]
    checked = leaven.check(Source("recipe.leaven", begin + "model mine.Net()", tmp_path))
    assert checked.recipe is not None
    assert checked.recipe.data.eval is not None
    assert checked.recipe.data.eval.origin == Default("as they are in the data")


def resizing(recipe: str, folder: Path = Path()) -> list[list[tuple[str, object, object]]]:
    """What training and evaluation resize with: name, size and interpolation of each transform that takes one."""
    checked = leaven.check(Source("recipe.leaven", recipe, folder))
    assert checked.recipe is not None, checked.diagnostics
    data = checked.recipe.data
    assert data.train is not None
    assert data.eval is not None
    return [
        [
            (one.card.friendly, one.value("size"), how.value)
            for one in each.stages
            if (how := one.setting("interpolation"))
        ]
        for each in (data.train, data.eval)
    ]


FLOWERS = 'data torchvision.Flowers102("flowers") '


class TestInterpolation:
    def test_written_transforms_resize_as_the_model_was_trained(self) -> None:
        transforms = "{ train random_resized_crop(128); eval resize(144) -> center_crop(128) }"
        train, eval = resizing(f"model timm.resnet18()\n{FLOWERS}{transforms}")
        assert train == [("random_resized_crop", 128, "bicubic")]
        assert eval == [("resize", 144, "bicubic")]
        train, eval = resizing(f"model torchvision.resnet18()\n{FLOWERS}{transforms}")
        assert train == [("random_resized_crop", 128, "bilinear")]
        assert eval == [("resize", 144, "bilinear")]

    def test_unless_they_say_another(self) -> None:
        transforms = "{ train random_resized_crop(128, interpolation=nearest) }"
        train, eval = resizing(f"model timm.resnet18()\n{FLOWERS}{transforms}")
        assert train == [("random_resized_crop", 128, "nearest")]
        assert eval == [("resize", 134, "nearest")]  # its deterministic form: 128 / 0.95, the model's share

    def test_also_inside_of_others_but_not_where_nothing_is_resized(self) -> None:
        inside = "random_choice([resize(64), resize(64, interpolation=nearest)])"
        recipe = f"model timm.resnet18()\n{FLOWERS}{{ train {inside} -> random_rotation(9) -> center_crop(64) }}"
        checked = leaven.check(Source("recipe.leaven", recipe))
        assert checked.recipe is not None
        assert checked.recipe.data.train is not None
        choice, rotation, *_ = checked.recipe.data.train.stages
        assert [one.value("interpolation") for one in choice.value("transforms")] == ["bicubic", "nearest"]
        assert rotation.value("interpolation") == "nearest"  # torchvision's default

    def test_a_model_that_was_not_published_has_torchvisions(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(OWN)
        begin = 'import "mine.py" as mine\ndata mine.Spots() { eval resize([32, 32]) }\n'
        for model in ("mine.Net()", "conv(8) -> global_pool() -> linear(classes)"):
            assert resizing(f"{begin}model {model}", tmp_path)[1] == [("resize", (32, 32), "bilinear")]

    def test_models_that_were_trained_on_squashed_images_get_such(self) -> None:
        _, eval = resizing(f"model timm.efficientnet_b5()\n{FLOWERS}")
        assert eval == [("resize", (448, 448), "bicubic")]

    def test_programs_and_bundles_resize_as_timm_does(self, tmp_path: Path) -> None:
        """A generated program's evaluation transforms give the same tensor as timm's, and so does what is saved."""
        for name in ("efficientnet_lite0", "timm.resnet18", "timm.efficientnet_b5"):
            recipe = tmp_path / "recipe.leaven"
            recipe.write_text(f'model {name}()\ndata torchvision.Flowers102("flowers")')
            code = leaven.generate(recipe)
            block = code[code.index("eval_transform = T.Compose(") : code.index("dataset = ")]
            space: dict[str, Any] = {"T": v2, "torch": torch}
            exec(textwrap.dedent(f"    {block}"), space)
            ours = space["eval_transform"]
            told = timm.get_pretrained_cfg("tf_efficientnet_lite0" if "lite" in name else name.removeprefix("timm."))
            theirs = timm.data.create_transform(**timm.data.resolve_data_config({}, pretrained_cfg=told.to_dict()))
            noise = torch.rand(3, 7, 9, generator=torch.Generator().manual_seed(0))
            image = v2.functional.to_pil_image(v2.functional.resize(noise, [300, 400]))
            saved = rebuild(describe(ours, Sources()), Code({}, is_trusted=False, bundle="x"))
            assert saved is not None
            assert torch.allclose(ours(image), theirs(image), atol=1e-6)
            assert torch.equal(saved(image), ours(image))
