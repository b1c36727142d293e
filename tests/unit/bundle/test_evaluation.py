"""Evaluating: which images, by which labels, and what is reported."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.unit.bundle.conftest import save_colours

from leaven import bundle
from leaven.bundle import Bundle
from leaven.formats.tables import Layout
from leaven.runtime.data.datasets import image_folder
from leaven.runtime.failures import Failure
from leaven.tasks.classification import Classes, Evaluation

Paint = Callable[..., Path]


@pytest.fixture
def folder(paint: Paint, tmp_path: Path) -> Path:
    """Three red images, one of them labelled blue; two blue ones; no green."""
    for name, colour in (("red/1", "red"), ("red/2", "red"), ("blue/1", "blue"), ("blue/2", "blue"), ("blue/3", "red")):
        paint(f"data/{name}.png", colour)
    return tmp_path / "data"


class TestFolders:
    def test_scores_and_confusion(self, colours: Bundle, folder: Path) -> None:
        found = colours.evaluate(folder)
        assert found.count == 5
        assert found.accuracy == 0.8
        assert found.scores.keys() == {"accuracy", "loss"}
        assert found.scores["loss"] == pytest.approx(2.0, abs=0.01)  # the one mistake costs ten
        assert found.confusion.tolist() == [[2, 0, 0], [0, 0, 0], [1, 0, 2]]
        assert found.confused() == [("blue", "red", 1)]
        assert found.per_class == {
            "red": {"recall": 1.0, "precision": pytest.approx(2 / 3), "f1": pytest.approx(0.8), "count": 2},
            "blue": {"recall": pytest.approx(2 / 3), "precision": 1.0, "f1": pytest.approx(0.8), "count": 3},
        }

    def test_it_prints_a_table(self, colours: Bundle, folder: Path) -> None:
        lines = str(colours.evaluate(folder)).splitlines()
        assert lines[:2] == ["5 images", "accuracy  0.8000"]
        assert lines[4:7] == [
            "class  precision  recall      f1  images",
            "red       0.6667  1.0000  0.8000       2",
            "blue      1.0000  0.6667  0.8000       3",
        ]
        assert lines[-4:] == [
            "actual \\ predicted  red  green  blue",
            "red                   2      ·     ·",
            "green                 ·      ·     ·",
            "blue                  1      ·     2",
        ]

    def test_test_is_taken_then_val(self, colours: Bundle, paint: Paint, tmp_path: Path) -> None:
        for part, count in (("train", 3), ("Val", 2), ("test", 1)):
            for number in range(count):
                paint(f"data/{part}/red/{number}.png")
        assert colours.evaluate(tmp_path / "data").count == 1
        assert colours.evaluate(tmp_path / "data", split="train").count == 3
        assert colours.evaluate(tmp_path / "data", split="all").count == 6
        (tmp_path / "data" / "test" / "red" / "0.png").unlink()
        (tmp_path / "data" / "test" / "red").rmdir()
        assert colours.evaluate(tmp_path / "data").count == 2

    def test_a_part_alone_is_enough(self, colours: Bundle, paint: Paint, tmp_path: Path) -> None:
        paint("data/test/red/1.png")
        assert colours.evaluate(tmp_path / "data").count == 1
        with pytest.raises(Failure, match="has no split val"):
            colours.evaluate(tmp_path / "data", split="val")

    def test_workers_change_nothing(self, colours: Bundle, folder: Path) -> None:
        alone, helped = colours.evaluate(folder), colours.evaluate(folder, workers=2, batch=2)
        assert np.array_equal(alone.confusion, helped.confusion)
        assert alone.scores == pytest.approx(helped.scores)

    def test_a_class_that_the_model_does_not_know(self, colours: Bundle, folder: Path, paint: Paint) -> None:
        paint("data/bleu/1.png")
        with pytest.raises(Failure, match=r"data/bleu/1\.png has the class `bleu`") as caught:
            colours.evaluate(folder)
        assert caught.value.help == "did you mean `blue`?"

    def test_no_folders_at_all(self, colours: Bundle, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(Failure, match="has no class folders") as caught:
            colours.evaluate(tmp_path / "empty")
        assert caught.value.help == "the classes are: red, green, blue"
        with pytest.raises(Failure, match="does not exist"):
            colours.evaluate(tmp_path / "none")

    def test_bad_files_stop_or_are_left_out(self, colours: Bundle, folder: Path) -> None:
        (folder / "red" / "bad.jpg").write_bytes(b"no picture")
        with pytest.raises(Failure, match=r"bad\.jpg can't be read"):
            colours.evaluate(folder)
        found = colours.evaluate(folder, on_bad_file="skip")
        assert found.count == 5
        assert found.skipped == (str(folder / "red" / "bad.jpg"),)

    def test_nothing_that_can_be_read(self, colours: Bundle, tmp_path: Path) -> None:
        (tmp_path / "data" / "red").mkdir(parents=True)
        (tmp_path / "data" / "red" / "bad.jpg").write_bytes(b"no picture")
        with pytest.raises(Failure, match="none of the images can be read"):
            colours.evaluate(tmp_path / "data", on_bad_file="skip")


class TestOtherData:
    def test_a_table(self, colours: Bundle, folder: Path) -> None:
        table = folder / "list.csv"
        table.write_text("image,label\nred/1.png,red\nblue/1.png,blue\nblue/3.png,blue\n")
        assert colours.evaluate(table).accuracy == pytest.approx(2 / 3)
        table.write_text("file,what\nred/1.png,red\nblue/1.png,blue\n")
        assert colours.evaluate(table, image="file", label="what").accuracy == 1

    def test_a_number_in_a_table_is_the_name_of_a_class(self, tmp_path: Path, paint: Paint) -> None:
        file = save_colours(tmp_path / "colours.bundle", Classes(("1", "2", "3")))
        rows = [{"image": paint(f"{n}.png", c).name, "label": n} for n, c in enumerate(("red", "lime", "blue"), 1)]
        table = tmp_path / "t.jsonl"
        table.write_text("\n".join(map(json.dumps, rows)))
        assert bundle.load(file).evaluate(table).accuracy == 1

    def test_a_table_is_laid_out_as_that_of_the_training(self, tmp_path: Path, paint: Paint) -> None:
        """Without a header, and without the endings of files; one with a header is read as well."""
        layout = Layout(separator=" ", columns=("picture", "label"))
        file = tmp_path / "colours.bundle"
        model = bundle.load(save_colours(file, columns=("picture",), layout=layout, ending=".png"))
        paint("1.png", "red")
        paint("2.png", "blue")
        (tmp_path / "list.txt").write_text("1 red\n2 blue\n")
        assert model.evaluate(tmp_path / "list.txt").accuracy == 1
        (tmp_path / "usual.csv").write_text("image,label\n1.png,red\n2.png,blue\n")
        assert model.evaluate(tmp_path / "usual.csv").accuracy == 1

    def test_items_of_the_runtime(self, colours: Bundle, folder: Path) -> None:
        assert colours.evaluate(image_folder(folder)).accuracy == 0.8

    def test_pairs(self, colours: Bundle, folder: Path) -> None:
        pairs = [(folder / "red" / "1.png", "red"), (Image.new("RGB", (9, 9), "blue"), "green")]
        assert colours.evaluate(pairs).confusion.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
        with pytest.raises(Failure, match="nothing to measure"):
            colours.evaluate([])


class TestPages:
    def test_names_are_escaped_and_images_inside(self, paint: Paint, tmp_path: Path) -> None:
        names = ("<script>alert(1)</script>", "a & b\x1b]0;c\u202e", '"犬"')
        file = save_colours(tmp_path / "colours.bundle", Classes(names))
        pairs = [(paint(f"<img src=x>{n}.png", "red"), name) for n, name in enumerate(names)]
        bundle.load(file).evaluate(pairs, html=tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<script" not in page
        assert not {"\x1b", "\u202e"} & set(page)
        assert "<img src=x" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert page.count("data:image/") == 4

    def test_the_worst_come_first(self, colours: Bundle, folder: Path) -> None:
        found = colours.evaluate(folder)
        worst = found.cases(2)
        assert (worst[0].predicted, worst[0].is_right, worst[1].is_right) == ("red (100.0 %)", False, True)
        assert worst[0].file == str(folder / "blue" / "3.png")
        assert [row["file"] for row in found.wrong()] == [worst[0].file]

    def test_a_folder_that_is_not_there(self, colours: Bundle, folder: Path) -> None:
        with pytest.raises(Failure, match=r"can't write page.html"):
            colours.evaluate(folder, html=folder / "none" / "page.html")


class TestManyClasses:
    def test_the_most_frequent_mistakes_are_listed(self) -> None:
        classes = tuple(f"class {number}" for number in range(20))
        confusion = np.eye(20, dtype=np.int64) * 8
        confusion[3, 4] = 2
        confusion[5, 1] = 4
        found = Evaluation(classes, {"accuracy": 0.9, "top5": 0.99, "loss": 0.3}, confusion)
        assert found.table().splitlines() == [
            "actual   predicted  how often",
            "class 5  class 1    4 of 12 (33.3 %)",
            "class 3  class 4    2 of 10 (20.0 %)",
        ]

    @pytest.mark.parametrize("count", [2, 14])
    def test_names_of_classes_stay_in_their_line(self, count: int) -> None:
        confusion = np.ones((count, count), dtype=np.int64)
        found = Evaluation(tuple(f"a\n\x1b[1m{at}" for at in range(count)), {"accuracy": 0.5, "loss": 1.0}, confusion)
        assert "a␊␛[" in found.table()
        assert all(line.isprintable() for line in found.table().splitlines())

    def test_top5_is_measured_where_it_is_informative(self, tmp_path: Path, paint: Paint) -> None:
        import timm
        import torch
        from torchvision.transforms import v2 as T

        steps = T.Compose([T.Resize([32, 32]), T.ToImage(), T.ToDtype(torch.float32, scale=True)])
        model = timm.create_model("resnet10t", num_classes=8)
        file = bundle.save(
            tmp_path / "a.bundle",
            model,
            built_by=bundle.Timm("resnet10t", num_classes=8),
            preprocess=steps,
            target=Classes(tuple(map(str, range(8)))),
        )
        found = bundle.load(file).evaluate([(paint(f"{number}.png"), str(number)) for number in range(8)])
        assert found.scores["top5"] == 5 / 8
        assert found.scores["accuracy"] == 1 / 8
