"""Semantic segmentation: masks as they are stored and moved, models with decoders, and a model that learns."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
import torchvision
from PIL import Image, ImageDraw
from tests import at_work, copies_of_datasets
from tests.at_work import Moment
from torch import nn
from torch.utils.data import TensorDataset
from torchvision.transforms import v2 as T

from leaven import bundle, runtime
from leaven.formats.finding import BadSource
from leaven.formats.target import BadTarget
from leaven.runtime.data.places import Place
from leaven.runtime.failures import BadFile, Failure
from leaven.runtime.model.weights import read_weights
from leaven.sources.mask_folder import MaskFolder, read_classes
from leaven.sources.mask_pixels import Pair, look_at_masks
from leaven.tasks.segmentation.code import PixelLoss, Samples, fit_head
from leaven.tasks.segmentation.masks import NO_CLASS, as_target, read_mask
from leaven.tasks.segmentation.target import MaskClasses, MaskFile, MaskReader, read_target

CLASSES = MaskClasses(("background", "square", "disc"))
COLOURED = MaskClasses(("background", "road"), ((0, 0, 0), (128, 64, 128)))
NET = "conv(12) -> conv(12) -> conv(classes, kernel=1, norm=false, activation=none)"
RECIPE = f"""
model {NET}
data  mask_folder("shapes") {{ eval resize([24, 32]) }}
optimizer adamw(lr=1e-2)
train epochs=14, batch=8
"""


def shapes(folder: Path, count: int = 48) -> None:
    """Red squares and green discs, with their masks."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    (folder / "classes.txt").write_text("background\nsquare\ndisc\n")
    rng = np.random.default_rng(0)
    for number in range(count):
        image = Image.fromarray(rng.integers(90, 130, (24, 32, 3), np.uint8))
        mask = Image.new("L", (32, 24))
        x, y, side, kind = *rng.integers(0, 14, 2), int(rng.integers(7, 11)), 1 + number % 2
        for canvas, fill in ((image, ((200, 40, 40), (40, 200, 60))[kind - 1]), (mask, kind)):
            draw = ImageDraw.Draw(canvas)
            (draw.rectangle, draw.ellipse)[kind - 1]((int(x), int(y), int(x) + side, int(y) + side), fill=fill)
        image.save(folder / "images" / f"{number}.png")
        mask.save(folder / "masks" / f"{number}.png")


def stored(file: Path, pixels: object, mode: str = "L", target: MaskClasses = CLASSES) -> MaskFile:
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    if mode == "P":
        image = image.convert("P") if image.mode == "RGB" else Image.frombytes("P", image.size, image.tobytes())
        image.putpalette([10, 20, 30] * 256)
    image.save(file)
    return MaskFile(str(file), target)


# -- masks


@pytest.mark.parametrize("mode", ["L", "P"])
def test_numbers_are_classes_and_255_is_none(mode: str, tmp_path: Path) -> None:
    mask = stored(tmp_path / "m.png", [[0, 1], [2, 255]], mode)
    assert read_mask(mask).tolist() == [[0, 1], [2, NO_CLASS]]


def test_grey_masks_may_have_three_channels(tmp_path: Path) -> None:
    mask = stored(tmp_path / "m.png", [[[1, 1, 1], [2, 2, 2]]])
    assert read_mask(mask).tolist() == [[1, 2]]


def test_colours_are_classes(tmp_path: Path) -> None:
    pixels = [[[128, 64, 128], [0, 0, 0], [255, 255, 255]]]
    assert read_mask(stored(tmp_path / "m.png", pixels, target=COLOURED)).tolist() == [[1, 0, NO_CLASS]]


@pytest.mark.parametrize(
    ("pixels", "target", "told"),
    [
        ([[0, 7]], CLASSES, "the value 7, but there are only 3 classes"),
        ([[[1, 2, 3]]], CLASSES, "it is not known which class each means"),
        ([[[1, 2, 3]]], COLOURED, r"the colour \(1, 2, 3\), which is not that of a class"),
        ([[0, 1]], CLASSES, "the mask is 2×1 pixels, but its image is 3×1"),
    ],
)
def test_masks_that_make_no_sense(pixels: object, target: MaskClasses, told: str, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=told):
        read_mask(stored(tmp_path / "m.png", pixels, target=target), (3, 1) if "3×1" in told else None)


