"""Whether a teacher was trained for the data's classes is found before anything starts, and without torch."""

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

import leaven
from leaven.rules.checker import Checked

DIGITS = [str(digit) for digit in range(10)]


def write_bundle(file: Path, classes: list[str], by: str = "timm", name: str = "resnet18") -> None:
    """As much of a bundle as tells what it is."""
    target = {"names": classes, "column": "label"}
    built_by = {"by": by, "name": name}
    told = {"task": "classification", "target": target, "built_by": built_by, "preprocess": None, "shape": [3, 32, 32]}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("bundle.json", json.dumps(told))


def write_safetensors(file: Path, shapes: dict[str, list[int]]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    header |= {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text)


def check(folder: Path, teacher: str, technique: str = "distill", more: str = "") -> Checked:
    recipe = folder / "r.leaven"
    lines = ["model efficientnet_lite0(pretrained=true)", "data digits() { eval resize(32) }", f"{technique} {teacher}"]
    recipe.write_text("\n".join([*lines, more]), encoding="utf-8")
    return leaven.check(recipe)


def told(checked: Checked) -> list[tuple[str, str]]:
    return [(found.id, found.headline) for found in checked.diagnostics]


WAYS = ['bundle("t.bundle")', 'resnet18(weights="t.bundle")']


@pytest.mark.parametrize("teacher", WAYS)
def test_a_bundle_for_the_same_classes_teaches(tmp_path: Path, teacher: str) -> None:
    write_bundle(tmp_path / "t.bundle", DIGITS)
    assert told(check(tmp_path, teacher)) == []


@pytest.mark.parametrize("teacher", WAYS)
def test_a_bundle_for_another_number_of_classes_is_refused(tmp_path: Path, teacher: str) -> None:
    write_bundle(tmp_path / "t.bundle", ["cat", "dog"])
    name = teacher.partition("(")[0]
    assert told(check(tmp_path, teacher)) == [
        ("class-count", f"the teacher {name} has 2 outputs, but the data has 10 classes")
    ]


def test_classes_in_another_order_are_reported_at_the_first_difference(tmp_path: Path) -> None:
    write_bundle(tmp_path / "t.bundle", [*DIGITS[:4], "5", "4", *DIGITS[6:]])
    checked = check(tmp_path, WAYS[0])
    assert told(checked) == [("unequal-classes", "class 5 of the teacher is `5`, but class 5 of the data is `4`")]
    assert checked.diagnostics[0].notes == ("the names are the same, in another order",)


def test_classes_of_a_folder_are_compared_by_name(tmp_path: Path) -> None:
    for name in ("ants", "bees"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            (tmp_path / "photos" / name / f"{number}.jpg").write_bytes(b"\xff\xd8\xff")
    write_bundle(tmp_path / "t.bundle", ["ants", "wasps"])
    recipe = tmp_path / "r.leaven"
    recipe.write_text(
        'model efficientnet_lite0(pretrained=true)\ndata folder("photos")\ndistill bundle("t.bundle")\n',
        encoding="utf-8",
    )
    assert ("unequal-classes", "class 2 of the teacher is `wasps`, but class 2 of the data is `bees`") in told(
        leaven.check(recipe)
    )


def test_features_may_come_from_a_teacher_of_other_classes(tmp_path: Path) -> None:
    write_bundle(tmp_path / "t.bundle", ["cat", "dog"])
    assert told(check(tmp_path, WAYS[0], "distill_features")) == []
    assert told(check(tmp_path, "efficientnet_lite0(pretrained=true)", "distill_features")) == []


def test_code_in_a_bundle_must_be_trusted(tmp_path: Path) -> None:
    write_bundle(tmp_path / "t.bundle", DIGITS, by="own", name="Net")
    assert [id for id, _ in told(check(tmp_path, WAYS[0]))] == ["untrusted-code"]
    assert told(check(tmp_path, 'bundle("t.bundle", trust_code=true)')) == []


def test_a_bundle_as_the_model_is_reported_with_its_name(tmp_path: Path) -> None:
    write_bundle(tmp_path / "t.bundle", DIGITS)
    recipe = tmp_path / "r.leaven"
    recipe.write_text('model bundle("t.bundle")\ndata digits()\n', encoding="utf-8")
    (found,) = leaven.check(recipe).diagnostics
    assert found.id == "wrong-value"
    assert found.fix is not None
    assert '`model timm.resnet18(weights="t.bundle")`' in str(found.fix)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_the_outputs_of_safetensors_are_known(tmp_path: Path, prefix: str) -> None:
    teacher = 'efficientnet_lite0(weights="t.safetensors")'
    write_safetensors(tmp_path / "t.safetensors", {f"{prefix}classifier.weight": [7, 1280], "other.weight": [3, 3]})
    assert told(check(tmp_path, teacher)) == [
        ("class-count", "the teacher efficientnet_lite0 has 7 outputs, but the data has 10 classes")
    ]
    write_safetensors(tmp_path / "t.safetensors", {f"{prefix}classifier.weight": [10, 1280]})
    assert told(check(tmp_path, teacher)) == []


def test_other_files_are_checked_when_they_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "t.pth").write_bytes(b"\x80\x02")
    assert told(check(tmp_path, 'resnet18(weights="t.pth")')) == [
        ("not-checked", "the classes of `t.pth` are known only when it is loaded")
    ]


def test_an_error_in_every_phase_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "t.pth").write_bytes(b"\x80\x02")
    phases = 'phase "a", epochs=1 { mixup 0.1 }\nphase "b", epochs=1 { ema 0.9 }\n'
    assert len(told(check(tmp_path, 'resnet18(weights="t.pth")', more=phases))) == 1
    assert len(told(check(tmp_path, "resnet18()", more=phases))) == 1
    twice = "before_phase(), weight=0.6\ndistill before_phase(), weight=0.6"
    assert len(told(check(tmp_path, twice, more=phases))) == 1
