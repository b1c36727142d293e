"""Real trainings as jobs: killed and resumed, they end with the same weights, bit for bit."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import coordinators, marked_processes, settings_in, supervisors, wait_until

from leaven.formats.run_folder import BUNDLE, METRICS, read_json
from leaven.jobs import coordinator, requests
from leaven.jobs.package import Package
from leaven.jobs.packing import pack
from leaven.jobs.resources import Resources
from leaven.jobs.states import ENDED, Outcome, State
from leaven.jobs.store.for_users import JobStore
from leaven.language.source import Source
from leaven.planning.compiling import compile_source

EPOCHS = 12
RECIPE = f"""import "mine.py" as mine
model mine.Net()
data  digits()
optimizer adamw(lr=1e-3)
train epochs={EPOCHS}, batch=32
"""
MINE = """import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.body = nn.Linear(64, 32)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(32, num_classes)

    def forward(self, images):
        hidden = torch.relu(self.body(images[:, 0].flatten(1)))
        return self.head(self.dropout(hidden))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.leaven").write_text(RECIPE)
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def slow_down(folder: Path) -> None:
    """Let trainings take some seconds, so that they can be interrupted."""
    slowly = MINE.replace("hidden =", "time.sleep(0.01 * self.training)\n        hidden =")
    (folder / "mine.py").write_text(slowly)


SWEEP = """import "mine.py" as mine
arg lr: float = 0.1
model mine.Net()
data  digits()
optimizer sgd(lr=lr)
train epochs=2, batch=32
sweep lr, [0.1, 1e30, 0.001]
"""


def packed(folder: Path, text: str = RECIPE) -> Package:
    source = Source("small.leaven", text, folder)
    compiled = compile_source(source)
    assert compiled.plan is not None, compiled.diagnostics
    assert compiled.recipe is not None
    return pack(source, compiled.recipe, compiled.plan, Resources(cpus=1))


def weights(run: Path) -> dict[str, bytes]:
    """The tensors in a run's bundle, as bytes."""
    with zipfile.ZipFile(run / BUNDLE) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".safetensors")}


def trained_without_interruption(folder: Path, threads: int = 1) -> dict[str, bytes]:
    words = [sys.executable, "-m", "leaven", "run", "small.leaven", "--name", "reference"]
    subprocess.run(
        words, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, check=True, capture_output=True
    )
    found = weights(folder / "runs" / "small" / "reference")
    assert found
    return found


@pytest.mark.slow
@pytest.mark.jobs
def test_ten_trainings_end_with_the_weights_of_one_that_was_never_interrupted(project: Path) -> None:
    settings = settings_in(project / "jobs", cores=2)
    store = requests.open_store(settings)
    package = packed(project)
    (project / "mine.py").write_text("raise SystemExit('the packed file is used, not this one')\n")
    orders = [requests.Order(package, resources=Resources(cpus=1), retries=50, name=f"job{n}") for n in range(10)]
    ids = requests.submit(store, settings, orders)
    choose, token, killed = random.Random(1), str(store.fact("store")), 0
    at = {id: sorted(choose.sample(range(1, EPOCHS), 2)) for id in ids}  # after which epochs it is killed
    last_progress = time.monotonic()
    try:
        while not all(store.job(str(id)).state in ENDED for id in ids):
            coordinator.start(settings, stays=True)
            assert time.monotonic() < last_progress + 400
            for id in ids:
                job = store.job(str(id))
                if at[id] and job.state is State.RUNNING and epochs_in(Path(job.run)) >= at[id][0]:
                    at[id].pop(0)
                    mine = f"{token}-{id}-"
                    found = choose.choice([marked_processes(mine), supervisors_of(settings.attempts, mine)])
                    if choose.random() < 0.2:
                        found = coordinators(settings.folder)
                    with contextlib.suppress(ProcessLookupError, IndexError):
                        os.kill(choose.choice(found), signal.SIGKILL)
                        killed, last_progress = killed + 1, time.monotonic()
            time.sleep(0.02)
    finally:
        coordinator.stop(settings, store)
    (project / "mine.py").write_text(MINE)
    reference = trained_without_interruption(project)
    assert killed >= 10
    for id in ids:
        job = store.job(str(id))
        assert job.state is State.SUCCEEDED, (job.reason, job.run)
        assert weights(Path(job.run)) == reference
        assert epochs_in(Path(job.run)) == EPOCHS
        assert [one.outcome for one in store.attempts(id)][-1] is Outcome.SUCCEEDED
    assert sum(store.job(str(id)).attempts for id in ids) > len(ids)
    wait_until(lambda: not marked_processes(token))
    wait_until(lambda: not supervisors(settings.attempts))
    store.close()


