"""A survey where not everything is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_library_that_breaks_costs_only_its_own_cards(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "timm.py").write_text("raise RuntimeError('built for another torch\\nand more')")
    (broken / "torchmetrics.py").write_text("import lightning_utilities_of_old")
    paths = [str(broken), *sys.path]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "leaven.survey.libraries", str(tmp_path / "index")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = (tmp_path / "index" / "libraries.jsonl").read_text().splitlines()[-1]
    absent = json.loads(told)["absent"]
    assert absent == {
        "timm": "can't be imported: RuntimeError: built for another torch",
        "torchmetrics": "needs lightning_utilities_of_old, which is not installed",
    }
    models = (tmp_path / "index" / "model.jsonl").read_text()
    assert "torchvision.resnet18" in models
    assert "timm.resnet18" not in models
