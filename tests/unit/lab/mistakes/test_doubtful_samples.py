"""Planted label errors and planted duplicates are found; groups in which a model is worse are named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter
from scipy.stats import fisher_exact, mannwhitneyu

from leaven.formats import sample_table
from leaven.lab import errors
from leaven.lab.mistakes.errors import Errors
from leaven.lab.mistakes.samples import Samples
from leaven.lab.mistakes.slices import _fisher_p, _ranks_p, wilson


def record(folder: Path, columns: Mapping[str, Any], **facts: Any) -> Samples:
    file = folder / "samples.parquet"
    sample_table.write(file, [columns], {"kind": "class", "outputs": ["a", "b"], "start": str(folder), **facts})
    return Samples(sample_table.SampleTable(file), "a model")


def test_planted_label_errors_are_among_the_most_suspect(tmp_path: Path) -> None:
    pytest.importorskip("cleanlab")
    from sklearn.datasets import load_digits

    digits, rng = load_digits(), np.random.default_rng(0)
    images, truth = digits.data[:900], digits.target[:900]
    planted = rng.choice(len(truth), len(truth) // 20, replace=False)
    labels = truth.copy()
    labels[planted] = (truth[planted] + rng.integers(1, 10, len(planted))) % 10
    columns = {
        "split": ["train"] * 700 + ["test"] * 200,
        "index": np.arange(900),
        "file": [f"{number}.png" for number in range(900)],
        "label": [str(label) for label in labels],
        "features": images.astype(np.float16),
    }
    found = Errors(record(tmp_path, columns, outputs=[str(n) for n in range(10)]), folds=5).suspects
    assert not isinstance(found, str)
    assert len(found) == len(labels)
    most = {one.at for one in found[: len(labels) // 10]}
    assert len(most & set(planted.tolist())) >= 0.7 * len(planted)
    right = [one for one in found if one.at in set(planted.tolist()) and one.suggested == str(truth[one.at])]
    assert len(right) >= 0.7 * len(planted)


@pytest.mark.slow
def test_folds_judge_every_sample_of_a_run(run: Path) -> None:
    pytest.importorskip("cleanlab")
    found = errors(run, folds=3)
    assert not isinstance(found.suspects, str)
    assert {one.split for one in found.suspects} == {"train", "val", "test"}
    assert len(found.suspects) == len(found.samples)
    own = errors(run).suspects
    assert not isinstance(own, str)
    assert {one.split for one in own} == {"val", "test"}  # the run was trained on the others


def test_planted_duplicates_of_images_are_all_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    files = []

    def save(name: str, image: Image.Image, **how: Any) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image.save(tmp_path / name, **how)
        files.append(name)

    def drawn() -> Image.Image:
        coarse = Image.fromarray(rng.integers(0, 255, (6, 6, 3), dtype=np.uint8))
        return coarse.resize((96, 96), Image.Resampling.BICUBIC)

    originals = [drawn() for _ in range(40)]
    for number, image in enumerate(originals):
        save(f"train/{number}.png", image)
    for number in range(5):
        save(f"test/same{number}.png", originals[number])
        save(f"test/smaller{number}.jpg", originals[10 + number].resize((60, 60)), quality=60)
        save(f"val/darker{number}.png", originals[20 + number].filter(ImageFilter.GaussianBlur(1)))
    for number in range(20):
        save(f"test/other{number}.png", drawn())
    save("val/broken.png", originals[0])
    (tmp_path / "val" / "broken.png").write_bytes(b"not an image")
    files.append("test/missing.png")
    splits = [Path(name).parent.name for name in files]
    labels = ["a"] * len(files)
    found = Errors(record(tmp_path, {"split": splits, "file": files, "label": labels})).duplicates
    assert not isinstance(found, str)
    exact = {tuple(sorted(one.files)) for one in found if one.is_exact}
    near = {tuple(sorted(one.files)) for one in found if not one.is_exact}
    assert exact == {(f"test/same{n}.png", f"train/{n}.png") for n in range(5)}
    smaller = {(f"test/smaller{n}.jpg", f"train/{10 + n}.png") for n in range(5)}
    assert near == smaller | {(f"train/{20 + n}.png", f"val/darker{n}.png") for n in range(5)}


def test_planted_duplicates_of_texts_are_all_found(tmp_path: Path) -> None:
    long = "the film was long and the story of the sea did not end before the last of us had left the room"
    texts = [
        "A good film!",
        "a GOOD film",
        long,
        f"{long}, quietly",
        "something else entirely, which nobody has written before",
        "A good film!",
    ]
    splits = ["train", "test", "train", "test", "test", "val"]
    columns = {"split": splits, "file": [f"row {n}" for n in range(6)], "label": ["a"] * 6, "text": texts}
    found = Errors(record(tmp_path, columns)).duplicates
    assert not isinstance(found, str)
    pairs = {(one.a, one.b): one.is_exact for one in found}
    assert pairs == {(0, 5): True, (0, 1): False, (1, 5): False, (2, 3): False}


def test_a_group_with_more_errors_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    count = 400
    folders = rng.choice(["kitchen", "garden", "street", "cellar"], count)
    wrong = (rng.random(count) < np.where(folders == "cellar", 0.6, 0.1)).astype(float)
    columns = {
        "split": ["test"] * count,
        "file": [f"{folder}/{number}.jpg" for number, folder in enumerate(folders)],
        "label": rng.choice(["a", "b"], count).tolist(),
        "prediction": ["a"] * count,
        "error": wrong,
        "brightness": rng.random(count),
    }
    found = Errors(record(tmp_path, columns)).slices
    assert [(one.by, one.name) for one in found] == [("folder", "cellar")]
    assert found[0].low < found[0].error < found[0].high
    assert found[0].error == pytest.approx(wrong[folders == "cellar"].mean())
    assert Errors(record(tmp_path, {**columns, "error": rng.permutation(wrong)})).slices == []


def test_statistics_are_those_of_scipy() -> None:
    for wrong, total, other, others in ((5, 20, 4, 60), (0, 9, 3, 30), (9, 9, 3, 30)):
        table = [[wrong, total - wrong], [other, others - other]]
        expected = fisher_exact(table, alternative="greater").pvalue
        assert _fisher_p(wrong, total, other, others) == pytest.approx(expected)
    rng = np.random.default_rng(0)
    own, rest = rng.normal(0.4, 1, 30).round(1), rng.normal(0, 1, 50).round(1)
    expected = mannwhitneyu(own, rest, alternative="greater", use_continuity=False, method="asymptotic").pvalue
    assert _ranks_p(own, rest) == pytest.approx(expected)
    assert wilson(0, 10)[0] == 0


def test_what_makes_no_sense_for_a_task_is_said(tmp_path: Path) -> None:
    columns = {
        "split": ["test"] * 3,
        "file": ["1", "2", "3"],
        "label": ["1.0", "2.0", "3.0"],
        "prediction": ["1.5", "2.0", "9.0"],
        "error": np.array([0.5, 0.0, 6.0]),
    }
    found = Errors(record(tmp_path, columns, kind="number", outputs=["age"]))
    assert [one.file for one in found.worst] == ["3", "1"]
    told = [found.confusions, found.calibration, found.suspects, found.duplicates]
    assert all(isinstance(one, str) and "\n" not in one for one in told)
    assert found.to_json(["worst", "suspects"])["wrong"] is None
