"""What goes wrong while a program trains is said in the recipe's terms, and what it made is kept."""

import csv
import json
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from tests import at_work

from leaven.cli.main import leaven as commands

NET = "model conv(8) -> conv(16, stride=2) -> global_pool() -> linear(classes)\n"
DIGITS = "data digits() { split train=80 samples, val=40 samples, test=40 samples }\n"


def photos(folder: Path, classes: dict[str, int]) -> Path:
    """A folder of small made pictures, so many of each class."""
    chance = np.random.default_rng(0)
    for number, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            pixels = chance.integers(0, 90, (12, 12, 3), dtype=np.uint8) + np.uint8(80 * number)
            Image.fromarray(pixels).save(folder / name / f"{index}.png")
    return folder


def failure(file: Path, *flags: str, **more: dict[int, int]) -> str:
    """What a program says that fails; never a traceback."""
    running = at_work.start(file, *flags, **more)
    assert running.end() == 1, running.said
    assert "Traceback" not in running.said
    return running.said[running.said.index("error:") :]


def test_a_run_leaves_everything_in_its_folder(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, NET + DIGITS + "train epochs=2\nlog tensorboard()\n")
    said = at_work.run(file).said
    folder = at_work.run_folder(file)
    names = {path.name for path in folder.iterdir()}
    assert names >= {"program.py", "lock.json", "metrics.csv", "scores.json", "last.ckpt", "best.ckpt", "model.bundle"}
    assert (folder / "program.py").read_text() == file.read_text()
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    assert [(row["phase"], row["epoch"]) for row in rows] == [("train", "1"), ("train", "2")]
    assert json.loads((folder / "scores.json").read_text()).keys() == {"test.accuracy"}
    lock = json.loads((folder / "lock.json").read_text())
    assert lock["packages"]["torch"]
    assert lock["seed"] == 0
    assert any((folder / "tensorboard").iterdir())
    assert "train 2/2" in said
    assert "  test " in said
    assert f"saved {folder.relative_to(tmp_path)}/model.bundle" in said


def test_quick_goes_through_everything_in_two_batches(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, NET + DIGITS + "train epochs=50, batch=2\n")
    said = at_work.run(file, "--quick").said
    assert "train 1/1" in said
    folder = at_work.run_folder(file)
    assert (folder / "model.bundle").is_file()
    further = at_work.start(file, "--resume", str(folder), "--more-epochs", "1")
    assert further.end() == 2
    assert f"error: {folder} was a smoke test; it can't be trained further" in further.said
    asked = CliRunner().invoke(commands, ["resume", str(folder), "--epochs", "+1"])
    assert (asked.exit_code, asked.stderr) == (2, f"error: {folder} was a smoke test; it can't be trained further\n")
    assert CliRunner().invoke(commands, ["resume", str(folder)]).output == f"{folder} is finished\n"


def test_a_loss_that_is_no_number_names_the_batch_and_the_line(tmp_path: Path) -> None:
    net = "model conv(8, norm=false) -> conv(8, norm=false) -> global_pool() -> linear(classes)\n"
    file = at_work.program(tmp_path, net + DIGITS + "optimizer sgd(lr=1e18)\ntrain batch=4\n")
    assert failure(file).splitlines() == [
        'error: the loss is nan at batch 2 of epoch 1 in phase "train"',
        "  --> recipe.leaven:3",
        "help: try a smaller learning rate",
    ]


def test_a_loss_that_breaks_later_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\ncalls = 0\n"
        "def train_step(model, batch, criterion):\n"
        "    global calls\n    calls += 1\n"
        "    loss = criterion(model(batch[0]), batch[1])\n"
        "    return loss * float('inf') if calls > 30 else loss\n"
    )
    recipe = (
        'import "mine.py" as mine\n' + NET + DIGITS + "train epochs=3, batch=4\noverride train_step, mine.train_step\n"
    )
    file = at_work.program(tmp_path, recipe)
    said = failure(file)
    assert "at batch 11 of epoch 2" in said
    folder = at_work.run_folder(file)
    assert "last.ckpt" in said
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    assert saved["epoch"] == 1
    assert all(torch.isfinite(value).all() for value in saved["state"]["model"].values())
    assert "the loss is inf" in json.loads((folder / "lock.json").read_text())["diverged"]
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text().replace("calls > 30", "calls > 100"))
    assert at_work.run(file, "--resume", str(folder)).epochs == ["train 2/3", "train 3/3"]
    assert not json.loads((folder / "lock.json").read_text())["diverged"]


