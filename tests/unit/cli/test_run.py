"""`leaven run` and `leaven resume`, as a person types them: which run is meant, what it is called, what it records."""

import json
import shutil
from pathlib import Path

import pytest
from tests.pages import carry_out

RECIPE = """
arg lr: float = 0.1
model conv(4) -> global_pool() -> linear(classes)
data digits() { split train=64 samples, val=16 samples, test=16 samples }
optimizer sgd(lr=lr)
train epochs=1, batch=16
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe and a smoke test of it, called `small`."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "r.leaven").write_text(RECIPE)
    succeed("leaven run r.leaven --quick --name small --lr 0.05", folder)
    return folder


@pytest.fixture
def folder(place: Path, tmp_path: Path) -> Path:
    return shutil.copytree(place, tmp_path / "copy")


def succeed(command: str, folder: Path) -> str:
    code, said = carry_out(command, folder)
    assert code == 0, said
    return said


def lock(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "lock.json").read_text())
    return found


def test_a_run_has_its_name_and_what_was_typed(folder: Path) -> None:
    small = folder / "runs" / "r" / "small_quick"
    assert lock(small)["commands"] == ["leaven run r.leaven --quick --name small --lr 0.05"]
    (small / "model.bundle").unlink()
    (small / "lock.json").write_text(json.dumps({**lock(small), "finished": False}))
    succeed("leaven resume runs/r/small_quick", folder)
    assert lock(small)["commands"] == [
        "leaven run r.leaven --quick --name small --lr 0.05",
        "leaven resume runs/r/small_quick",
    ]


@pytest.mark.parametrize(
    "command",
    [
        "leaven predict runs/r x.png",
        "leaven export runs/r --to torch_export",
        "leaven resume runs/r",
    ],
)
def test_a_smoke_test_is_not_meant_by_the_folder_of_runs(folder: Path, command: str) -> None:
    code, said = carry_out(command, folder)
    assert code != 0
    assert "error: only smoke tests have" in said
    assert "pass the smoke test: runs/r/small_quick" in said


def test_a_name_that_is_taken_or_wrong_starts_nothing(folder: Path) -> None:
    (folder / "runs" / "r" / "taken").mkdir()
    code, said = carry_out("leaven run r.leaven --name taken", folder)
    assert (code, said) == (
        2,
        "error: runs/r/taken exists already; choose another name, or resume it: leaven resume runs/r/taken\n",
    )
    code, said = carry_out("leaven run r.leaven --name a/b", folder)
    assert code == 2
    assert "`a/b` can't be the name of a run: use letters" in said
    assert sorted(path.name for path in (folder / "runs" / "r").iterdir()) == ["small_quick", "taken"]
