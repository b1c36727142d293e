"""Attribution points at what a model looks at, in images, texts and boxes; and it can be stopped."""

import json
from collections.abc import Callable
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torchvision.transforms import v2 as T

from leaven import bundle
from leaven.bundle import Bundle
from leaven.cli.main import leaven
from leaven.components.conv import Conv
from leaven.components.flatten import Flatten
from leaven.components.linear import Linear
from leaven.lab import attribute, occlusion
from leaven.lab.explained import ImageAttribution, TextAttribution
from leaven.runtime.failures import Failure
from leaven.tasks import detection, segmentation
from leaven.tasks.classification import Classes
from leaven.tasks.detection.target import Categories
from leaven.tasks.scored import number_of
from leaven.tasks.segmentation.target import MaskClasses
from leaven.terminal.colors import painter

SIDE, CORNER = 16, 4
SIGNS = ("rows", "columns", "squares")
METHODS = ("integrated_gradients", "gradient", "occlusion")


def drawn(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noise with a sign in the upper right corner, a sixteenth of the image, that says the class."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand((count, 3, SIDE, SIDE), generator=generator)
    classes = torch.randint(len(SIGNS), (count,), generator=generator)
    odd = torch.arange(CORNER) % 2
    signs = torch.stack([odd[:, None].expand(CORNER, CORNER), odd.expand(CORNER, CORNER), (odd[:, None] + odd) % 2])
    images[:, :, :CORNER, -CORNER:] = signs.float()[classes][:, None]
    return images, classes


def save_corner(file: Path, *, is_trained: bool) -> Path:
    """A bundle of a small net, with random weights or trained on such images with L1 regularisation."""
    parts: list[tuple[str, dict[str, Any]]] = [
        ("Conv", {"in_channels": 3, "channels": 8, "kernel": 3, "norm": False}),
        ("Conv", {"in_channels": 8, "channels": 16, "kernel": 4, "stride": 4, "norm": False}),
        ("Flatten", {}),
        ("Linear", {"in_channels": 16 * (SIDE // 4) ** 2, "features": len(SIGNS)}),
    ]
    torch.manual_seed(0)
    net = nn.Sequential(Conv(**parts[0][1]), Conv(**parts[1][1]), Flatten(), Linear(**parts[3][1]))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(250 if is_trained else 0):
        images, classes = drawn(64, step)
        size = sum((weight.abs().sum() for weight in net.parameters() if weight.ndim > 1), torch.zeros(()))
        (functional.cross_entropy(net(images), classes) + 0.002 * size).backward()
        optimizer.step()
        optimizer.zero_grad()
    if is_trained:
        images, classes = drawn(1000, 1000)
        assert (net(images).argmax(dim=1) == classes).float().mean() >= 0.99
    steps = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    built_by = bundle.Components(parts)
    example = Image.new("RGB", (SIDE, SIDE))
    return bundle.save(file, net, built_by=built_by, preprocess=steps, target=Classes(SIGNS), example=example)


@pytest.fixture(scope="module")
def corner(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return bundle.load(save_corner(tmp_path_factory.mktemp("corner") / "corner.bundle", is_trained=True))


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return bundle.load(save_corner(tmp_path_factory.mktemp("corner") / "random.bundle", is_trained=False))


def photo_of(image: Tensor) -> Image.Image:
    return Image.fromarray((image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def share_in_corner(model: Bundle, method: str, count: int = 10) -> float:
    """The mean share of the positive attribution that is in the corner."""
    shares = []
    for image in drawn(count, 2000)[0]:
        positive = attribute(model, photo_of(image), method=method).values.clip(min=0)
        shares.append(positive[:CORNER, -CORNER:].sum() / positive.sum())
    return float(np.mean(shares))


@pytest.mark.parametrize("method", METHODS)
def test_attribution_is_where_the_class_is_shown(corner: Bundle, untrained: Bundle, method: str) -> None:
    if method != "occlusion":
        pytest.importorskip("captum")
    assert share_in_corner(corner, method) >= 0.8
    assert share_in_corner(untrained, method) < 0.2


def test_the_model_is_the_same_to_the_last_bit_afterwards(corner: Bundle) -> None:
    pytest.importorskip("captum")
    photo = photo_of(drawn(1, 7)[0][0])
    before = corner(photo).probabilities.tobytes()
    for method in (*METHODS, "grad_cam"):
        attribute(corner, photo, method=method)
    next(occlusion(corner, photo))
    assert corner(photo).probabilities.tobytes() == before
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in corner.model.modules())
    assert not any(weight.requires_grad or weight.grad is not None for weight in corner.model.parameters())


def test_integrated_gradients_add_up_to_the_difference_of_scores(corner: Bundle) -> None:
    pytest.importorskip("captum")
    image = drawn(1, 8)[0][0]
    found = attribute(corner, photo_of(image), "rows")
    pixels = T.functional.to_dtype(T.functional.to_image(photo_of(image)), torch.float32, scale=True)[None]
    plain = pixels.mean(dim=(2, 3), keepdim=True).expand_as(pixels)
    with torch.no_grad():
        difference = float((corner.model(pixels) - corner.model(plain))[0, 0])
    assert found.target == "rows"
    assert found.values.sum() == pytest.approx(difference, abs=0.05 * abs(difference) + 0.05)


def test_occlusion_is_that_of_captum(corner: Bundle) -> None:
    captum = pytest.importorskip("captum.attr")
    photo = photo_of(drawn(1, 9)[0][0])
    found = attribute(corner, photo, "squares", "occlusion")
    given = corner.prepare(photo)[None]
    cells = torch.arange(SIDE) // 2
    patches = (cells[:, None] * 8 + cells)[None, None].expand_as(given)
    plain = given.mean(dim=(2, 3), keepdim=True).expand_as(given)
    with torch.no_grad():
        expected = captum.FeatureAblation(corner.model).attribute(
            given, baselines=plain, target=2, feature_mask=patches
        )
    assert np.allclose(found.values, expected[0, 0].numpy() / 4, atol=1e-5)


def test_occlusion_is_coarse_first_and_can_be_stopped(corner: Bundle) -> None:
    photo = photo_of(drawn(1, 10)[0][0])
    first, second = islice(occlusion(corner, photo), 2)
    assert len(np.unique(first.values)) == 4
    assert 4 < len(np.unique(second.values)) <= 4 + 8
    assert not first.is_final
    *_, last = occlusion(corner, photo)
    assert last.is_final


def test_a_target_can_be_chosen_and_is_checked(corner: Bundle) -> None:
    photo = photo_of(drawn(1, 11)[0][0])
    assert attribute(corner, photo, "columns", "occlusion").target == "columns"
    assert attribute(corner, photo, method="occlusion").target == corner(photo).label
    with pytest.raises(Failure, match="no output named colums"):
        attribute(corner, photo, "colums", "occlusion")
    with pytest.raises(Failure, match="no method magic"):
        attribute(corner, photo, method="magic")
    with pytest.raises(Failure, match="only `grad_cam` takes a layer"):
        attribute(corner, photo, method="occlusion", layer="head")


def test_one_of_the_names_of_a_class_is_enough_if_no_other_has_it() -> None:
    names = ("goldfish, Carassius auratus", "crane", "crane, lifting")
    assert number_of("goldfish", names) == 0
    assert number_of("crane", names) == 1
    with pytest.raises(Failure, match="no output named fish"):
        number_of("fish", names)


def test_grad_cam_takes_a_layer_that_is_a_map(corner: Bundle) -> None:
    pytest.importorskip("captum")
    photo = photo_of(drawn(1, 12)[0][0])
    assert attribute(corner, photo, method="grad_cam", layer="1").values.shape == (SIDE, SIDE)
    with pytest.raises(Failure, match="the output of 3 is not a map of the image"):
        attribute(corner, photo, method="grad_cam", layer="head")


def test_the_picture_has_the_crop_of_the_model(colours: Bundle, photo: str) -> None:
    found = attribute(colours, photo, method="occlusion")
    assert isinstance(found, ImageAttribution)
    assert found.crop == pytest.approx((4, 4, 36, 36), abs=0.5)  # resized to 20, the middle 16
    picture = np.asarray(Image.open(BytesIO(found.picture())))
    assert picture.shape == (40, 40, 3)
    inside = picture[10:30, 10:30].reshape(-1, 3).astype(int)
    assert (inside[:, 0] > inside[:, 2]).any()
    edge = picture[:3].reshape(-1, 3).astype(int)
    assert (edge[:, 0] == edge[:, 2]).all()
    told = json.loads(json.dumps(found.to_json()))
    assert (told["target"], len(told["map"]), told["final"]) == ("red", 16, True)


@pytest.mark.parametrize("method", METHODS)
def test_the_tokens_of_a_text(reviews_file: Path, method: str) -> None:
    if method != "occlusion":
        pytest.importorskip("captum")
    model = bundle.load(reviews_file)
    before = model("it was good").probabilities.tobytes()
    found = attribute(model, "it was good", "good", method)
    assert isinstance(found, TextAttribution)
    assert found.tokens == ("[CLS]", "it", "was", "good", "[SEP]")
    assert abs(found.values).max() > 0
    assert found.picture() is None
    assert [each["token"] for each in found.to_json()["tokens"]] == list(found.tokens)
    assert "\x1b[" in found.painted(painter(True))
    assert "(+1.00)" in found.painted(painter(False)) or "(-1.00)" in found.painted(painter(False))
    assert model("it was good").probabilities.tobytes() == before


def test_the_words_of_a_text_are_coloured_in_the_terminal(reviews_file: Path) -> None:
    result = CliRunner().invoke(leaven, ["why", str(reviews_file), "it was good", "--method", "occlusion"])
    assert result.exit_code == 0
    first, words = result.stdout.splitlines()
    assert first.startswith("reviews.bundle: ")
    assert "good" in words
    result = CliRunner().invoke(
        leaven, ["why", str(reviews_file), "it was good", "--method", "occlusion"], env={"FORCE_COLOR": "1"}, color=True
    )
    assert "\x1b[" in result.stdout


def test_a_box_is_explained_by_its_own_score() -> None:
    image = torch.rand((1, 3, 8, 8), requires_grad=True)
    boxes = torch.tensor([[0.0, 0, 4, 4], [4.0, 4, 8, 8], [0.0, 4, 4, 8]])
    scores = torch.stack([image[0, :, :4, :4].mean(), image[0, :, 4:, 4:].mean() + 1, image[0].mean()])
    found = [{"boxes": boxes, "labels": torch.tensor([1, 1, 2]), "scores": scores}]
    target = Categories(("cat", "dog"))
    second = detection.output_score(found, target, "cat 2")
    (gradient,) = torch.autograd.grad(second.each(found).sum(), image)
    assert second.name == "cat 2"
    assert gradient[0, :, :4, :4].count_nonzero() == 3 * 16
    assert gradient[0, :, 4:, :].count_nonzero() == 0
    assert detection.output_score(found, target, None).name == "cat"
    gone = [{name: each[:0] for name, each in found[0].items()}]
    assert second.each(gone).tolist() == [0.0]
    with pytest.raises(Failure, match="the model finds no dog 2"):
        detection.output_score(found, target, "dog 2")


def test_a_class_of_pixels_is_explained_where_it_is() -> None:
    logits = torch.zeros((1, 3, 4, 4))
    logits[0, 0] = 1
    logits[0, 2, :2] = 3
    target = MaskClasses(("background", "cat", "dog"))
    score = segmentation.output_score(logits, target, None)
    assert (score.name, score.each(logits).tolist()) == ("dog", [3.0])
    with pytest.raises(Failure, match="no pixel has the class cat"):
        segmentation.output_score(logits, target, "cat")


def test_without_captum_it_is_said_what_to_install(
    corner: Bundle, monkeypatch: pytest.MonkeyPatch, make_colours: Callable[..., Path]
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "captum.attr", None)
    photo = photo_of(drawn(1, 13)[0][0])
    with pytest.raises(Failure) as failure:
        attribute(corner, photo)
    assert "leaven[lab]" in failure.value.help
    assert attribute(corner, photo, method="occlusion").is_final
