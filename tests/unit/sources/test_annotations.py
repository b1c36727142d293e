"""Images with boxes: the same objects in every format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import shapes

from leaven.formats.finding import BadSource
from leaven.sources.annotations import named_split
from leaven.sources.coco import Coco
from leaven.sources.formats_of_boxes import source_in
from leaven.sources.voc import Voc
from leaven.sources.yolo import Yolo

COUNT = 6


def coco(folder: Path, **more: Any) -> Coco:
    return Coco(folder / "images", "images", folder / "boxes.json", **more)


FORMATS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], Any]]] = {
    "coco": (shapes.write_coco, coco),
    "voc": (shapes.write_voc, lambda folder: Voc(folder, "voc")),
    "yolo": (shapes.write_yolo, lambda folder: Yolo(folder, "yolo")),
}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_gives_the_objects_that_are_there(name: str, tmp_path: Path) -> None:
    write, source = FORMATS[name]
    write(tmp_path, COUNT)
    looked, opened = source(tmp_path).look(), source(tmp_path).open()
    assert set(looked.names) == set(shapes.NAMES) == set(opened.target.names)
    assert looked.counts == {"": COUNT}
    assert not looked.findings
    for number, (file, value) in enumerate(zip(opened.files, opened.values, strict=True)):
        (width, height), there = shapes.shapes(number)
        scale = (width, height, width, height) if value.is_relative else (1, 1, 1, 1)
        found = [
            (opened.target.names[one.category], *(round(edge * by, 6) for edge, by in zip(one.box, scale, strict=True)))
            for one in value.each
        ]
        assert Path(file).stem == f"{number:02}"
        assert found == [(shapes.NAMES[kind], *box) for kind, box in there]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_format_of_a_folder_is_found(name: str, tmp_path: Path) -> None:
    FORMATS[name][0](tmp_path, 2)
    found = source_in(tmp_path, "here")
    assert type(found).__name__.lower() == name
    assert found is not None
    assert len(found.open().files) == 2


@pytest.mark.parametrize("layout", ["beside", "split"])
def test_other_layouts_of_yolo_are_found(layout: str, tmp_path: Path) -> None:
    """Labels beside the images, as LabelImg writes them, or a folder for each split, as Roboflow does."""
    shapes.write_yolo(tmp_path, 4)
    for file in [*tmp_path.glob("images/*"), *tmp_path.glob("labels/*")]:
        split = "train" if int(file.stem) < 3 else "valid"
        place = tmp_path if layout == "beside" else tmp_path / split / file.parent.name
        place.mkdir(parents=True, exist_ok=True)
        file.rename(place / file.name)
    for folder in ("images", "labels"):
        (tmp_path / folder).rmdir()
    found = source_in(tmp_path, "here")
    assert isinstance(found, Yolo)
    assert found.look().counts == ({"": 4} if layout == "beside" else {"train": 3, "val": 1})
    assert all(value.each for value in found.open().values)


def test_labels_without_names_are_those_of_yolo(tmp_path: Path) -> None:
    """And not masks, which may be in `labels`, too."""
    shapes.write_yolo(tmp_path, 2)
    (tmp_path / "data.yaml").unlink()
    found = source_in(tmp_path, "street")
    assert isinstance(found, Yolo)
    assert [each.fact for each in found.look().findings] == ["`street` does not tell what its categories are called"]


def test_a_folder_of_images_alone_has_no_annotations(tmp_path: Path) -> None:
    shapes.draw(tmp_path, 2)
    assert source_in(tmp_path, "here") is None


def test_masks_of_a_pascal_voc_are_not_its_images(tmp_path: Path) -> None:
    shapes.write_voc(tmp_path, 2)
    shapes.draw(tmp_path / "SegmentationClass", 2)
    assert {Path(file).parent.name for file in Voc(tmp_path, "voc").open().files} == {"JPEGImages"}


def test_objects_that_are_difficult_are_not_trained_on(tmp_path: Path) -> None:
    shapes.write_voc(tmp_path, COUNT)
    values = Voc(tmp_path, "voc").open().values
    assert [all(one.is_crowd for one in value.each) for value in values] == [n == 3 for n in range(COUNT)]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("instances_val2017.json", "val"),
        ("Validation", "val"),
        ("trainval.json", "train"),
        ("contest_train.json", "train"),
        ("latest.json", ""),
        ("image_info_test-dev2017.json", "test"),
    ],
)
def test_names_of_files_give_their_split(name: str, split: str) -> None:
    assert named_split(name) == split


def split_folders(folder: Path, write: Callable[[Path, int], None]) -> None:
    """`train/` and `valid/` with images of the same names, as Roboflow exports them."""
    for split in ("train", "valid"):
        inside = folder / split
        write(inside, 2)
        for file in [*inside.glob("*/*")]:
            file.rename(inside / file.name)
        for json_file in inside.glob("*.json"):
            json_file.rename(inside / "_annotations.coco.json")
        for empty in [each for each in inside.iterdir() if each.is_dir()]:
            empty.rmdir()


def places(source: Any) -> dict[str, list[str]]:
    found = source.open()
    return {split: [Path(found.files[at]).parent.name for at in there] for split, there in found.predefined.items()}


@pytest.mark.parametrize("name", ["coco", "voc"])
def test_images_of_equal_names_are_those_of_their_split(name: str, tmp_path: Path) -> None:
    split_folders(tmp_path, FORMATS[name][0])
    found = source_in(tmp_path, "here")
    assert type(found).__name__.lower() == name
    assert places(found) == {"train": ["train", "train"], "val": ["valid", "valid"]}


class TestCoco:
    def test_annotations_of_validation_are_of_the_images_beside_them(self, tmp_path: Path) -> None:
        split_folders(tmp_path, shapes.write_coco)
        train, valid = (tmp_path / split / "_annotations.coco.json" for split in ("train", "valid"))
        asked = Coco(tmp_path, "here", train, valid)
        assert places(asked) == {"train": ["train", "train"], "val": ["valid", "valid"]}
        assert not asked.look().findings

    def test_folders_that_are_named_like_splits_select_the_images(self, tmp_path: Path) -> None:
        for split in ("train2017", "val2017"):
            shapes.draw(tmp_path / "images" / split, 2)
            (tmp_path / f"{split}.json").write_text(json.dumps(shapes.coco(2)))
        asked = Coco(tmp_path / "images", "images", tmp_path / "train2017.json", tmp_path / "val2017.json")
        assert places(asked) == {"train": ["train2017"] * 2, "val": ["val2017"] * 2}

    def test_an_image_that_may_be_one_of_two_is_reported(self, tmp_path: Path) -> None:
        for folder in ("monday", "tuesday"):
            shapes.draw(tmp_path / "images" / folder, 1)
        (tmp_path / "boxes.json").write_text(json.dumps(shapes.coco(1)))
        (found,) = coco(tmp_path).look().findings
        assert "`00.png` may be `monday/00.png` and `tuesday/00.png` of `images`" in found.fact

    def test_images_of_training_are_not_taken_for_validation(self, tmp_path: Path) -> None:
        split_folders(tmp_path, shapes.write_coco)
        train, valid = (tmp_path / split / "_annotations.coco.json" for split in ("train", "valid"))
        (found,) = Coco(tmp_path / "train", "train", train, valid).look().findings
        assert found.is_error
        assert "`00.png` is taken from `train`, which has the images of training" in found.fact
        assert found.argument == "val"

    def test_files_in_a_folder_are_the_splits(self, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images" / "all", COUNT)
        (tmp_path / "annotations").mkdir()
        for split, first in (("train2017", 0), ("val2017", 4)):
            content = json.dumps(shapes.coco(4 if not first else 2, first))
            (tmp_path / "annotations" / f"instances_{split}.json").write_text(content)
        found = Coco(tmp_path / "images", "images", tmp_path / "annotations").open()
        assert {split: list(there) for split, there in found.predefined.items()} == {
            "train": [0, 1, 2, 3],
            "val": [4, 5],
        }

    def test_a_file_for_validation(self, tmp_path: Path) -> None:
        shapes.write_coco(tmp_path, 4)
        (tmp_path / "val.json").write_text(json.dumps(shapes.coco(1, 1)))
        assert coco(tmp_path, val=tmp_path / "val.json").look().counts == {"train": 4, "val": 1}

    def test_crowds_are_reported_apart(self, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images", 1)
        content: Any = shapes.coco(1)
        content["annotations"][0]["iscrowd"] = 1
        (tmp_path / "boxes.json").write_text(json.dumps(content))
        assert [one.is_crowd for one in coco(tmp_path).open().values[0].each] == [True, False]

    def test_bad_annotations_are_skipped_and_counted(self, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images", 2)
        content: Any = shapes.coco(3)  # the third image is not there
        content["annotations"][0]["bbox"] = [1, 1, 0, 5]
        (tmp_path / "boxes.json").write_text(json.dumps(content))
        with pytest.raises(BadSource, match=r"02\.png"):
            coco(tmp_path).open()
        found = coco(tmp_path, on_bad_file="skip").open()
        assert len(found.files) == 2
        assert len(found.values[0].each) == 1
        assert found.findings[0].fact.startswith("an annotation and an image are skipped")

    def test_masks_are_polygons_or_run_lengths(self, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images", 2)
        content: Any = shapes.coco(2)
        content["annotations"][-1]["segmentation"] = {"size": [48, 40], "counts": [5, 10, 1905]}
        (tmp_path / "boxes.json").write_text(json.dumps(content))
        values = coco(tmp_path, masks=True).open().values
        assert values[1].each[0].part == (48, 40, (5, 10, 1905))
        assert len(values[0].each[0].part[0]) == 8


class TestYolo:
    def test_an_image_without_labels_shows_nothing(self, tmp_path: Path) -> None:
        shapes.write_yolo(tmp_path, 3)
        (tmp_path / "labels" / "01.txt").unlink()
        assert [len(value.each) for value in Yolo(tmp_path, "yolo").open().values] == [2, 0, 1]

    def test_folders_of_images_are_the_splits(self, tmp_path: Path) -> None:
        for split in ("train", "val"):
            shapes.draw(tmp_path / "images" / split, 2)
            (tmp_path / "labels" / split).mkdir(parents=True)
            (tmp_path / "labels" / split / "00.txt").write_text("0 0.5 0.5 0.25 0.25\n")
        (tmp_path / "classes.txt").write_text("square\nball\n")
        found = Yolo(tmp_path, "yolo").open()
        assert {split: list(there) for split, there in found.predefined.items()} == {"train": [0, 1], "val": [2, 3]}
        assert found.values[0].each[0].box == (0.375, 0.375, 0.625, 0.625)

    def test_a_polygon_is_a_mask_with_a_box_around_it(self, tmp_path: Path) -> None:
        shapes.write_yolo(tmp_path, 1)
        (tmp_path / "labels" / "00.txt").write_text("1 0.1 0.2 0.5 0.2 0.3 0.6\n")
        (one,) = Yolo(tmp_path, "yolo", masks=True).open().values[0].each
        assert one.box == (0.1, 0.2, 0.5, 0.6)
        assert one.part == ((0.1, 0.2, 0.5, 0.2, 0.3, 0.6),)

    def test_names_are_read_as_plain_data(self, tmp_path: Path) -> None:
        shapes.write_yolo(tmp_path, 1)
        (tmp_path / "data.yaml").write_text("names: !!python/object/apply:os.getcwd []\n")
        (finding,) = Yolo(tmp_path, "yolo").look().findings
        assert finding.id == "wrong-format"


@pytest.mark.parametrize("text", ["square\n\nball\n", "# mine\nsquare\nball\n", "name\nsquare\n"])
def test_a_line_that_might_shift_the_names_is_refused(text: str, tmp_path: Path) -> None:
    shapes.write_yolo(tmp_path, 1)
    (tmp_path / "data.yaml").unlink()
    (tmp_path / "classes.txt").write_text(text)
    (finding,) = Yolo(tmp_path, "yolo").look().findings
    assert finding.is_error
    assert finding.fact.endswith("remove it")


def test_yaml_that_is_broken_is_reported_with_its_line(tmp_path: Path) -> None:
    shapes.write_yolo(tmp_path, 1)
    (tmp_path / "data.yaml").write_text("path: street\nnames: [square, ball\n")
    (finding,) = Yolo(tmp_path, "yolo").look().findings
    assert "`data.yaml` can't be read: line 3 is not YAML" in finding.fact


@pytest.mark.parametrize(
    ("name", "file"), [("coco", "boxes.json"), ("voc", "Annotations/01.xml"), ("yolo", "labels/01.txt")]
)
def test_a_line_that_is_not_utf8_is_reported(name: str, file: str, tmp_path: Path) -> None:
    write, source = FORMATS[name]
    write(tmp_path, 2)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes().rstrip() + b"\n<!-- \xe4 -->")
    with pytest.raises(BadSource) as raised:
        source(tmp_path).open()
    assert raised.value.finding.fact == f"`{file}` can't be read: line 2 is not UTF-8 text"


def test_an_image_whose_labels_can_not_be_read_is_skipped(tmp_path: Path) -> None:
    """It would be trained on as one that shows nothing."""
    shapes.write_yolo(tmp_path, 4)
    (tmp_path / "labels" / "01.txt").write_bytes(b"0 \xe4")
    found = Yolo(tmp_path, "street", on_bad_file="skip").open()
    assert [Path(file).stem for file in found.files] == ["00", "02", "03"]
    assert [finding.fact for finding in found.findings] == [
        "an image is skipped: `labels/01.txt` can't be read: line 1 is not UTF-8 text"
    ]


def test_xml_with_entities_is_refused(tmp_path: Path) -> None:
    shapes.write_voc(tmp_path, 1)
    bomb = '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><annotation>&d;</annotation>'
    (tmp_path / "Annotations" / "00.xml").write_text(bomb)
    (finding,) = Voc(tmp_path, "voc").look().findings
    assert "declares a document type" in finding.fact


class TestBrokenAnnotations:
    """What people's tools write: a report each, and never a wrong name for a category."""

    def found(self, folder: Path, content: Any, **more: Any) -> str:
        (folder / "boxes.json").write_text(json.dumps(content))
        finding = coco(folder, **more).look().findings[0]
        assert finding.is_error
        return finding.fact

    @pytest.mark.parametrize("key", ["image_id", "category_id"])
    def test_an_id_that_is_a_list(self, key: str, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images", 1)
        content: Any = shapes.coco(1)
        content["annotations"][0][key] = [1]
        assert "annotation 1" in self.found(tmp_path, content)

    @pytest.mark.parametrize("mask", [[["a"] * 6], [[1, 2, 3, 4, 5, 6], 7], [[1, 2, 3, 4, 5, None]]])
    def test_a_polygon_that_is_not_numbers(self, mask: Any, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images", 1)
        content: Any = shapes.coco(1)
        content["annotations"][0]["segmentation"] = mask
        assert "annotation 1 of `boxes.json` has no mask" in self.found(tmp_path, content, masks=True)

    def test_two_images_with_one_id(self, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images", 2)
        content: Any = shapes.coco(2)
        content["images"][1]["id"] = content["images"][0]["id"]
        assert "image 2 of `boxes.json` has the id" in self.found(tmp_path, content)

    def test_no_objects_at_all(self, tmp_path: Path) -> None:
        shapes.draw(tmp_path / "images", 2)
        assert self.found(tmp_path, {**shapes.coco(2), "annotations": []}) == "`boxes.json` has no objects"

    def test_categories_with_other_names_in_validation(self, tmp_path: Path) -> None:
        shapes.write_coco(tmp_path, 2)
        content: Any = shapes.coco(2)
        first, second = content["categories"][:2]
        first["name"], second["name"] = second["name"], first["name"]
        (tmp_path / "val.json").write_text(json.dumps(content))
        (finding,) = coco(tmp_path, val=tmp_path / "val.json").look().findings
        assert finding.fact.startswith("in `val.json`, the category")

    def test_a_listed_image_without_annotations(self, tmp_path: Path) -> None:
        shapes.write_voc(tmp_path, 2)
        (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
        (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("00\n01\n77\n")
        (finding,) = Voc(tmp_path, "voc").look().findings
        assert finding.fact == "`77`, which `train.txt` lists, has no annotations"
        assert len(Voc(tmp_path, "voc", "skip").open().files) == 2
