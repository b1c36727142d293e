"""How many threads compute: what is written, or one where the layers are too small for several."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import at_work

import leaven
from leaven.plan.plan import Plan
from leaven.planning.explain import explain
from leaven.program.emit import emit
from leaven.program.standalone import standalone

SMALL = "model conv(8) -> conv(16, stride=2) -> global_pool() -> linear(classes)\n"
DIGITS = "data digits() { split train=40 samples, val=20 samples, test=20 samples }\n"


def plan_of(folder: Path, text: str) -> Plan:
    recipe = folder / "recipe.leaven"
    recipe.write_text(text)
    return leaven.make_plan(recipe)


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        (SMALL + "data digits()\n", 1),
        ("model mobilenetv3_small_050()\ndata digits() { size 64 }\n", 1),
        ("model mobilenetv3_small_050()\ndata digits() { size 224 }\n", None),  # layers with twelve times the work
        ("model resnet18()\ndata digits() { size 64 }\n", None),
        (SMALL + "data digits()\ntrain threads=2\n", 2),
        ("model resnet18()\ndata digits()\ntrain threads=1\n", 1),
        (SMALL + "data digits()\ntrain batch=auto\n", 1),  # measured from the usual batch on
    ],
)
def test_one_thread_for_small_layers_and_as_many_as_are_written(text: str, threads: int | None, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, text)
    found = plan.run.argument("threads")
    assert (None if found is None else found.value) == threads
    assert (f"threads={threads}" in emit(plan)) == (threads is not None)
    if "threads=" not in text and threads == 1:
        assert "one thread " in explain(plan)
        assert "# default: its layers are too small for several" in explain(plan)


def test_a_run_computes_with_its_threads_and_is_resumed_with_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n\n\ndef tell(phase, model, scores):\n    print(f'{torch.get_num_threads()} threads')\n"
    )
    text = (
        'import "mine.py" as mine\n' + SMALL + DIGITS + "override after_epoch, mine.tell\ntrain epochs=1, threads=2\n"
    )
    file = at_work.program(tmp_path, text)
    assert "2 threads" in at_work.run(file).said
    folder = at_work.run_folder(file)
    assert json.loads((folder / "lock.json").read_text())["threads"] == 2
    file.write_text(file.read_text().replace("threads=2", "threads=3"))  # what the run began with counts
    assert "2 threads" in at_work.run(file, "--resume", str(folder), "--more-epochs", "1").said


def test_a_standalone_program_has_the_same_threads(tmp_path: Path) -> None:
    program = standalone(plan_of(tmp_path, SMALL + DIGITS + "train epochs=1\n"))
    assert "\n    torch.set_num_threads(1)" in program


@pytest.mark.parametrize("text", ["data digits() { eval resize(1e308) }", "data digits()\ntrain batch=1e308"])
def test_the_largest_numbers_can_be_planned(tmp_path: Path, text: str) -> None:
    assert plan_of(tmp_path, f"model timm.resnet10t()\n{text}\n").run.argument("threads") is None


def test_threads_that_wait_leave_the_processor_to_others(tmp_path: Path) -> None:
    """OpenMP's own default is to spin, which takes many times the CPU time on a busy machine."""
    (tmp_path / "program.py").write_text("import os\n\nprint(os.environ['OMP_WAIT_POLICY'])\n")
    command = [sys.executable, "-m", "leaven.runs.launch", "program.py"]
    for given, expected in (({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")):
        unset = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
        done = subprocess.run(command, cwd=tmp_path, env=unset | given, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected
