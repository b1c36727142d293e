"""Detection: boxes and masks that move with the image, fitted heads, average precision, predictions that are drawn."""

import contextlib
import io
import multiprocessing
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests import at_work, shapes
from torch import nn
from torchvision.models import detection as detectors
from torchvision.ops.misc import FrozenBatchNorm2d
from torchvision.transforms import v2 as T

from leaven import runtime
from leaven.cli.bundle import draw_predictions
from leaven.formats.target import BadTarget
from leaven.pictures.objects import Mark, draw_objects
from leaven.runtime.data.places import Place
from leaven.runtime.data.splits import SplitIndices
from leaven.runtime.failures import BadSample, Caution, Failure
from leaven.runtime.model.weights import read_weights
from leaven.tasks import detection, instances
from leaven.tasks.detection.evaluation import Tally
from leaven.tasks.detection.heads import _use_plain_norms, fit_head, predictors
from leaven.tasks.detection.metrics import MeanAP, compared
from leaven.tasks.detection.target import Categories, Object, Objects
from leaven.tasks.instances.masks import bitmap, pasted
from leaven.tasks.instances.target import MaskedCategories

TARGET = Categories(("square", "ball"))
PHOTO = Image.new("RGB", (40, 30))
VALUE = Objects((Object(1, (4.0, 5.0, 14.0, 25.0)), Object(0, (20.0, 0.0, 30.0, 10.0), is_crowd=True)))
TENSOR = [T.ToImage(), T.ToDtype(torch.float32, scale=True)]


class TestSamples:
    def test_boxes_are_mirrored_with_the_image(self) -> None:
        samples = detection.Samples()
        moved = T.Compose([T.RandomHorizontalFlip(1.0), *TENSOR])(*samples.given(PHOTO, VALUE))
        (target,) = samples.targets([moved[1:]], [VALUE])
        assert target["boxes"].tolist() == [[26.0, 5.0, 36.0, 25.0]]
        assert target["labels"].tolist() == [2], "0 is the background"
        assert target["crowd_boxes"].tolist() == [[10.0, 0.0, 20.0, 10.0]]
        assert all(type(value) is torch.Tensor for value in target.values())

    def test_masks_are_mirrored_with_the_image(self) -> None:
        samples = instances.Samples()
        corner = Objects((Object(0, (0.0, 0.0, 10.0, 10.0), ((0.0, 0.0, 9.0, 0.0, 9.0, 9.0, 0.0, 9.0),)),))
        moved = T.Compose([T.RandomHorizontalFlip(1.0), *TENSOR])(*samples.given(PHOTO, corner))
        (target,) = samples.targets([moved[1:]], [corner])
        assert target["masks"].shape == (1, 30, 40)
        assert target["masks"][0, :10, 30:].all()
        assert target["masks"].sum() == 100

    def test_what_a_crop_leaves_nothing_of_is_left_out(self) -> None:
        samples = detection.Samples()
        moved = T.Compose([T.CenterCrop((30, 8)), *TENSOR])(*samples.given(PHOTO, VALUE))
        (target,) = samples.targets([moved[1:]], [VALUE])
        assert target["boxes"].shape == (0, 4)
        assert target["labels"].shape == (0,)

    def test_relative_boxes_become_pixels(self) -> None:
        _, target = detection.Samples().given(PHOTO, Objects((Object(0, (0.25, 0.5, 0.5, 1.0)),), is_relative=True))
        assert target["boxes"].tolist() == [[10.0, 15.0, 20.0, 30.0]]

    @pytest.mark.parametrize("box", [(50.0, 5.0, 60.0, 15.0), (30.0, 5.0, 44.0, 15.0), (-3.0, 5.0, 10.0, 15.0)])
    def test_a_box_outside_of_its_image_is_reported(self, box: Any) -> None:
        with pytest.raises(BadSample, match="outside of an image of 40×30"):
            detection.Samples().given(PHOTO, Objects((Object(0, box),)))

    def test_a_box_that_is_rounded_is_not_outside(self) -> None:
        _, target = detection.Samples().given(PHOTO, Objects((Object(0, (-0.5, 5.0, 41.0, 15.0)),)))
        assert len(target["boxes"]) == 1

    @pytest.mark.parametrize(
        ("mask", "told"),
        [
            (None, "an object without a mask"),
            (np.ones((40, 30)), "a mask of 30×40 pixels, but its image is 40×30"),
            ((30, 40, (1, 2, 3)), "a mask that can't be read: its run lengths add up to 6, but it has 1200 pixels"),
        ],
    )
    def test_a_mask_that_makes_no_sense_is_reported(self, mask: Any, told: str) -> None:
        with pytest.raises(BadSample, match=told):
            instances.Samples().given(PHOTO, Objects((Object(0, (0.0, 0.0, 10.0, 10.0), mask),)))

    def test_a_sample_is_drawn_with_its_boxes(self) -> None:
        samples = detection.Samples()
        (target,) = samples.targets([samples.given(PHOTO, VALUE)[1:]], [VALUE])
        pixels = np.full((30, 40, 3), 255, dtype=np.uint8)
        shown = samples.shown(pixels, target, TARGET)
        assert shown.shape == pixels.shape
        assert (shown[15, 4] != 255).any(), "the left edge of the box"
        assert samples.caption(target, TARGET) == "1 ball"


