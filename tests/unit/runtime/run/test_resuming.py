"""A run that is interrupted, however, goes on and ends with the same bytes as one that was not."""

import resource
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from tests import at_work
from tests.at_work import Moment

RECIPE = """
model conv(8) -> conv(16, stride=2) -> dropout(0.2) -> global_pool() -> linear(classes)
data digits() { train random_crop(8, padding=1); split train=160 samples, val=40 samples, test=40 samples }
optimizer sgd(lr=0.1, momentum=0.9)
phase "one", epochs=2 { freeze "0" }
phase "two", epochs=3 { ema 0.9 }
train batch=4
"""  # 40 steps in each epoch
EPOCHS = ["one 1/2", "one 2/2", "two 1/3", "two 2/3", "two 3/3"]


def weights(folder: Path, name: str = "last.ckpt") -> dict[str, torch.Tensor]:
    saved = torch.load(folder / name, weights_only=True)
    return dict(saved["state"]["model"] if "state" in saved else saved["model"])


def assert_same(first: Path, second: Path) -> None:
    """Both ended with the same weights, byte for byte, and remember the same epochs."""
    for name in ("last.ckpt", "best.ckpt"):
        one, other = weights(first, name), weights(second, name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), f"{name} differs"
    rows = [
        [line.rpartition(",")[0] for line in (run / "metrics.csv").read_text().splitlines()] for run in (first, second)
    ]
    assert rows[0] == rows[1]
    record, other_record = ((run / "training.jsonl").read_bytes() for run in (first, second))
    assert record == other_record


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program, and a run of it that nothing interrupted."""
    file = at_work.program(tmp_path_factory.mktemp("whole"), RECIPE)
    at_work.run(file, "--output", "whole")
    return file, at_work.run_folder(file, "whole")


@pytest.mark.parametrize(
    ("moment", "first"),
    [
        (Moment(step=1), "one 1/2"),  # before anything is saved
        pytest.param(Moment(file="best.ckpt"), "one 1/2", marks=pytest.mark.slow),
        (Moment(step=50), "one 2/2"),
        (Moment(file="last.ckpt", time=2), "one 2/2"),
        (Moment(file="phase1.ckpt"), "two 1/3"),
        pytest.param(Moment(step=81), "two 1/3", marks=pytest.mark.slow),
        pytest.param(Moment(step=150), "two 2/3", marks=pytest.mark.slow),
        pytest.param(Moment(file="last.ckpt", time=5), "two 3/3", marks=pytest.mark.slow),
        (Moment(file="model.bundle"), None),
    ],
    ids=str,
)
def test_killed_at_any_moment_it_goes_on_with_the_same_bytes(
    whole: tuple[Path, Path], moment: Moment, first: str | None
) -> None:
    file, uncut = whole
    output = f"killed-{moment}"
    at_work.kill(file, "--output", output, at=moment)
    folder = at_work.run_folder(file, output)
    assert not (folder / "model.bundle").exists()
    resumed = at_work.run(file, "--resume", str(folder))
    assert resumed.epochs == (EPOCHS[EPOCHS.index(first) :] if first else []), "what was saved is not trained again"
    assert_same(folder, uncut)
    assert (folder / "model.bundle").is_file()
    assert not list(folder.glob(".*")), "what was half written is removed: checkpoints are large"


def test_a_phase_that_stopped_early_leaves_its_best_weights_even_if_the_next_one_is_killed(tmp_path: Path) -> None:
    phases = """
phase "one", epochs=9 { optimizer sgd(lr=30); early_stop val.loss, patience=1 epoch }
phase "two", epochs=1
"""
    file = at_work.program(tmp_path, RECIPE.partition("phase")[0] + phases)
    uncut = at_work.run(file, "--output", "whole")
    assert "one: stopped early" in uncut.said
    after = len(uncut.epochs)  # the best weights of the second phase are saved, the checkpoint of its epoch isn't
    at_work.kill(file, "--output", "killed", at=Moment(file="last.ckpt", time=after))
    folder = at_work.run_folder(file, "killed")
    assert at_work.run(file, "--resume", str(folder)).epochs == ["two 1/1"]
    assert_same(folder, at_work.run_folder(file, "whole"))


def test_ctrl_c_saves_in_the_middle_of_an_epoch_and_says_how_to_go_on(whole: tuple[Path, Path]) -> None:
    file, uncut = whole
    running = at_work.interrupt(file, "--output", "stopped", at=Moment(step=50))
    folder = at_work.run_folder(file, "stopped")
    assert f"leaven resume {folder.relative_to(file.parent)}" in running.said
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    assert (saved["epoch"], saved["batch"]) == (1, 10)
    at_work.run(file, "--resume", str(folder))
    assert_same(folder, uncut)


EVAL_STEP = """
import multiprocessing, os, signal
from pathlib import Path
calls = 0
def eval_step(model, batch):
    global calls
    calls += 1
    print("evaluation batch", calls, flush=True)
    stop = Path("stop")
    if stop.is_file() and stop.read_text() == str(calls):
        stop.unlink()
        workers = [child.pid for child in multiprocessing.active_children()]
        assert len(workers) == 4  # two for training, two for validation
        for process in (*workers, os.getpid()):
            os.kill(process, signal.SIGTERM)
    return model(batch[0])