def test_classes_are_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "classes.txt"
    file.write_text("background\nside walk\n\n")
    assert read_classes(file) == [("background", None), ("side walk", None)]
    file.write_text("name,r,g,b\nroad,128,64,128\nside walk 1 2 3\ncar #00008e\n")
    assert read_classes(file) == [("road", (128, 64, 128)), ("side walk", (1, 2, 3)), ("car", (0, 0, 142))]
    file.write_text("road,1,2\n")
    with pytest.raises(ValueError, match="is not a name with a colour"):
        read_classes(file)


@pytest.mark.parametrize("text", ["a\n\nb\n", "a\n# remark\nb\n", "name\na\nb\n"])
def test_a_line_that_might_shift_the_classes_is_refused(text: str, tmp_path: Path) -> None:
    """Some tools count such lines as classes, and others do not."""
    file = tmp_path / "classes.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match="remove it"):
        read_classes(file)


# -- before training


def masked(folder: Path, masks: Mapping[str, object], size: tuple[int, int] = (2, 1)) -> MaskFolder:
    for name, pixels in masks.items():
        for place in ("images", "masks"):
            (folder / place).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(folder / "images" / f"{name}.png")
        stored(folder / "masks" / f"{name}.png", pixels)
    return MaskFolder(folder, "roads", ("background", "square", "disc"))


def test_masks_without_any_class_are_an_error(tmp_path: Path) -> None:
    source = masked(tmp_path, {"1": [[255, 255]], "2": [[255, 255]]})
    (finding,) = source.look().findings
    assert finding.is_error
    assert "no mask has a pixel with a class: all are 255" in finding.fact
    with pytest.raises(BadSource, match="no mask has a pixel with a class"):
        source.open()


def test_classes_that_no_mask_has_are_reported(tmp_path: Path) -> None:
    (finding,) = masked(tmp_path / "a", {"1": [[0, 2]]}).open().findings
    assert (finding.is_error, finding.fact) == (False, "training has no pixels of the class `square`")
    (finding,) = masked(tmp_path / "b", {"1": [[0, 255]], "2": [[0, 1]]}).look().findings
    assert "`disc 255 255 255`" in finding.help, "white objects are the most common masks"


@pytest.mark.parametrize(
    ("pixels", "size", "told"),
    [([[0, 9]], (2, 1), "the value 9"), ([[0, 1]], (3, 1), "its image is 3×1"), ([[[1, 2, 3]] * 2], (2, 1), "colours")],
)
def test_a_check_looks_at_masks(pixels: object, size: tuple[int, int], told: str, tmp_path: Path) -> None:
    masked(tmp_path, {"2": [[0, 1]], "3": [[1, 2]]})
    source = masked(tmp_path, {"1": pixels}, size)
    (finding,) = source.look().findings
    assert finding.is_error
    assert finding.id == "wrong-mask"
    assert told in finding.fact
    skipping = source._replace(on_bad_file="skip")
    assert not any(finding.is_error for finding in skipping.look().findings)
    assert len(skipping.open().files) == 2


def test_of_a_large_folder_a_check_looks_at_a_few_masks(tmp_path: Path) -> None:
    pairs = [Pair(str(number), str(number)) for number in range(1000)]
    assert len(look_at_masks(pairs, CLASSES, 32, 10**6)) == 32
    with pytest.raises(BadSource, match="can't be used"):
        masked(tmp_path, {"1": [[0, 7]], "2": [[0, 7]]})._replace(on_bad_file="skip").open()


# -- masks in memory


@pytest.mark.parametrize("as_mask", [np.asarray, torch.from_numpy, Image.fromarray, lambda mask: mask[None]])
def test_masks_may_be_in_memory(as_mask: Callable[[np.ndarray], object]) -> None:
    mask = np.array([[0, 2], [255, 1]], np.uint8)
    value = CLASSES.value(as_mask(mask))
    assert read_mask(value, (2, 2)).tolist() == [[0, 2], [NO_CLASS, 1]]


@pytest.mark.parametrize("given", [torch.zeros(2, 2), np.zeros((2, 2, 3), np.uint8), 3, [[0, 1]]])
def test_what_is_not_a_mask_is_refused(given: object) -> None:
    with pytest.raises(BadTarget, match="in place of its mask"):
        CLASSES.value(given)