@pytest.mark.slow
def test_too_little_memory_says_which_batch_would_fit(tmp_path: Path) -> None:
    net = "model conv(64) -> conv(64) -> conv(64) -> global_pool() -> linear(classes)\n"
    file = at_work.program(tmp_path, net + "data digits() { eval resize(64) }\ntrain epochs=1, batch=512\n")
    in_use = _address_space(tmp_path)
    said = failure(file, "--quick", limits={resource.RLIMIT_AS: in_use + 2**30})
    assert "error: a batch of 512 does not fit into memory" in said
    assert "--> recipe.leaven:3" in said
    fits = int(said.partition("a batch of ")[2].partition("a batch of ")[2].split()[0])
    assert 1 <= fits < 512
    assert f"`train batch={fits}, accumulate={512 // fits}`, which gives about the same gradients" in said


def _address_space(folder: Path) -> int:
    """What a process with the libraries loaded takes at least, in bytes."""
    file = folder / "idle.py"
    file.write_text("print(open('/proc/self/statm').read().split()[0])\n")
    return int(at_work.run(file).said) * os.sysconf("SC_PAGE_SIZE")


def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import time\n"
        "def train_step(model, batch, criterion):\n"
        "    loss = criterion(model(batch[0]), batch[1])\n"
        "    print('thinking', flush=True)\n    time.sleep(600)\n    return loss\n"
    )
    recipe = 'import "mine.py" as mine\n' + NET + DIGITS + "override train_step, mine.train_step\n"
    running = at_work.start(at_work.program(tmp_path, recipe)).until("thinking")
    assert running.process.pid is not None
    os.kill(running.process.pid, signal.SIGINT)
    running.until("press Ctrl-C again to quit")
    os.kill(running.process.pid, signal.SIGINT)
    assert running.end() == 130


# -- pictures


def test_a_broken_picture_stops_the_run_and_is_named(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", {"ants": 12, "bees": 12})
    content = (folder / "bees" / "3.png").read_bytes()
    (folder / "bees" / "3.png").write_bytes(content[: len(content) // 2])
    recipe = NET + 'data folder("photos") { eval resize([12, 12]); workers 0 }\n'
    said = failure(at_work.program(tmp_path, recipe + "train epochs=1, batch=4\n"))
    assert said.startswith("error: photos/bees/3.png can't be read")
    assert "on_bad_file skip" in said


def test_broken_pictures_can_be_skipped_and_are_counted(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", {"ants": 12, "bees": 12})
    (folder / "bees" / "3.png").write_bytes(b"no picture")
    recipe = NET + 'data folder("photos") { eval resize([12, 12]); workers 0; on_bad_file skip }\n'
    said = at_work.run(at_work.program(tmp_path, recipe + "train epochs=2, batch=4\n")).said
    assert "1 sample could not be read and was skipped" in said
    assert "photos/bees/3.png" in said


def test_a_class_with_one_picture_is_trained_on_and_told(tmp_path: Path) -> None:
    photos(tmp_path / "photos", {"ants": 12, "bees": 12, "wasps": 1})
    recipe = NET + 'data folder("photos") { eval resize([12, 12]); workers 0 }\ntrain epochs=1, batch=4\n'
    said = at_work.run(at_work.program(tmp_path, recipe)).said
    assert "\nwarning: wasps has only one sample" in said


def test_the_name_of_a_file_can_not_command_the_terminal(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", {"ants": 12, "bees": 12})
    for name in ("ants", "bees"):
        (folder / name / "\x1b[2Jsame.png").write_bytes((folder / "ants" / "1.png").read_bytes())
    recipe = NET + 'data folder("photos") { eval resize([12, 12]); workers 0 }\ntrain epochs=1, batch=4\n'
    said = at_work.run(at_work.program(tmp_path, recipe)).said
    (line,) = [line for line in said.splitlines() if "␛[2Jsame.png" in line]
    assert line.startswith("warning: ")
    assert "\x1b" not in said


def test_a_folder_that_became_empty_is_named(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", {"ants": 6, "bees": 6})
    file = at_work.program(tmp_path, NET + 'data folder("photos") { eval resize([12, 12]) }\ntrain epochs=1\n')
    for picture in folder.glob("*/*.png"):
        picture.unlink()
    assert "photos" in failure(file)


# -- several processes


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_train_one_model(tmp_path: Path, processes: int) -> None:
    recipe = NET + DIGITS + f"train epochs=2, batch=8, devices={processes}\n"
    file = at_work.program(tmp_path, recipe)
    said = at_work.run(file).said
    assert f"Starting with {processes} processes" in said
    assert said.count("train 2/2") == 1, "one of them speaks for all"
    folders = list((tmp_path / "runs" / "recipe").iterdir())
    assert len(folders) == 1
    assert json.loads((folders[0] / "lock.json").read_text())["processes"] == processes
    assert (folders[0] / "model.bundle").is_file()