"""


@pytest.mark.parametrize(
    ("at", "rest"),
    [
        (7, EPOCHS),  # of the 10 batches of the first validation
        (50, EPOCHS[4:]),
    ],
)
def test_a_signal_to_all_its_processes_stops_an_evaluation_soon_and_without_loss(
    at: int, rest: list[str], tmp_path: Path, whole: tuple[Path, Path]
) -> None:
    (tmp_path / "mine.py").write_text(EVAL_STEP)
    recipe = 'import "mine.py" as mine\n' + RECIPE.replace("split", "workers 2; split")
    file = at_work.program(tmp_path, recipe + "override eval_step, mine.eval_step\n")
    (tmp_path / "stop").write_text(str(at))
    running = at_work.start(file, "--output", "stopped")
    assert running.end() == 130, running.said
    folder = at_work.run_folder(file, "stopped")
    assert f"to resume: leaven resume {folder.relative_to(tmp_path)}" in running.said
    assert f"evaluation batch {at}\n" in running.said
    assert f"evaluation batch {at + 1}\n" not in running.said
    assert at_work.run(file, "--resume", str(folder)).epochs == rest
    assert_same(folder, whole[1])


def test_a_signal_stops_the_test_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("""
import os, signal
from pathlib import Path
def same(image):
    print("image", flush=True)
    if Path("stop").is_file() and '"trained": true' in next(Path("stopped").glob("*/lock.json")).read_text():
        os.remove("stop")
        print("stop", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
    return image
""")
    recipe = 'import "mine.py" as mine\n' + RECIPE.replace("split", "eval mine.same -> resize(8); split")
    file = at_work.program(tmp_path, recipe)
    (tmp_path / "stop").touch()
    running = at_work.start(file, "--output", "stopped")
    assert running.end() == 130, running.said
    assert running.said.partition("stop\n")[2].count("image\n") == 3, "the other images of the batch"
    folder = at_work.run_folder(file, "stopped")
    assert at_work.run(file, "--resume", str(folder)).epochs == []
    assert (folder / "model.bundle").is_file()


def test_a_finished_run_trains_further(whole: tuple[Path, Path]) -> None:
    file, uncut = whole
    folder = file.parent / "further"
    shutil.copytree(uncut, folder)
    running = at_work.run(file, "--resume", str(folder), "--more-epochs", "2")
    assert running.epochs == ["two 4/5", "two 5/5"]
    assert (folder / "metrics.csv").read_text().count("\n") == 1 + 5 + 2
    again = at_work.run(file, "--resume", str(folder))
    assert again.epochs == [], "without --more-epochs there is nothing left to do"


def test_an_extended_run_that_is_killed_still_ends_with_all_its_epochs(whole: tuple[Path, Path]) -> None:
    file, uncut = whole
    straight, cut = file.parent / "straight", file.parent / "cut"
    shutil.copytree(uncut, straight)
    shutil.copytree(uncut, cut)
    at_work.run(file, "--resume", str(straight), "--more-epochs", "2")
    at_work.kill(file, "--resume", str(cut), "--more-epochs", "2", at=Moment(step=50))
    assert at_work.run(file, "--resume", str(cut)).epochs == ["two 5/5"]
    assert_same(cut, straight)


def test_the_arguments_of_the_first_start_hold_for_the_next(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, "arg rate: float = 0.5\n" + RECIPE.replace("lr=0.1", "lr=rate"))
    at_work.run(file, "--rate", "0.1", "--output", "whole")
    at_work.kill(file, "--rate", "0.1", "--output", "cut", at=Moment(step=100))
    folder = at_work.run_folder(file, "cut")
    at_work.run(file, "--resume", str(folder))
    assert_same(folder, at_work.run_folder(file, "whole"))


def test_as_many_processes_load_the_data_as_you_like(whole: tuple[Path, Path], tmp_path: Path) -> None:
    _, uncut = whole
    for workers in (2, 4):
        recipe = RECIPE.replace("split", f"workers {workers}; split")
        file = at_work.program(tmp_path, recipe, f"with_{workers}")
        at_work.run(file, "--output", f"with-{workers}")
        assert_same(at_work.run_folder(file, f"with-{workers}"), uncut)


def test_a_write_that_fails_loses_nothing_saved_earlier(whole: tuple[Path, Path]) -> None:
    file, uncut = whole
    folder = file.parent / "full"
    shutil.copytree(uncut, folder)
    before = {name: (folder / name).read_bytes() for name in ("last.ckpt", "best.ckpt", "model.bundle")}
    limit = {resource.RLIMIT_FSIZE: len(before["last.ckpt"]) // 2}
    running = at_work.start(file, "--resume", str(folder), "--more-epochs", "1", limits=limit)
    assert running.end() == 1
    assert "can't write" in running.said
    assert "Traceback" not in running.said
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert not list(folder.glob(".*")), "nothing half-written is left"


def test_a_folder_that_is_no_run_is_refused(whole: tuple[Path, Path]) -> None:
    file, _ = whole
    running = at_work.start(file, "--resume", "nowhere")
    assert running.end() == 1
    assert running.said.strip() == "error: nowhere does not exist"


def test_a_damaged_checkpoint_is_named(whole: tuple[Path, Path]) -> None:
    file, uncut = whole
    folder = file.parent / "damaged"
    shutil.copytree(uncut, folder)
    content = (folder / "last.ckpt").read_bytes()
    (folder / "last.ckpt").write_bytes(content[: len(content) // 2])
    running = at_work.start(file, "--resume", str(folder))
    assert running.end() == 1
    assert "last.ckpt is damaged" in running.said
    assert "Traceback" not in running.said


def test_a_run_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    for name, shade in (("dark", 20), ("light", 220)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            Image.new("RGB", (8, 8), (shade, number, shade)).save(tmp_path / "photos" / name / f"{number}.png")
    recipe = 'model conv(4) -> global_pool() -> linear(classes)\ndata folder("photos")\ntrain epochs=2, batch=4\n'
    file = at_work.program(tmp_path, recipe)
    at_work.run(file)
    folder = at_work.run_folder(file)
    (tmp_path / "photos" / "dark").rename(tmp_path / "photos" / "night")
    running = at_work.start(file, "--resume", str(folder), "--more-epochs", "1")
    assert running.end() == 1
    assert "the model predicted dark, light when the run was started, now light, night" in running.said


def test_chance_in_code_of_ones_own_is_the_same_after_an_interruption(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def train_step(model, batch, criterion):\n"
        "    share = np.random.beta(0.4, 0.4)\n"
        "    images = share * batch[0] + (1 - share) * batch[0].flip(0)\n"
        "    outputs = model(images)\n"
        "    return share * criterion(outputs, batch[1]) + (1 - share) * criterion(outputs, batch[1].flip(0))\n"
    )
    recipe = 'import "mine.py" as mine\nmodel conv(4) -> global_pool() -> linear(classes)\n'
    recipe += "data digits() { split train=200 samples, val=20 samples, test=20 samples }\n"
    recipe += "optimizer timm.adahessian(lr=0.01)\ntrain epochs=3, batch=4\noverride train_step, mine.train_step\n"
    file = at_work.program(tmp_path, recipe)
    at_work.run(file, "--output", "whole")
    at_work.interrupt(file, "--output", "parts", at=Moment(step=60))
    folder = at_work.run_folder(file, "parts")
    at_work.run(file, "--resume", str(folder))
    assert_same(at_work.run_folder(file, "whole"), folder)


@pytest.mark.parametrize(
    ("length", "epochs"),
    [("steps=50", ["two 1/2", "two 2/2"]), pytest.param("samples=170", ["two 1/2", "two 2/2"], marks=pytest.mark.slow)],
)
def test_a_phase_of_some_steps_ends_in_the_middle_of_an_epoch_and_is_resumed_exactly(
    length: str, epochs: list[str], tmp_path: Path
) -> None:
    file = at_work.program(tmp_path, RECIPE)
    file.write_text(
        file.read_text().replace('run.phase("two", model, data, epochs=3)', f'run.phase("two", model, data, {length})')
    )
    uncut = at_work.run(file, "--output", "whole")
    assert uncut.epochs == EPOCHS[:2] + epochs
    at_work.kill(file, "--output", "killed", at=Moment(step=122))  # in its second epoch
    folder = at_work.run_folder(file, "killed")
    assert at_work.run(file, "--resume", str(folder)).epochs == epochs[1:]
    assert_same(folder, at_work.run_folder(file, "whole"))


def test_a_phase_of_some_minutes_ends_after_a_step(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, RECIPE + "schedule constant()\n")
    text = file.read_text().replace(
        'run.phase("two", model, data, epochs=3)', 'run.phase("two", model, data, minutes=0.0001)'
    )
    file.write_text(text)
    assert "two 1  " in at_work.run(file).said  # nobody knows of how many
    folder = at_work.run_folder(file)
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    assert saved["seconds"] >= 0.006
    assert (folder / "model.bundle").is_file()