def test_a_users_dataset_of_masks(tmp_path: Path) -> None:
    images, masks = torch.zeros(4, 3, 6, 8, dtype=torch.uint8), torch.zeros(4, 6, 8, dtype=torch.int64)
    masks[3, 0, 0] = 7
    mine: Any = TensorDataset(images, masks)
    mine.classes = ["background", "square", "disc"]
    dataset = runtime.user_dataset(mine, target=MaskReader())
    assert dataset.target.names == CLASSES.names
    split = runtime.split(dataset, train=100, val=0, test=0, seed=0)
    data = runtime.Data(
        dataset, split, train_transform=None, eval_transform=None, batch_size=4, seed=0, samples=Samples()
    )
    with pytest.raises(BadFile, match=r"sample 3 of TensorDataset can't be read: the mask has the value 7"):
        list(data.train.batches(0))


def test_a_target_survives_being_stored() -> None:
    for target in (CLASSES, COLOURED):
        assert read_target(target.to_json()) == target


# -- moved with the image


def test_masks_are_moved_with_their_images(tmp_path: Path) -> None:
    pixels = np.zeros((8, 10), np.uint8)
    pixels[1:4, 6:9] = 2
    image = Image.fromarray(np.stack([pixels * 100] * 3, axis=-1))
    transform = T.Compose([T.RandomHorizontalFlip(1.0), T.Pad(2), T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    made, mask = transform(*Samples().given(image, stored(tmp_path / "m.png", pixels)))
    target = as_target(mask)
    assert ((target == 2) == (made[0] > 0.5)).all()
    assert (target[:2] == NO_CLASS).all(), "what padding adds has no class"


def test_outputs_get_back_to_the_size_of_the_image() -> None:
    logits = torch.zeros(1, 2, 4, 4)
    logits[:, 0, :, :2] = logits[:, 1, :, 2:] = 5.0
    (whole,) = Samples().placed(logits, [Place((16, 8), (4.0, 2.0))])
    assert whole.shape == (8, 16)
    assert whole[:, 8:].all()
    assert not whole[:, :8].any()
    (cropped,) = Samples().placed({"out": logits}, [Place((8, 4), (1.0, 1.0), (2.0, 0.0))])
    assert cropped[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


# -- models


@pytest.mark.parametrize("name", ["resnet18", "test_efficientnet", "test_vit", "test_convnext"])
def test_a_model_of_timm_gets_a_decoder(name: str) -> None:
    model = timm.create_model(name)
    before = set(model.state_dict())
    fit_head(model, 5)
    assert model.eval()(torch.zeros(1, 3, *model.pretrained_cfg["input_size"][1:])).shape[1] == 5
    added = set(model.state_dict()) - before
    assert {key.partition(".")[0] for key in added} == {"decoder"}
    model.train()(torch.rand(2, 3, *model.pretrained_cfg["input_size"][1:])).sum().backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("name", ["lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large"])
def test_a_model_of_torchvision_gets_new_last_layers(name: str) -> None:
    more = {"aux_loss": True} if "deeplab" in name else {}
    model = getattr(torchvision.models.segmentation, name)(weights_backbone=None, **more).eval()
    fit_head(model, 4)
    outputs = model(torch.zeros(1, 3, 32, 32))
    assert {key: value.shape for key, value in outputs.items()} == dict.fromkeys(outputs, (1, 4, 32, 32))
    assert ("aux" in outputs) == bool(more)


def test_auxiliary_outputs_count_in_training_only() -> None:
    loss, targets = PixelLoss(nn.CrossEntropyLoss(), auxiliary=0.5), torch.zeros(1, 2, 2, dtype=torch.int64)
    outputs: Mapping[str, torch.Tensor] = {"out": torch.zeros(1, 2, 2, 2), "aux": torch.zeros(1, 2, 2, 2)}
    assert float(loss(outputs, targets)) == pytest.approx(1.5 * np.log(2))
    with torch.no_grad():
        assert float(loss(outputs, targets)) == pytest.approx(np.log(2))


def test_dice_is_zero_where_areas_are_the_same_and_ignores_pixels_without_a_class() -> None:
    targets = torch.tensor([[[0, 1], [1, NO_CLASS]]])
    logits = nn.functional.one_hot(targets.clamp(min=0), 2).movedim(-1, 1) * 50.0
    loss = runtime.DiceLoss(cross_entropy=0)
    assert float(loss(logits, targets)) == pytest.approx(0, abs=1e-4)
    logits[0, :, 1, 1] = torch.tensor([-50.0, 50.0])
    assert float(loss(logits, targets)) == pytest.approx(0, abs=1e-4)
    assert float(loss(-logits, targets)) > 0.5


# -- from a recipe to predictions


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> bundle.Bundle:
    folder = tmp_path_factory.mktemp("segmentation")
    shapes(folder / "shapes")
    at_work.run(at_work.program(folder, RECIPE))
    (file,) = folder.glob("runs/*/*/model.bundle")
    return bundle.load(file)


def test_it_learns(trained: bundle.Bundle) -> None:
    found = trained.evaluate(trained.path.parents[3] / "shapes")
    assert found.scores["iou"] > 0.85
    assert min(scores["iou"] for scores in found.per_class.values()) > 0.7


def test_a_prediction_has_the_size_of_its_image_and_can_be_drawn(trained: bundle.Bundle) -> None:
    photo = Image.open(trained.path.parents[3] / "shapes/images/0.png").convert("RGB").resize((64, 48))
    said = trained(photo)
    assert said.mask.shape == (48, 64)
    assert sum(said.shares.values()) == pytest.approx(1)
    drawn = said.drawn(photo)
    assert drawn.height > photo.height, "there is a legend below it"
    pixels = np.asarray(drawn)[:48, :64]
    assert (pixels[said.mask == 0] == np.asarray(photo)[said.mask == 0]).all(), "the background is left as it is"


def test_killed_and_resumed_it_ends_with_the_same_weights(trained: bundle.Bundle, tmp_path: Path) -> None:
    shapes(tmp_path / "shapes")
    program = at_work.program(tmp_path, RECIPE)
    at_work.kill(program, at=Moment(file="last.ckpt", time=2))
    (run,) = (tmp_path / "runs/recipe").iterdir()
    at_work.run(program, "--resume", str(run))
    one, other = read_weights(trained.path), read_weights(run / "model.bundle")
    assert [key for key in one if not torch.equal(one[key], other[key])] == []


def test_a_bad_mask_stops_a_run_or_is_skipped(tmp_path: Path) -> None:
    shapes(tmp_path / "shapes")
    Image.new("L", (32, 24), 9).save(tmp_path / "shapes/masks/3.png")
    recipe = RECIPE.replace("epochs=14", "epochs=1").replace("eval", "split train=90%, val=10%, test=0%\n eval")
    running = at_work.start(at_work.program(tmp_path, recipe))
    assert running.end() == 1
    assert "3.png` can't be used: the mask has the value 9, but there are only 3 classes, from 0" in running.said
    skipping = at_work.program(tmp_path, recipe.replace("eval", "on_bad_file skip\n eval"), "skipping")
    assert "saved " in at_work.run(skipping).said


def test_the_trimaps_of_the_pets_are_masks(tmp_path: Path) -> None:
    copies_of_datasets.oxford_pets(tmp_path / "pets")
    recipe = (
        f'model {NET}\ndata oxford_pets("pets", masks=trimaps) {{ eval resize([16, 16]) }}\ntrain epochs=1, batch=4\n'
    )
    at_work.run(at_work.program(tmp_path, recipe), "--quick")
    (file,) = tmp_path.glob("runs/*/*/model.bundle")
    assert bundle.load(file).target.names == ("background", "pet")
    dataset = runtime.oxford_pets(tmp_path / "pets", masks="trimaps")
    assert dataset.values is not None
    assert set(np.unique(read_mask(dataset.values[0])).tolist()) == {NO_CLASS, 0, 1}


def test_layouts_with_splits(tmp_path: Path) -> None:
    shapes(tmp_path / "a/train", 4)
    shapes(tmp_path / "a/val", 2)
    (tmp_path / "a/classes.txt").write_text("background\nsquare\ndisc\n")
    found = runtime.mask_folder(tmp_path / "a")
    assert {split: len(there) for split, there in found.predefined.items()} == {"train": 4, "val": 2}
    for kind in ("images", "masks"):
        for split in ("train", "val"):
            (tmp_path / "b" / kind).mkdir(parents=True, exist_ok=True)
            (tmp_path / "a" / split / kind).rename(tmp_path / "b" / kind / split)
    found = runtime.mask_folder(tmp_path / "b", classes=["rest", "square", "disc"])
    assert {split: len(there) for split, there in found.predefined.items()} == {"train": 4, "val": 2}
    with pytest.raises(Failure, match="are not named"):
        runtime.mask_folder(tmp_path / "b")


@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss(), runtime.DiceLoss()])
def test_a_batch_without_any_class_has_no_loss_and_no_gradient(criterion: nn.Module) -> None:
    logits = torch.randn(2, 3, 4, 4, requires_grad=True)
    loss = PixelLoss(criterion)(logits, torch.full((2, 4, 4), -100))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert logits.grad.eq(0).all()