MODELS = [
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "fasterrcnn_resnet50_fpn_v2",
    "retinanet_resnet50_fpn",
    "fcos_resnet50_fpn",
    "ssd300_vgg16",
    "ssdlite320_mobilenet_v3_large",
    "maskrcnn_resnet50_fpn",
]


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_head_is_that_of_a_model_with_so_many_classes(name: str) -> None:
    with torch.device("meta"):
        build = getattr(detectors, name)
        fitted, wanted = build(weights_backbone=None), build(weights_backbone=None, num_classes=4)
        fit_head(fitted, 3)
    shapes = {key: value.shape for key, value in wanted.state_dict().items()}
    assert {key: value.shape for key, value in fitted.state_dict().items()} == shapes
    assert [path for path, _ in predictors(fitted)] == [path for path, _ in predictors(wanted)]


def test_other_models_have_no_head_to_fit() -> None:
    with pytest.raises(Exception, match="not one of torchvision's detectors"):
        fit_head(nn.Linear(2, 2), 3)


def test_frozen_norms_become_ordinary_ones_with_the_same_outputs() -> None:
    frozen = FrozenBatchNorm2d(3, eps=0.0)
    for name, low in (("weight", 0.5), ("bias", -1.0), ("running_mean", -1.0), ("running_var", 0.1)):
        getattr(frozen, name).copy_(torch.rand(3) + low)
    model = nn.Sequential(frozen, nn.ReLU())
    images = torch.randn(2, 3, 4, 4)
    before = model(images)
    _use_plain_norms(model)
    assert type(model[0]) is nn.BatchNorm2d
    torch.testing.assert_close(model.eval()(images), before)


def random_objects(count: int, size: float = 60) -> torch.Tensor:
    corners = torch.rand(count, 2) * size
    return torch.cat([corners, corners + 8 + torch.rand(count, 2) * 20], dim=1)


def made_results(images: int) -> tuple[list[dict[str, torch.Tensor]], list[dict[str, torch.Tensor]]]:
    """What is there, and what was found: near it, wrong or missed."""
    torch.manual_seed(0)
    found, there = [], []
    for _ in range(images):
        boxes, labels = random_objects(4), torch.randint(1, 4, (4,))
        near = boxes[:3] + torch.randn(3, 4) * 2
        more = random_objects(2)
        found.append(
            {
                "boxes": torch.cat([near, more]),
                "labels": torch.cat([labels[:3], torch.randint(1, 4, (2,))]),
                "scores": torch.rand(5),
            }
        )
        crowds = random_objects(1)
        there.append({"boxes": boxes, "labels": labels, "crowd_boxes": crowds, "crowd_labels": labels[:1]})
    return found, there


def by_pycocotools(found: list[dict[str, Any]], there: list[dict[str, Any]]) -> np.ndarray:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, results = COCO(), []
    annotations: list[dict[str, Any]] = []
    for image, (predicted, actual) in enumerate(zip(found, there, strict=True), 1):
        for prefix in ("", "crowd_"):
            pairs = zip(actual[f"{prefix}boxes"].tolist(), actual[f"{prefix}labels"].tolist(), strict=True)
            for (left, top, right, bottom), label in pairs:
                box = [left, top, right - left, bottom - top]
                one = {"id": len(annotations) + 1, "image_id": image, "category_id": label, "bbox": box}
                annotations.append({**one, "area": box[2] * box[3], "iscrowd": int(bool(prefix))})
        each = zip(*(predicted[name].tolist() for name in ("boxes", "labels", "scores")), strict=True)
        for (left, top, right, bottom), label, score in each:
            box = [left, top, right - left, bottom - top]
            results.append({"image_id": image, "category_id": label, "bbox": box, "score": score})
    truth.dataset = {
        "images": [{"id": image} for image in range(1, len(found) + 1)],
        "categories": [{"id": label} for label in (1, 2, 3)],
        "annotations": annotations,
    }
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        measured = COCOeval(truth, truth.loadRes(results), "bbox")
        measured.evaluate()
        measured.accumulate()
        measured.summarize()
    return np.asarray(measured.stats)


