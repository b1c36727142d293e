"""`leaven run` and `leaven resume`, as a person types them: which run is meant, what it is called, what it records."""

import json
import shutil
from pathlib import Path

import pytest
from tests import at_work
from tests.at_work import Moment
from tests.pages import carry_out

from leaven import runtime

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


class TestFinish:
    @pytest.fixture
    def stopped(self, folder: Path) -> Path:
        """A run of two epochs that got a Ctrl-C in the second, so that its first is the best."""
        (folder / "long.leaven").write_text(RECIPE.replace("epochs=1", "epochs=2") + "log csv()\n")
        program = at_work.program(folder, (folder / "long.leaven").read_text(), "long")
        said = at_work.interrupt(program, "--output", "runs/long", at=Moment(step=6)).said
        run = at_work.run_folder(program, "runs/long")
        assert f"to use its best epoch so far: leaven finish {run.relative_to(folder)}" in said
        return run

    def test_a_stopped_run_can_be_used_and_then_resumed(self, folder: Path, stopped: Path) -> None:
        place = stopped.relative_to(folder)
        runtime.digits().load(0).save(folder / "digit.png")
        assert "using the best epoch so far, 1 of 2" in succeed("leaven finish runs/long", folder)
        assert "scores.json" in {file.name for file in stopped.iterdir()}
        succeed("leaven predict runs/long digit.png", folder)
        again = succeed("leaven finish runs/long", folder)
        assert again == f"{place} is finished early; `leaven resume {place}` trains the rest of it\n"
        assert "train 2/2" in succeed("leaven resume runs/long", folder)
        assert succeed("leaven finish runs/long", folder) == f"{place} is finished\n"
        assert lock(stopped)["commands"][1:] == ["leaven finish runs/long", "leaven resume runs/long"]  # type: ignore[index]

    def test_another_file_can_be_written_from_anywhere(self, folder: Path, stopped: Path, tmp_path: Path) -> None:
        place = tmp_path / "elsewhere"
        place.mkdir()
        succeed(f"leaven finish {stopped / 'last.ckpt'} -o mine.bundle", place)
        assert [file.name for file in place.iterdir()] == ["mine.bundle"]
        assert not (stopped / "model.bundle").exists()

    def test_what_is_no_run_is_told(self, folder: Path) -> None:
        assert carry_out("leaven finish nowhere", folder) == (
            2,
            "error: nowhere is not a run: the folder does not exist\n",
        )
        assert "only smoke tests have a run" in carry_out("leaven finish runs/r", folder)[1]
        assert succeed("leaven finish runs/r/small_quick", folder) == "runs/r/small_quick is finished\n"
