"""`leaven tinker` as a user types it, and the checks that `leaven evaluate` carries out."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from tests.unit.bundle.conftest import save_colours

from leaven.cli.main import leaven
from leaven.cli.tinker import EDITS
from leaven.lab.edits import image_kinds, text_kinds


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle and a red photo with a blue edge, and a labelled folder to evaluate on."""
    monkeypatch.chdir(tmp_path)
    save_colours(tmp_path / "colours.bundle")
    pixels = np.full((40, 40, 3), (0, 0, 200), dtype=np.uint8)
    pixels[4:36, 4:36] = (230, 40, 20)
    Image.fromarray(pixels).save("photo.png")
    for name in ("red", "green", "blue"):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.new("RGB", (20, 20), name).save(tmp_path / "data" / name / "1.png")
    return tmp_path


def typed(*words: str) -> Result:
    result = CliRunner().invoke(leaven, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_every_edit_is_an_option() -> None:
    assert list(EDITS["image"]) == [kind.name for kind in image_kinds.KINDS]
    assert list(EDITS["text"]) == [kind.name for kind in text_kinds.KINDS]


def test_answers_before_and_after_in_points() -> None:
    result = typed("tinker", "colours.bundle", "photo.png", "--hue", "-0.35", "--top", "2")
    assert result.exit_code == 0
    first, head, blue, *_ = result.stdout.splitlines()
    assert first == "colours.bundle: red → blue"
    assert head.split() == ["before", "after", "points"]
    assert blue.split()[0] == "blue"
    assert blue.split()[-1].startswith("+")
    assert "train color_jitter(hue=0.35)" in result.stdout


def test_edits_are_applied_in_the_order_of_the_command_line() -> None:
    for words, size in ((("--pad", "10", "--crop", "0.5"), (30, 30)), (("--crop", "0.5", "--pad", "10"), (40, 40))):
        assert typed("tinker", "colours.bundle", "photo.png", *words, "-o", "out.png").exit_code == 0
        assert Image.open("out.png").size == size
    typed("tinker", "colours.bundle", "photo.png", "--pad", "1", "--grey", "--pad", "2", "-o", "out.png")
    assert Image.open("out.png").size == (46, 46)


def test_two_models_are_compared() -> None:
    save_colours(Path("other.bundle"))
    result = typed("tinker", "colours.bundle", "photo.png", "--with", "other.bundle", "--pad", "2")
    assert "both models answer red" in result.stdout


def test_a_sweep_has_a_flip_point_and_a_plot() -> None:
    pytest.importorskip("matplotlib")
    words = ("tinker", "colours.bundle", "photo.png", "--sweep", "hue=-0.5:0", "--steps", "6", "-o", "sweep.png")
    result = typed(*words)
    assert result.exit_code == 0
    assert result.stdout.startswith("colours.bundle: red → blue with hue -0.")
    assert Image.open("sweep.png").format == "PNG"
    told = json.loads(typed(*words[:-2], "--json").stdout)
    assert told["curves"][0]["answers"][-1] == "red"
    assert len(told["values"]) == 6


def test_the_smallest_flip_is_searched() -> None:
    result = typed("tinker", "colours.bundle", "photo.png", "--flip")
    assert result.exit_code == 0
    assert "red → " in result.stdout


def test_the_same_as_python() -> None:
    result = typed("tinker", "colours.bundle", "photo.png", "--cover", "0,0,0.5,0.5", "--python")
    assert "edit('photo.png', cover=(0.0, 0.0, 0.5, 0.5))" in result.stdout
    exec(result.stdout, {})


@pytest.mark.parametrize(
    ("words", "report"),
    [
        (("--brightness", "dark"), "error: `brightness`: factor must be a number from 0 to 20, not 'dark'"),
        (("--cover", "0.5"), "error: `cover` takes left, top, width, height, not 1 values"),
        (("--negate",), "error: `negate` is for texts, but colours.bundle takes images"),
        (("--sweep", "brightnes"), "error: there is no edit `brightnes`\nhelp: did you mean `brightness`?"),
        (("--sweep", "hue=1"), "a range is written LOW:HIGH"),
        (("--sweep", "hue", "--flip"), "ask one at a time"),
        (("--paste", "missing.png"), "error: missing.png can't be read: there is no such file"),
    ],
)
def test_what_can_not_be_done_is_reported(words: tuple[str, ...], report: str) -> None:
    result = typed("tinker", "colours.bundle", "photo.png", *words)
    assert result.exit_code != 0
    assert report in result.output


def test_a_finding_becomes_a_check_that_evaluate_carries_out() -> None:
    saved = typed("tinker", "colours.bundle", "photo.png", "--hue", "-0.35", "--save-check", "colours.checks")
    assert 'expect "photo.png" with hue -0.35 is "red"' in saved.stderr
    result = typed("evaluate", "colours.bundle", "--data", "data")
    assert result.exit_code == 1
    assert "0 of 1 checks hold" in result.stdout
    assert 'colours.checks:1: expect "photo.png" with hue -0.35 is "red"; the answer is blue' in result.stdout
    Path("colours.checks").write_text('expect "photo.png" with hue -0.35 is "blue"\n')
    result = typed("evaluate", "colours.bundle", "--data", "data", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["checks"][0]["holds"] is True


def test_checks_need_no_data() -> None:
    Path("my.checks").write_text('expect "photo.png" is "red"\n')
    result = typed("evaluate", "colours.bundle", "--checks", "my.checks")
    assert (result.exit_code, result.stdout) == (0, "1 of 1 checks hold\n")


def test_faulty_checks_are_reported_before_anything_is_measured() -> None:
    Path("colours.checks").write_text('expect "photo.png" paded by 8 px is "red"\n')
    result = typed("evaluate", "colours.bundle", "--data", "data")
    assert result.exit_code == 1
    assert "accuracy" not in result.stdout
    assert "colours.checks:1:20" in result.stderr
    assert "help: write `padded by PIXELS px`" in result.stderr


def test_a_journal_notes_the_question() -> None:
    typed("tinker", "colours.bundle", "photo.png", "--pad", "2", "--journal", "journal.jsonl")
    typed("tinker", "colours.bundle", "photo.png", "--sweep", "pad=0:4", "--journal", "journal.jsonl")
    assert [json.loads(line)["call"] for line in Path("journal.jsonl").read_text().splitlines()] == [
        "predictions", "vary"
    ]  # fmt: skip