def test_average_precision_is_that_of_pycocotools() -> None:
    found, there = made_results(12)
    metric = MeanAP()
    metric.update(*compared(found, there))
    ours, theirs = metric.compute(), by_pycocotools(found, there)
    assert 0.2 < float(ours["map_50"]) < 0.95
    assert [float(ours[name]) for name in ("map", "map_50", "map_75", "mar_100")] == pytest.approx(
        theirs[[0, 1, 2, 8]].tolist(), abs=1e-6
    )


def measure_a_share(rank: int, count: int, file: str, answer: Any) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    found, there = compared(*made_results(3))
    metric, own = MeanAP(), slice(0, count) if rank == 0 else slice(count, 3)
    if found[own]:
        metric.update(found[own], there[own])
    answer.put(float(metric.compute()["map"]))


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("count", [2, 3], ids=["two images and one", "three and none"])
def test_processes_with_different_numbers_of_images_measure_all_of_them(count: int, tmp_path: Path) -> None:
    metric, fork = MeanAP(), multiprocessing.get_context("fork")
    metric.update(*compared(*made_results(3)))
    answer = fork.SimpleQueue()
    processes = [
        fork.Process(target=measure_a_share, args=(rank, count, str(tmp_path / "meet"), answer), daemon=True)
        for rank in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert [answer.get(), answer.get()] == [pytest.approx(float(metric.compute()["map"]))] * 2


def test_an_evaluation_has_the_same_precision_and_that_of_each_category() -> None:
    found, there = made_results(12)
    target = Categories(("a", "b", "c"))
    tally = Tally(target)
    for number, (output, actual) in enumerate(zip(found, there, strict=True)):
        single = zip(actual["boxes"].tolist(), actual["labels"].tolist(), strict=True)
        crowds = zip(actual["crowd_boxes"].tolist(), actual["crowd_labels"].tolist(), strict=True)
        objects = [Object(label - 1, tuple(box)) for box, label in single]
        objects += [Object(label - 1, tuple(box), is_crowd=True) for box, label in crowds]
        tally.add([{**output, "size": (100, 100)}], [Objects(tuple(objects))], [f"{number}.png"])
    measured = tally.result(())
    assert measured.count == 12
    assert measured.scores["map"] == pytest.approx(by_pycocotools(found, there)[0], abs=1e-6)
    mean = sum(one["ap"] for one in measured.per_category.values()) / 3
    assert mean == pytest.approx(measured.scores["map"], abs=1e-6)
    assert sum(one["count"] for one in measured.per_category.values()) == 48
    assert "AP@50" in str(measured)


def outputs(**more: Any) -> dict[str, Any]:
    boxes = torch.tensor([[4.0, 5.0, 14.0, 25.0], [20.0, 2.0, 30.0, 12.0]])
    return {"boxes": boxes, "labels": torch.tensor([2, 1]), "scores": torch.tensor([0.4, 0.9]), **more}


class TestPrediction:
    def test_it_tells_what_is_certain_enough_in_the_pixels_of_the_photo(self) -> None:
        place = Place((80, 60), scale=(2.0, 2.0))
        (found,) = detection.predictions(detection.Samples().placed([outputs()], [place]), TARGET)
        assert [(one.label, one.box) for one in found] == [("square", (40.0, 4.0, 60.0, 24.0))]
        assert found.counts == {"square": 1}
        assert [one.label for one in found.every] == ["square", "ball"]
        assert found.to_json(9)["objects"][0]["box"] == [40.0, 4.0, 60.0, 24.0]
        assert repr(found) == "<Prediction: 1 square>"
        assert found.describe(5) == "square   90.0 %  40, 4 to 60, 24"
        assert found.rows(5)[0]["label"] == "square"
        assert found.above_threshold(0.3).counts == {"square": 1, "ball": 1}
        assert tuple(found.rows(5)[0]) == found.columns, "also where nothing is found"

    def test_it_is_drawn_on_the_photo(self) -> None:
        (found,) = detection.predictions([outputs(size=(40, 30))], TARGET)
        drawn = found.drawn(Image.new("RGB", (40, 30), "white"))
        assert drawn.size == (40, 30)
        assert drawn.getpixel((29, 10)) != (255, 255, 255)

    def test_masks_are_pasted_where_they_belong(self) -> None:
        masks = torch.zeros(2, 1, 15, 20)
        masks[0, 0, :5, :5] = 0.9
        place = Place((50, 40), scale=(2.0, 2.0), shift=(10.0, 10.0))
        found = pasted(masks, place)
        assert found.shape == (2, 40, 50)
        assert found[0, 11:18, 11:18].all()
        assert not found[0, :10].any()
        placed = instances.Samples().placed([outputs(masks=masks)], [place])
        (prediction,) = detection.predictions(placed, MaskedCategories(TARGET.names))
        assert prediction.every[1].mask is not None
        assert "area" in prediction.to_json(9)["objects"][0]


def test_images_of_the_same_name_are_all_drawn(tmp_path: Path) -> None:
    files = [tmp_path / folder / "1.png" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        PHOTO.save(file)
    empty = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)}
    nothing = {**empty, "size": PHOTO.size}
    found = detection.predictions([nothing, nothing], TARGET)
    draw_predictions(tmp_path / "found", list(zip(map(str, files), found, strict=True)), is_one=False)
    assert sorted(file.name for file in (tmp_path / "found").iterdir()) == ["1-2.png", "1.png"]


