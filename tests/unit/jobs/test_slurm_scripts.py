"""The batch scripts of attempts on Slurm, without a cluster."""

from pathlib import Path

import pytest

from leaven.jobs.environments.environment import Task
from leaven.jobs.environments.slurm import Slurm
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry


def script(folder: Path, entry: Entry, **resources: int) -> str:
    task = Task("x-1", folder / "x-1", folder / "a run", folder, entry, ("--lr=1",), Resources(**resources))
    return Slurm({"python": "/venv/bin/python"}, folder, folder / "wake").script(task)


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_end_of_a_sweep_is_never_a_training(tmp_path: Path, nodes: int) -> None:
    found = script(tmp_path, Entry.END_SWEEP, nodes=nodes)
    assert "-m leaven finish" in found
    assert "program.py" not in found


def test_on_several_nodes_each_says_by_which_address_it_can_be_reached(tmp_path: Path) -> None:
    (line,) = [line for line in script(tmp_path, Entry.PROGRAM, nodes=2, processes=4).splitlines() if "srun" in line]
    assert "--nnodes=2" in line
    assert "--nproc-per-node=4" in line
    assert "--rdzv-endpoint=$first:" in line
    assert "--local-addr=$this" in line
