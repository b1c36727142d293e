"""User code that changes the working directory: the run goes on, and its files are where it said."""

from pathlib import Path

from tests import at_work

RECIPE = """
import "mine.py" as mine
model conv(4) -> global_pool() -> linear(classes)
data digits() { split train=40 samples, val=20 samples, test=20 samples }
train epochs=2, batch=20
override train_step, mine.step
"""
MINE = """
import os
def step(model, batch, criterion):
    os.chdir("/")
    return criterion(model(batch[0]), batch[1])
"""


def test_a_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    file = at_work.program(tmp_path, RECIPE)
    said = at_work.run(file).said
    folder = at_work.run_folder(file)
    assert {"model.bundle", "metrics.csv", "last.ckpt"} <= {each.name for each in folder.iterdir()}
    assert f"saved {folder.relative_to(tmp_path)}/model.bundle" in said