@pytest.mark.slow
@pytest.mark.jobs
def test_a_training_that_is_paused_saves_and_is_resumed_where_it_was(project: Path) -> None:
    settings = settings_in(project / "jobs", cores=2, grace=60.0)
    store = requests.open_store(settings)
    (id,) = requests.submit(store, settings, [requests.Order(packed(project), resources=Resources(cpus=1))])
    try:
        coordinator.start(settings, stays=True)
        wait_until(lambda: epochs_in(Path(store.job(str(id)).run)) >= 2, "two epochs", 300)
        requests.pause(store, [store.job(str(id))])
        wait_until(lambda: store.job(str(id)).is_paused, "the pause", 300)
        (attempt,) = store.attempts(id)
        assert attempt.outcome is Outcome.STOPPED
        done = epochs_in(Path(store.job(str(id)).run))
        assert done < EPOCHS
        requests.resume(store, [store.job(str(id))])
        wait_until(lambda: store.job(str(id)).state is State.SUCCEEDED, "its end", 300)
    finally:
        coordinator.stop(settings, store)
    assert store.job(str(id)).failures == 0
    assert weights(Path(store.job(str(id)).run)) == trained_without_interruption(project)
    store.close()


def is_swept(store: JobStore, ids: Sequence[int]) -> None:
    """Checks that a sweep has come to its end: its trial with a rate that is far too high is not tried again."""
    *trials, end = [store.job(str(id)) for id in ids]
    assert [job.state for job in trials] == [State.SUCCEEDED, State.FAILED, State.SUCCEEDED]
    assert [(job.attempts, job.failures) for job in trials] == [(1, 0)] * 3
    assert store.attempts(ids[1])[0].outcome is Outcome.DIVERGED
    assert "is not a number" in trials[1].reason or "nan" in trials[1].reason.lower()
    assert end.state is State.SUCCEEDED, end.reason
    folder = Path(end.run)
    assert read_json(folder / "lock.json")["best"] == "trial-01"
    assert weights(folder) == weights(folder / "trial-01")
    assert "diverged" in (folder / "trials.csv").read_text()


@pytest.mark.slow
@pytest.mark.jobs
def test_a_sweep_as_jobs_comes_to_its_end(project: Path) -> None:
    settings = settings_in(project / "jobs", cores=2)
    store = requests.open_store(settings)
    order = requests.Order(packed(project, SWEEP), resources=Resources(cpus=1), is_sweep=True)
    ids = requests.submit(store, settings, [order])
    try:
        coordinator.start(settings, stays=True)
        wait_until(lambda: all(store.job(str(id)).state in ENDED for id in ids), "the sweep to end", 400)
        is_swept(store, ids)
    finally:
        coordinator.stop(settings, store)
        store.close()


def supervisors_of(attempts: Path, prefix: str) -> list[int]:
    return [pid for pid in supervisors(attempts) if f"/{prefix}" in command_of(pid)]


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def epochs_in(run: Path) -> int:
    """How many epochs a run has logged."""
    file = run / METRICS
    return max(0, len(file.read_text().splitlines()) - 1) if file.is_file() else 0