def test_run_lengths_become_pixels() -> None:
    mask = bitmap((2, 3, (1, 2, 3)), 3, 2)  # COCO counts down the columns
    assert mask.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_objects_without_masks_are_refused_where_masks_are_predicted(tmp_path: Path) -> None:
    target = MaskedCategories(TARGET.names)
    with pytest.raises(BadTarget, match="has an object without a mask"):
        target.value({"boxes": torch.tensor([[1, 2, 3, 4]]), "labels": torch.tensor([1])})
    shapes.write_voc(tmp_path / "voc", 2)
    with pytest.raises(Failure, match="no masks"):
        instances.folder(tmp_path / "voc", target, ())


def test_a_target_takes_what_torchvision_has() -> None:
    value = TARGET.value({"boxes": torch.tensor([[1, 2, 3, 4]]), "labels": torch.tensor([1])})
    assert value == Objects((Object(1, (1.0, 2.0, 3.0, 4.0)),))
    assert TARGET.value(TARGET.plain(VALUE)) == VALUE


@pytest.mark.parametrize("box", [[30, 20, 10, 40], [1, 2, 1, 4], [1, 2, float("nan"), 4]])
def test_a_box_of_no_size_is_refused(box: list[float]) -> None:
    """Such as one with a width and a height, as COCO has it, in place of the right and bottom."""
    with pytest.raises(BadTarget) as caught:
        TARGET.value({"boxes": [box], "labels": [1]})
    assert "which has no size" in caught.value.fact


def test_labels_of_boxes_that_overlap_do_not() -> None:
    """Red and green ones are both readable, although their boxes begin at nearly the same place."""
    marks = [Mark((20, 60, 90, 110), "first", 0), Mark((22, 61, 92, 112), "second", 1)]
    plain = np.asarray(draw_objects(Image.new("RGB", (160, 120), "white"), [replace(one, text="") for one in marks]))
    alone = [np.asarray(draw_objects(Image.new("RGB", (160, 120), "white"), [one])) for one in marks]
    both = np.asarray(draw_objects(Image.new("RGB", (160, 120), "white"), marks))
    color = [tuple(image[70, 20 + 2 * at]) for at, image in enumerate(alone)]
    for one in color:
        assert ((both == one).all(axis=-1) & ~(plain == one).all(axis=-1)).sum() > 100


def test_a_model_is_measured_by_the_names_of_categories(tmp_path: Path) -> None:
    """Other files may number them in another order, and have some that the model has not learned."""
    shapes.write_coco(tmp_path, 4)
    model = Categories((*reversed(shapes.NAMES), "cup"))
    found = detection.folder(tmp_path / "boxes.json", model, ())
    assert found.target is model
    there = [model.names[one.category] for value in found.values or () for one in value.each]
    assert there == [shapes.NAMES[kind] for number in range(4) for kind, _ in shapes.shapes(number)[1]]
    with pytest.warns(Caution, match="does not know the categories square"):
        found = detection.folder(tmp_path, Categories(("ball",)), ())
    assert {one.category for value in found.values or () for one in value.each} == {0}


