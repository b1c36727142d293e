"""What a person sees who types `leaven`: through click's own runner, in a folder of their own."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leaven.cli.main import leaven

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
        assert result.stdout == "first.leaven: no mistakes; resnet18 on digits (10 classes), 3 epochs\n"

    def test_options_of_the_recipe_are_checked_like_the_file(self, folder: Path) -> None:
        assert run("check", "first.leaven", "--lr", "1e-4").exit_code == 0
        wrong = run("check", "first.leaven", "--lr", "fast", "--concise")
        assert wrong.exit_code == 2
        assert wrong.output.startswith("--lr:1:1: error[wrong-type]")

    def test_an_unknown_option_gets_the_nearest(self, folder: Path) -> None:
        result = run("check", "first.leaven", "--lrr", "1e-4")
        assert result.exit_code == 2
        assert "did you mean `--lr`?" in result.output

    def test_json_tells_the_place(self, folder: Path) -> None:
        (folder / "first.leaven").write_text("model resnet18()\ndata digits()\nfreeze layre4\n")
        result = run("check", "--json", "first.leaven")
        assert result.exit_code == 1
        (report,) = json.loads(result.output)["diagnostics"]
        assert report["id"] == "unknown-layer"
        assert report["spots"][0]["start"] == {"line": 3, "column": 8, "offset": 38}
        assert report["edit"]["text"] == "layer4"

    def test_several_recipes_give_the_worst_exit_code(self, folder: Path) -> None:
        (folder / "second.leaven").write_text("model nonsense()\ndata digits()\n")
        result = run("check", "first.leaven", "second.leaven", "--concise")
        assert result.exit_code == 1
        assert "first.leaven: no mistakes" in result.output
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
        assert batch.endswith("# line 5, the rest by default")
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
        assert "left as it is" in result.output
        assert file.read_text() == "model resnet18(\n"

    def test_a_link_stays_a_link(self, folder: Path) -> None:
        (folder / "link.leaven").symlink_to("first.leaven")
        (folder / "first.leaven").write_text("model   resnet18()\ndata digits()")
        run("format", "link.leaven")
        assert (folder / "link.leaven").is_symlink()
        assert (folder / "first.leaven").read_text().startswith("model")


class TestNew:
    def test_a_folder_of_images_gets_a_recipe_that_checks(self, folder: Path) -> None:
        images(folder / "photos", ants=20, bees=20)
        result = run("new", "photos", "--model", "resnet18", "--epochs", "10")
        assert result.exit_code == 0, result.output
        assert "2 classes, 40 training images" in result.output
        checked = run("check", "photos.leaven")
        assert checked.output == "photos.leaven: no mistakes; resnet18 on folder (2 classes), 2 phases, 10 epochs\n"
        assert run("format", "--check", "photos.leaven").exit_code == 0

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
        assert "only the class ants" in result.output

    def test_a_misspelt_model_writes_nothing(self, folder: Path) -> None:
        images(folder / "photos", ants=2, bees=2)
        result = run("new", "photos", "--model", "resnt18")
        assert result.exit_code == 1
        assert "did you mean `resnet18`" in result.output
        assert not (folder / "photos.leaven").exists()


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

    def test_inspect_lists_layers_by_their_selector_names(self, folder: Path) -> None:
        listed = run("inspect", "first.leaven").output
        assert "layer4.1.conv2" in listed
        assert "head: fc" in listed


def test_every_command_has_help() -> None:
    for name, command in leaven.commands.items():
        assert run(name, "--help").exit_code == 0, name
        assert command.help, name


def test_a_misspelt_command_gets_the_nearest() -> None:
    result = run("chekc", "x.leaven")
    assert result.exit_code == 2
    assert "Did you mean `check`?" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    assert "_LEAVEN_COMPLETE" in run("completion", shell).output
