"""Techniques with a memory, or with a plan for the phase: a run that is killed ends with the same bytes."""

from pathlib import Path

import pytest
from tests import at_work
from tests.at_work import Moment
from tests.unit.runtime.run.test_resuming import assert_same

RECIPE = """
model conv(8) -> res_block(8, stride=2) -> dropout(0.2) -> global_pool() -> linear(classes)
data digits() {{ train random_crop(8, padding=1); split train=80 samples, val=20 samples, test=20 samples }}
optimizer adamw(lr=0.01)
phase "one", epochs=3 {{ {techniques} }}
phase "two", epochs=1 {{}}
train batch=4
"""  # 20 steps in each epoch
TOGETHER = [
    "thaw; l2_sp",
    'freeze all - head; unfreeze "1", at=1 epoch; unfreeze "0", at=2 epochs',
    "lp_ft 2; layer_decay 0.5",
    "swa start=0 epochs, lr=0.001; lookahead 3; sam",
    "soup; stochastic_depth 0.5; gradient_centralization",
    "wise_ft 0.5; progressive_resizing; logit_adjustment; mixup",
]


@pytest.mark.slow
@pytest.mark.parametrize("techniques", TOGETHER)
def test_killed_in_the_middle_it_resumes(tmp_path: Path, techniques: str) -> None:
    file = at_work.program(tmp_path, RECIPE.format(techniques=techniques))
    at_work.run(file, "--output", "whole")
    at_work.kill(file, "--output", "cut", at=Moment(step=50))
    folder = at_work.run_folder(file, "cut")
    assert at_work.run(file, "--resume", str(folder)).epochs == ["one 3/3", "two 1/1"]
    assert_same(folder, at_work.run_folder(file, "whole"))
