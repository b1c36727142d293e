"""The commands for a finished model, as a person types them."""

import csv
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from click import Command
from click.testing import CliRunner, Result
from PIL import Image
from torch import nn
from torchvision.transforms import v2 as T

from leaven import bundle
from leaven.cli import bundle as commands
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.tasks.classification import Classes

PARTS = [
    ("Conv", {"in_channels": 3, "channels": 3, "kernel": 1, "norm": False, "activation": None}),
    ("GlobalPool", {}),
    ("Linear", {"in_channels": 3, "features": 3}),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that tells colours apart."""
    model = nn.Sequential(Conv(3, 3, kernel=1, norm=False, activation=None), GlobalPool(), Linear(3, 3))
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(torch.eye(3).reshape(value.shape) * 3 if value.ndim > 1 else torch.zeros(3))
    steps = T.Compose([T.Resize([16, 16]), T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    return bundle.save(
        tmp_path_factory.mktemp("bundles") / "colours.bundle",
        model,
        built_by=bundle.Components(PARTS),
        preprocess=steps,
        target=Classes(("red", "green", "blue")),
    )


@pytest.fixture
def folder(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "colours.bundle").write_bytes(made.read_bytes())
    for name, colour in (("red/a.jpg", "red"), ("red/b.png", "red"), ("blue/c.png", "blue"), ("blue/d.png", "red")):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), colour).save(tmp_path / "data" / name)
    return tmp_path


def run(command: Command, *words: str) -> Result:
    return CliRunner().invoke(command, ["colours.bundle", *words], catch_exceptions=False)


class TestPredict:
    def test_one_picture_gets_the_likeliest_classes(self, folder: Path) -> None:
        result = run(commands.predict, "data/blue/c.png")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines() == ["blue   100.0 %", "red      0.0 %", "green    0.0 %"]
        assert run(commands.predict, "data/blue/c.png", "--top", "1").stdout == "blue  100.0 %\n"

    @pytest.mark.parametrize(
        ("inputs", "place", "told"),
        [
            (["data/red/a.jpg"], "found.txt", "found.txt is not the name of an image"),
            (["data/red"], "found.png", "found.png is one file, but there are 2 images"),
        ],
    )
    def test_where_nothing_can_be_drawn_nothing_is_predicted(
        self, inputs: list[str], place: str, told: str, folder: Path
    ) -> None:
        result = run(commands.predict, *inputs, "--draw", place)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"error: {told}\nhelp: " in result.stderr

    def test_the_process_ends_without_a_word(self, folder: Path) -> None:
        words = [sys.executable, "-m", "leaven", "predict", "colours.bundle", "data/blue/c.png", "--top", "1"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("blue  100.0 %\n", "")

    def test_pipes_and_devices_are_no_images(self, folder: Path) -> None:
        os.mkfifo("pipe.jpg")
        result = run(commands.predict, "pipe.jpg", "/dev/zero", "x" * 5000, "data/blue/c.png")
        assert result.exit_code == 1
        assert "pipe.jpg can't be read: it is a pipe, not a file" in result.stderr
        assert "/dev/zero can't be read: it is a device, not a file" in result.stderr
        assert "x can't be read: File name too long" in result.stderr

    def test_a_folder_gets_a_table(self, folder: Path) -> None:
        result = run(commands.predict, "data")
        assert result.stdout.splitlines() == [
            "file             label  confidence",
            "data/blue/c.png  blue   100.0 %",
            "data/blue/d.png  red    100.0 %",
            "data/red/a.jpg   red    100.0 %",
            "data/red/b.png   red    100.0 %",
        ]

    def test_a_name_of_two_lines_is_one_row(self, folder: Path) -> None:
        (folder / "data/blue/c.png").rename(folder / "data/blue/c\nd.png")
        assert run(commands.predict, "data/blue").stdout.splitlines()[1] == "data/blue/c␊d.png  blue   100.0 %"

    def test_a_pattern(self, folder: Path) -> None:
        assert len(run(commands.predict, "data/**/*.png").stdout.splitlines()) == 4
        nothing = run(commands.predict, "data/*.gif")
        assert (nothing.exit_code, nothing.stdout) == (1, "")
        assert nothing.stderr == "error: no file matches data/*.gif\n"

    def test_csv(self, folder: Path) -> None:
        result = run(commands.predict, "data", "--csv", "out.csv", "--top", "2")
        assert result.stdout == "out.csv: 4 images\n"
        rows = list(csv.DictReader((folder / "out.csv").open()))
        assert list(rows[0]) == ["file", "label", "confidence", "label_2", "confidence_2"]
        assert [row["label"] for row in rows] == ["blue", "red", "red", "red"]
        assert float(rows[0]["confidence"]) > 0.99

    def test_a_threshold_is_for_models_that_have_one(self, folder: Path) -> None:
        result = run(commands.predict, "data/red/a.jpg", "--threshold", "0.3")
        assert result.stderr == "error: `--threshold` is for models that find objects, or any number of labels\n"

    def test_json(self, folder: Path) -> None:
        (found,) = json.loads(run(commands.predict, "data/red/a.jpg", "--json").stdout)
        assert found["label"] == "red"
        assert [one["label"] for one in found["top"]] == ["red", "green", "blue"]

    def test_bad_pictures_are_named_and_the_others_predicted(self, folder: Path) -> None:
        (folder / "data" / "red" / "bad.jpg").write_bytes(b"no picture")
        result = run(commands.predict, "data", "none.jpg")
        assert result.exit_code == 1
        assert len(result.stdout.splitlines()) == 5
        assert result.stderr.splitlines() == [
            "error: data/red/bad.jpg can't be read: it is not an image",
            "error: none.jpg can't be read: there is no such file",
            "2 of 6 could not be read",
        ]

    def test_a_table_names_pictures(self, folder: Path) -> None:
        (folder / "data" / "test.csv").write_text("id,image\n1,red/a.jpg\n2,blue/c.png\n")
        result = run(commands.predict, "data/test.csv")
        assert result.exit_code == 0, result.output
        assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
            [os.path.join("data", "red/a.jpg"), "red"],
            [os.path.join("data", "blue/c.png"), "blue"],
        ]

    def test_a_table_elsewhere_with_another_column(self, folder: Path) -> None:
        (folder / "test.csv").write_text("file\nred/a.jpg\nblue/c.png\n")
        missing = run(commands.predict, "test.csv")
        assert "has no column `image`" in missing.stderr
        assert "`--image`" in missing.stderr
        lost = run(commands.predict, "test.csv", "--image", "file")
        assert lost.stderr.splitlines() == [
            "error: test.csv names red/a.jpg, which does not exist",
            "help: say where its paths start by `--root`",
        ]
        found = run(commands.predict, "test.csv", "--image", "file", "--root", "data")
        assert found.exit_code == 0, found.output
        assert [line.split()[1] for line in found.stdout.splitlines()[1:]] == ["red", "blue"]

    def test_a_table_without_rows(self, folder: Path) -> None:
        (folder / "test.csv").write_text("image\n")
        assert run(commands.predict, "test.csv").stderr == "error: test.csv has no rows\n"

    def test_a_folder_without_pictures(self, folder: Path) -> None:
        (folder / "empty").mkdir()
        result = run(commands.predict, "empty")
        assert result.exit_code == 1
        assert result.stderr.startswith("error: empty has no images\n")

    def test_a_class_can_not_command_the_terminal(self, folder: Path) -> None:
        known = bundle.load("colours.bundle")
        save = partial(bundle.save, built_by=bundle.Components(PARTS), preprocess=known.preprocess)
        save("colours.bundle", known.model, target=Classes(("\x1b[2Jred", "green", "blue")))
        result = run(commands.predict, "data/red/a.jpg", "--top", "1")
        assert result.stdout == "␛[2Jred  100.0 %\n"

    @pytest.mark.parametrize("content", [None, b"", b"abc", b"PK\x03\x04abc"])
    def test_what_is_no_bundle_is_told_without_a_traceback(self, folder: Path, content: bytes | None) -> None:
        (folder / "colours.bundle").unlink()
        if content is not None:
            (folder / "colours.bundle").write_bytes(content)
        for command, words in (
            (commands.predict, ["data"]),
            (commands.evaluate, ["--data", "data"]),
            (commands.export, ["--to", "torch_export"]),
        ):
            result = run(command, *words)
            assert result.exit_code == 1
            assert result.stderr.startswith("error: colours.bundle ")


class TestEvaluate:
    def test_help_names_the_options_of_the_command(self, folder: Path) -> None:
        (folder / "list.csv").write_text("file,kind\na.jpg,red\n")
        words = ("--data", "list.csv", "--image", "file")
        assert "name one by `--label`" in run(commands.evaluate, *words).stderr
        assert "say where the paths start: `--root`" in run(commands.evaluate, *words, "--label", "kind").stderr

    def test_scores_and_a_confusion_table(self, folder: Path) -> None:
        result = run(commands.evaluate, "--data", "data")
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        assert lines[:2] == ["4 images", "accuracy  0.7500"]
        assert lines[-1] == "blue                  1      ·     1"

    def test_json(self, folder: Path) -> None:
        found = json.loads(run(commands.evaluate, "--data", "data", "--json").stdout)
        assert found["scores"]["accuracy"] == 0.75
        assert found["confusion"] == [[2, 0, 0], [0, 0, 0], [1, 0, 1]]

    def test_bad_pictures_are_left_out_and_named(self, folder: Path) -> None:
        (folder / "data" / "red" / "bad.jpg").write_bytes(b"no picture")
        result = run(commands.evaluate, "--data", "data")
        assert result.exit_code == 1
        assert result.stdout.startswith("4 images\n")
        assert result.stderr == "error: data/red/bad.jpg can't be used and was skipped\n"

    def test_a_page_figures_and_a_table_of_the_wrong(self, folder: Path) -> None:
        words = ("--data", "data", "--html", "page.html", "--plots", "plots", "--wrong", "wrong.csv")
        result = run(commands.evaluate, *words)
        assert result.exit_code == 0
        assert result.stderr.splitlines() == ["wrote page.html", "wrote plots/confusion.png", "wrote wrong.csv"]
        assert Image.open("plots/confusion.png").format == "PNG"
        rows = list(csv.DictReader((folder / "wrong.csv").open()))
        assert [(row["file"], row["actual"], row["predicted"]) for row in rows] == [("data/blue/d.png", "blue", "red")]

    def test_a_bundle_alone_needs_data(self, folder: Path) -> None:
        result = run(commands.evaluate)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.splitlines() == [
            "error: colours.bundle is not in the folder of a run, so the data to evaluate it on is not known",
            "help: give labelled images: `--data`",
        ]

    @pytest.mark.slow
    def test_without_matplotlib_a_page_is_refused(self, folder: Path) -> None:
        program = "import sys; sys.modules['matplotlib'] = None; from leaven.cli.main import main; main()"
        words = ["evaluate", "colours.bundle", "--data", "data"]
        for flag in ("--html", "--plots"):
            command = [sys.executable, "-c", program, *words, flag, "x"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 2
            assert f"`{flag}` needs matplotlib: pip install matplotlib" in done.stderr

    def test_an_unknown_class(self, folder: Path) -> None:
        (folder / "data" / "red").rename(folder / "data" / "scarlet")
        result = run(commands.evaluate, "--data", "data")
        assert result.exit_code == 1
        assert "has the class `scarlet`" in result.stderr


class TestExport:
    def test_it_says_where_the_file_is(self, folder: Path) -> None:
        result = run(commands.export, "--to", "torch_export", "-o", "net.pt2")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("net.pt2: ")
        assert result.stdout.endswith("same outputs as colours.bundle\n")
        assert (folder / "net.pt2").is_file()

    def test_a_place_that_can_not_be_written(self, folder: Path) -> None:
        result = run(commands.export, "--to", "torch_export", "-o", "none/net.pt2")
        assert result.exit_code == 1
        assert result.stderr.startswith("error: can't write net.pt2: ")


def test_code_of_the_makers_own_needs_a_word(folder: Path) -> None:
    (folder / "steps.py").write_text("def same(image):\n    return image\n")
    from leaven.runtime.user_code import import_file

    mine = import_file("steps.py", "mine")
    known = bundle.load("colours.bundle")
    steps = T.Compose([mine.same, known.preprocess])
    bundle.save("colours.bundle", known.model, built_by=bundle.Components(PARTS), preprocess=steps, target=known.target)
    result = run(commands.predict, "data/red/a.jpg")
    assert result.exit_code == 1
    assert "needs code that comes with it (code/0/steps.py)" in result.stderr
    assert "--trust-code" in result.stderr
    assert run(commands.predict, "data/red/a.jpg", "--trust-code").exit_code == 0
