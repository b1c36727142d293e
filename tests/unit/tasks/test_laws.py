"""What holds for every task: from a recipe to a bundle, and the bundle says what the model said."""

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests import at_work, shapes

import leaven
from leaven import bundle, tasks
from leaven.bundle import Bundle
from leaven.catalog import own
from leaven.catalog.card import Card
from leaven.language.source import Source
from leaven.rules.checker import check
from leaven.runtime.failures import Failure

COUNT = 60
RECIPE = """
model {model}
data  {data} {{
    eval resize([12, 12])
}}
ema   0.9
train epochs=2, batch=8
"""
CLASSIFIER = "conv(8) -> max_pool() -> conv(16) -> global_pool() -> linear({outputs})"
SEGMENTER = "conv(8) -> conv(16) -> conv({outputs}, kernel=1, norm=false, activation=none)"


@dataclass(frozen=True)
class Case:
    """What a recipe says in a task, and what makes the labels of images; `given` is what an evaluation is given."""

    data: str
    lay_out: Callable[[Path], None]
    model: str = CLASSIFIER.format(outputs="classes")
    given: str = "table.csv"

    @property
    def recipe(self) -> str:
        return RECIPE.format(model=self.model, data=self.data)


def table(columns: str, cells: Callable[[int], str]) -> Callable[[Path], None]:
    """A table with the labels of the images, which are beside it."""

    def lay_out(folder: Path) -> None:
        rows = [f"file,{columns}", *(f"{number}.png,{cells(number)}" for number in range(COUNT))]
        (folder / "table.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    return lay_out


def masks(folder: Path) -> None:
    """Copies of the images, each with a mask: a square in the upper left."""
    for name in ("images", "masks"):
        (folder / "squares" / name).mkdir(parents=True)
    for number in range(COUNT):
        shutil.copyfile(folder / f"{number}.png", folder / "squares/images" / f"{number}.png")
        mask = np.zeros((14, 16), np.uint8)
        mask[: 2 + number // 8, : 2 + number // 8] = 1
        Image.fromarray(mask).save(folder / "squares/masks" / f"{number}.png")


def tags(number: int) -> str:
    return ";".join(name for name, is_so in (("dark", number < 30), ("even", number % 2 == 0)) if is_so)


def in_table(ask: str) -> str:
    return f'csv("table.csv", image="file", {ask})'


TASKS = {
    "classification": Case(in_table('label="kind"'), table("kind", lambda n: f"kind {n % 3}")),
    "multilabel": Case(in_table('labels="tags"'), table("tags", tags)),
    "regression": Case(
        in_table('target=["level", "half"]'),
        table("level,half", lambda n: f"{4 * n},{2 * n + 1}"),
        CLASSIFIER.format(outputs="outputs"),
    ),
    "segmentation": Case(
        'mask_folder("squares", classes=["rest", "square"])', masks, SEGMENTER.format(outputs="classes"), "squares"
    ),
}
TABLES = sorted(name for name, case in TASKS.items() if case.given == "table.csv")


def lay_out(case: Case, folder: Path) -> None:
    for number in range(COUNT):
        Image.new("RGB", (16, 14), (4 * number, 255 - 4 * number, 30)).save(folder / f"{number}.png")
    case.lay_out(folder)


# The model for objects, and what asks for the task.
DETECTING: dict[str, tuple[str, str]] = {
    "detection": ("fasterrcnn_mobilenet_v3_large_320_fpn(min_size=32, max_size=48)", ""),
    "instances": ("maskrcnn_resnet50_fpn(min_size=32, max_size=48)", ", masks=true"),
}
DETECTED = 12  # images with objects
DETECTOR = """
model {model}
data  coco("photos/images", "photos/boxes.json"{ask}) {{ split train=8 samples, val=2 samples, test=2 samples }}
ema   0.9
train epochs=2, batch=2
"""
SLOW = [pytest.param(name, marks=pytest.mark.slow) if name == "instances" else name for name in sorted(DETECTING)]


@pytest.fixture(scope="module", params=[*sorted(TASKS), *SLOW])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of a model that was trained on two batches."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param in DETECTING:
        shapes.write_coco(folder / "photos", DETECTED)
        model, ask = DETECTING[request.param]
        return quickly_trained(folder, DETECTOR.format(model=model, ask=ask))
    lay_out(TASKS[request.param], folder)
    return quickly_trained(folder, TASKS[request.param].recipe)


def quickly_trained(folder: Path, recipe: str) -> Bundle:
    said = at_work.run(at_work.program(folder, recipe), "--quick").said
    assert "saved " in said
    (file,) = folder.glob("runs/*/*/model.bundle")
    return bundle.load(file)


def test_the_losses_of_a_detector_are_logged_by_name(trained: Bundle) -> None:
    (header, first, *_) = (trained.path.parent / "metrics.csv").read_text().splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    parts = {name: float(value) for name, value in row.items() if name.startswith("train.loss_")}
    assert bool(parts) == (trained.task in DETECTING)
    if parts:
        assert {"train.loss_classifier", "train.loss_box_reg", "train.loss_objectness"} <= set(parts)
        assert sum(parts.values()) == pytest.approx(float(row["train.loss"]), rel=1e-5)


def measured(model: Bundle, **more: Any) -> Any:
    """The model, evaluated on all of its data."""
    given = "photos" if model.task in DETECTING else TASKS[model.task].given
    return model.evaluate(folder_of(model) / given, image="file", **more)


def count_of(model: Bundle) -> int:
    return DETECTED if model.task in DETECTING else COUNT


def folder_of(model: Bundle) -> Path:
    return model.path.parents[3]


def images_of(model: Bundle) -> list[Path]:
    if model.task in DETECTING:
        return [folder_of(model) / "photos" / "images" / f"{number:02}.png" for number in range(4)]
    return [folder_of(model) / f"{number}.png" for number in range(4)]


def test_every_task_is_here() -> None:
    assert {*TASKS, *DETECTING} == set(tasks.names()) == set(own.names("task"))


@pytest.mark.parametrize("name", TABLES)
def test_card_and_target_agree(name: str) -> None:
    card = own.read("task", name)
    assert card is not None
    module = tasks.find(name)
    reader = getattr(module, card.task.reader)
    assert reader.argument == card.parameters[0].name
    target, values = reader("x").read([*map(str, range(5))] * 2)
    assert (target.task, target.kind) == (name, card.task.target_kind)
    fitted, _ = target.fitted(values, range(len(values)))
    assert module.read_target(fitted.to_json()) == fitted  # type: ignore[union-attr]


@pytest.mark.parametrize("name", sorted(DETECTING))
def test_card_and_target_of_objects_agree(name: str) -> None:
    card = own.read("task", name)
    assert card is not None
    module: Any = tasks.find(name)
    masked = {"mask": ((1.0, 2.0, 3.0, 2.0, 3.0, 4.0),)} if name == "instances" else {}
    target, (value,) = getattr(module, card.task.reader)().read([[{"label": "cat", "box": [1, 2, 3, 4], **masked}]])
    assert (target.task, target.kind) == (name, card.task.target_kind)
    assert module.read_target(target.to_json()) == target
    assert target.plain(value) == [{"label": "cat", "box": [1.0, 2.0, 3.0, 4.0], **masked}]


ARGUMENTS = {
    "distill": "teacher=before_phase()",
    "distill_features": "teacher=before_phase()",
    "prune": "unstructured(), amount=20%",
}


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_technique_fits_the_task_or_is_refused(name: str, tmp_path: Path) -> None:
    lay_out(TASKS[name], tmp_path)
    task = own.read("task", name)
    assert task is not None
    start = f"model efficientnet_lite0(pretrained=true)\ndata {TASKS[name].data}\n"
    try_techniques(start, task, tmp_path)


def test_a_technique_fits_a_detector_or_is_refused(tmp_path: Path) -> None:
    shapes.write_coco(tmp_path / "photos", 9)
    task = own.read("task", "detection")
    assert task is not None
    start = 'model ssdlite320_mobilenet_v3_large(pretrained=true)\ndata coco("photos/images", "photos/boxes.json")\n'
    try_techniques(start, task, tmp_path)


def try_techniques(start: str, task: Card, folder: Path) -> None:
    for technique in own.names("technique"):
        card = own.read("technique", technique)
        assert card is not None
        given = ARGUMENTS.get(technique, "")
        text = f'{start}phase "one", epochs=1\nphase "two", epochs=20 {{ {technique} {given} }}\n'
        found = {report.id for report in check(Source("r.leaven", text, folder)).diagnostics if report.is_error}
        fits = not card.technique.targets or task.task.target_kind in card.technique.targets
        found -= {"no-residual-branches"}  # which only some models have
        assert found == (set() if fits else {"wrong-task"}), technique


def test_the_bundle_says_its_task(trained: Bundle) -> None:
    assert trained.task == trained.target.task
    assert leaven.load(trained.path).target == trained.target


def test_a_copy_predicts_the_same(trained: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bundle"
    copy.write_bytes(trained.path.read_bytes())
    for image in images_of(trained):
        assert bundle.load(copy)(image).to_json(9) == trained(image).to_json(9)


def test_an_image_alone_and_among_others_is_predicted_the_same(trained: Bundle) -> None:
    together = trained(images_of(trained))
    for image, prediction in zip(images_of(trained), together, strict=True):
        alone = trained(image).to_json(9)
        assert flat(prediction.to_json(9)) == pytest.approx(flat(alone), rel=1e-4, abs=1e-5)


def test_predictions_can_be_written_as_a_table(trained: Bundle) -> None:
    heads = {tuple(prediction.cells(1)) for prediction in trained(images_of(trained))}
    assert len(heads) == 1


def test_evaluation_counts_every_image(trained: Bundle) -> None:
    found = measured(trained)
    assert found.count == count_of(trained)
    assert all(math.isfinite(score) for score in found.scores.values())
    assert str(found).startswith(f"{found.count} images\n")
    assert found.to_json()["scores"] == found.scores


def test_an_evaluation_can_be_written_as_a_page(trained: Bundle, tmp_path: Path) -> None:
    found = measured(trained, html=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    worst = min(20, count_of(trained))
    assert page.count("data:image/") == worst + len(found.plots()) > worst
    for outside in ("<script", "http://", "https://", "<link", "url("):
        assert outside not in page
    assert all(escape(case.file) in page for case in found.cases(20))
    assert all(head in page for table in found.tables() for head in table.heads)


def test_the_worst_predictions_and_the_wrong_ones_are_reported(trained: Bundle) -> None:
    found = measured(trained)
    cases, wrong = found.cases(COUNT), found.wrong()
    assert sorted(case.at for case in cases) == list(range(count_of(trained)))
    assert [case.file for case in cases if not case.is_right] == [row["file"] for row in wrong]
    assert [row["file"] for row in found.to_json()["wrong"]] == [row["file"] for row in wrong]
    assert len({tuple(row) for row in wrong}) == 1, "they make a table"


def test_batches_of_any_size_are_evaluated_the_same(trained: Bundle) -> None:
    one, other = (measured(trained, batch=size).scores for size in (1, 7))
    assert one == pytest.approx(other, rel=1e-4)


def test_exported_it_has_the_same_outputs(trained: Bundle, tmp_path: Path) -> None:
    if trained.task in DETECTING:
        with pytest.raises(Failure, match="can't be exported"):
            trained.export("torch_export", tmp_path / "model.pt2")
        return
    exported = torch.export.load(trained.export("torch_export", tmp_path / "model.pt2")).module()
    images = torch.stack([trained.prepare(image) for image in images_of(trained)])
    with torch.inference_mode():
        outputs = tasks.find(trained.task).exported(trained.model, trained.target)(images)  # type: ignore[union-attr]
        np.testing.assert_allclose(exported(images), outputs, rtol=1e-4, atol=1e-5)


def test_a_session_evaluates_what_the_program_would(trained: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder_of(trained))
    with leaven.open(folder_of(trained) / "recipe.leaven") as session:
        assert session.step(2) is not None
        assert all(math.isfinite(score) for score in session.evaluate().values())
        if trained.task in DETECTING:
            assert session.model.eval()(session.batch()[0])[0]["boxes"].shape[1] == 4
            return
        assert session.model(session.batch()[0].to(session.run.fabric.device)).shape[1] == len(trained.target.names)


def flat(plain: object) -> list[float]:
    """The numbers in plain data, in order."""
    match plain:
        case dict():
            return [number for value in plain.values() for number in flat(value)]
        case list():
            return [number for value in plain for number in flat(value)]
        case float() | int():
            return [float(plain)]
    return []