TINY = """
from torch import nn
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.ops import MultiScaleRoIAlign


def detector(num_classes: int) -> nn.Module:
    body = nn.Sequential(nn.Conv2d(3, 8, 3, 4, 1), nn.BatchNorm2d(8), nn.ReLU())
    body.out_channels = 8
    return FasterRCNN(
        body,
        rpn_anchor_generator=AnchorGenerator(sizes=((12, 24),), aspect_ratios=((1.0,),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 3, 2),
        box_head=TwoMLPHead(72, 16),
        box_predictor=FastRCNNPredictor(16, num_classes + 1),
        min_size=48,
        max_size=48,
        rpn_post_nms_top_n_train=20,
        rpn_post_nms_top_n_test=20,
        box_batch_size_per_image=16,
    )
"""
RECIPE = """
import "tiny.py" as tiny
model tiny.detector()
data  coco("photos/images", "photos/boxes.json")
train epochs=2, batch=2, accumulate=2
"""


def test_boxes_keep_their_precision_where_the_model_trains_with_half_of_it(tmp_path: Path) -> None:
    shapes.write_coco(tmp_path / "photos", 10)
    (tmp_path / "tiny.py").write_text(TINY)
    at_work.run(at_work.program(tmp_path, RECIPE.replace("accumulate=2", "precision=bf16")), "--quick")
    assert list(tmp_path.glob("runs/recipe/*/model.bundle"))


class Photos(torch.utils.data.Dataset[Any]):
    """A user's dataset: sample 0 has a box outside of its image, 3 one of no size, and 5 an unknown label."""

    classes = ("cat", "dog")

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Image.Image, dict[str, Any]]:
        box = {0: [50, 50, 60, 60], 3: [5, 5, 5, 20]}.get(index, [5, 5, 30, 30])
        label = "cow" if index == 5 else self.classes[index % 2]
        return Image.new("RGB", (48, 40), "grey"), {"boxes": [box], "labels": [label]}


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (0, "has the box 50, 50, 60, 60, which is outside of an image of 48×40"),
        (3, "has the box `[5, 5, 5, 20]`, which has no size"),
        (5, "has an object of the category `cow`, which is not one of the 2 known ones"),
    ],
)
def test_bad_samples_of_a_users_dataset_are_reported(index: int, told: str) -> None:
    with pytest.raises(BadSample, match=re.escape(f"sample {index} of Photos {told}")) as raised:
        list(_photos("stop", [index]).train.batches(0))
    assert "`on_bad_file skip` in the data block leaves such samples out" in raised.value.help


def test_bad_samples_of_a_users_dataset_are_skipped_and_counted() -> None:
    data = _photos("skip", range(12))
    assert sum(len(images) for images, _ in data.train.batches(0)) == 9
    assert data.skipped == tuple(f"sample {index} of Photos" for index in (0, 3, 5))


def _photos(on_bad_file: Any, train: Sequence[int]) -> runtime.Data:
    dataset = runtime.user_dataset(Photos, target=detection.Annotations())
    split = SplitIndices(*(np.array(each, dtype=np.int64) for each in (train, (), ())))
    to_tensor = T.Compose(TENSOR)
    return runtime.Data(
        dataset,
        split,
        train_transform=to_tensor,
        eval_transform=to_tensor,
        batch_size=4,
        workers=0,
        on_bad_file=on_bad_file,
        samples=detection.Samples(),
    )


@pytest.mark.slow
def test_killed_and_resumed_it_ends_with_the_same_weights_and_losses(tmp_path: Path) -> None:
    """Also where gradients are accumulated."""
    ended = []
    for name in ("whole", "killed"):
        folder = tmp_path / name
        shapes.write_coco(folder / "photos", 10)
        (folder / "tiny.py").write_text(TINY)
        program = at_work.program(folder, RECIPE)
        if name == "killed":
            at_work.kill(program, at=at_work.Moment(file="last.ckpt", time=2))
            (run,) = (folder / "runs/recipe").iterdir()
            at_work.run(program, "--resume", str(run))
        else:
            at_work.run(program)
            (run,) = (folder / "runs/recipe").iterdir()
        rows = [line.split(",")[:-1] for line in (run / "metrics.csv").read_text().splitlines()]  # without the seconds
        ended.append((read_weights(run / "model.bundle"), rows))
    (one, rows), (other, resumed) = ended
    assert [key for key in one if not torch.equal(one[key], other[key])] == []
    assert rows == resumed
