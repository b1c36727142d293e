"""The mistakes of a finished run, by its own record of samples."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.unit.lab.mistakes.conftest import COLOURS, COUNT, HOSTILE

import leaven as package
from leaven.cli.main import leaven
from leaven.formats.run_folder import BUNDLE, SAMPLES, SCORES
from leaven.lab import errors, samples
from leaven.runtime.failures import Failure


def test_a_run_records_each_sample(run: Path) -> None:
    found = samples(run)
    assert found.file == run / SAMPLES
    assert found.counts == {"val": 2 * COUNT, "test": 2 * COUNT, "train": 2 * COUNT}
    measured = {split for split, is_so in zip(found.splits, found.is_measured, strict=True) if is_so}
    assert measured == {"val", "test"}
    test = [split == "test" for split in found.splits]
    scores = json.loads((run / SCORES).read_text())
    assert 1 - found.numbers("error")[test].mean() == pytest.approx(scores["test.accuracy"])


def test_the_record_is_that_of_another_evaluation(run: Path, photos: Path) -> None:
    own, again = samples(run), samples(run, photos)
    assert again.file != own.file
    place = {(split, file): at for at, (split, file) in enumerate(zip(own.splits, own.files, strict=True))}
    for at in np.flatnonzero(again.is_measured).tolist():
        same = place[again.splits[at], again.files[at]]
        for name in ("label", "prediction"):
            assert own.words(name)[same] == again.words(name)[at]
        for name in ("confidence", "loss", "error", "brightness"):
            assert own.numbers(name)[same] == pytest.approx(again.numbers(name)[at], rel=1e-4, abs=1e-5)
    assert int(again.is_measured.sum()) == 2 * COUNT  # what `leaven evaluate` measures


def test_the_worst_are_the_most_confident(run: Path) -> None:
    found = errors(run)
    own = samples(run)
    wrong = own.numbers("confidence")[own.numbers("error") == 1]
    assert [one.confidence for one in found.wrong] == sorted(wrong.tolist(), reverse=True)
    assert len(found.worst) <= 10
    assert all(one.label != one.prediction for one in found.wrong)
    total = sum(one.count for one in found.confusions if not isinstance(one, str))
    assert total == len(found.wrong)


def test_without_torch(run: Path) -> None:
    code = f"""
import sys
from leaven.lab import errors
found = errors({str(run)!r})
found.to_json(); str(found); repr(found)
print([name for name in ("torch", "cleanlab", "matplotlib") if name in sys.modules])
"""
    source = Path(package.__file__).parents[1]
    given = {**os.environ, "PYTHONPATH": str(source)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given, check=True)
    assert ended.stdout == "[]\n"


def test_hostile_names(run: Path, tmp_path: Path) -> None:
    table = tmp_path / "all.csv"
    told = CliRunner().invoke(leaven, ["errors", str(run), "--csv", str(table), "-o", str(tmp_path / "worst.png")])
    assert told.exit_code == 0, told.output
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(rows) == len(errors(run).wrong)
    assert {row["label"] for row in rows} <= set(COLOURS)
    assert (tmp_path / "worst.png").read_bytes().startswith(b"\x89PNG")
    as_json = CliRunner().invoke(leaven, ["errors", str(run), "--json"])
    found = json.loads(as_json.output)
    assert found["measured"] == 4 * COUNT
    assert any(HOSTILE in name for name in samples(run).files)


def test_a_damaged_record_is_made_again(run: Path) -> None:
    file = run / SAMPLES
    file.write_bytes(file.read_bytes()[:200])
    found = samples(run)
    assert found.notes == (f"{SAMPLES} is damaged: samples were measured again",)
    assert int(found.is_measured.sum()) == 4 * COUNT
    file.unlink()
    assert errors(run).samples.notes == (f"{run} has no record of its samples: they were measured now",)


def test_a_record_of_another_model_is_made_again(run: Path, colours_file: Path) -> None:
    (run / BUNDLE).write_bytes(colours_file.read_bytes())
    with pytest.raises(Failure, match="not one of the 3 known classes"):
        samples(run)


def test_changed_and_missing_files(run: Path, photos: Path, tmp_path: Path) -> None:
    image = photos / "test" / "green" / "1.png"
    content, times = image.read_bytes(), (image.stat().st_atime, image.stat().st_mtime)
    try:
        os.utime(image, (times[0], times[1] + 10**6))
        assert samples(run).notes == (
            f"1 file has changed since the run, such as {image}: samples were measured again",
        )
        image.unlink()
        found = errors(run)
        assert found.samples.file == run / SAMPLES
        assert found.picture() is not None
    finally:
        image.write_bytes(content)
        os.utime(image, times)


def test_a_bundle_alone_needs_data(run: Path, tmp_path: Path, photos: Path) -> None:
    alone = tmp_path / "alone.bundle"
    alone.write_bytes((run / BUNDLE).read_bytes())
    with pytest.raises(Failure, match="its data is not known"):
        errors(alone)
    first = samples(alone, photos / "test")
    assert set(first.splits) == {"all"}
    assert samples(alone, photos / "test").file == first.file
    assert np.array_equal(samples(alone, str(photos / "test")).numbers("loss"), first.numbers("loss"))


def test_calibration_adds_up(run: Path) -> None:
    found = errors(run).calibration
    assert not isinstance(found, str)
    assert sum(one.count for one in found.bins) == 4 * COUNT
    assert abs(found.confidence - found.right) <= found.error + 1e-9


def test_a_run_that_is_not_finished_says_so(run: Path) -> None:
    (run / BUNDLE).unlink()
    (run / SAMPLES).unlink()
    found = errors(run)
    assert found.samples.notes == ("the run is not finished: this is about its best epoch so far",)
    assert found.count == 4 * COUNT


def test_what_does_not_exist_is_reported() -> None:
    told = CliRunner().invoke(leaven, ["errors", "nowhere"])
    assert told.exit_code == 1
    assert "nowhere" in told.output
    assert "data is not known" not in told.output
