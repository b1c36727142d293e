"""What is submitted to Slurm and how its words are understood, without a cluster."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from leaven.jobs.environments.environment import Refused, Task, Unreachable
from leaven.jobs.environments.slurm import Slurm, batch_script
from leaven.jobs.environments.slurm_reasons import why_it_waits
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry, Outcome

Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Let a command of Slurm's print something."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(command: str, said: str, code: int = 0) -> None:
        (tmp_path / f"{command}.said").write_text(said)
        (tmp_path / command).write_text(f"#!/bin/sh\ncat '{tmp_path}/{command}.said'\nexit {code}\n")
        (tmp_path / command).chmod(0o755)

    return write


def slurm(folder: Path) -> Slurm:
    (folder / "x-1").mkdir(exist_ok=True)
    return Slurm({"poll": 0.0}, folder, folder / "wake")


@pytest.mark.parametrize("name", ["a b", "100%j", "it's", '"so"', "#1", "@this-node", "$HOME", "back\\slash", "ä\nb"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The script is run as it is, with an `srun` that prints its arguments."""
    folder = tmp_path / name / "x-1"
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\"\n")
    srun.chmod(0o755)
    script = batch_script("/a b/python", [[str(folder)]])
    settings = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "2"}
    subprocess.run(["bash", "-c", script], env=settings, check=True)
    assert (folder / "slurm.log").read_text().split("\0") == [
        "--kill-on-bad-exit=1",
        "--cpus-per-task=2",
        "/a b/python",
        "-m",
        "leaven.jobs.agent",
        str(folder),
        "",
    ]


def test_only_one_that_slurm_begins_again_forgets_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    files = [tmp_path / "outcome.json", tmp_path / "node-1" / "begun.json"]
    for restarts, are_kept in (("", True), ("1", False)):
        for file in files:
            file.touch()
        settings = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_RESTART_COUNT": restarts or "0"}
        subprocess.run(["bash", "-c", batch_script("python", [[str(tmp_path)]])], env=settings, check=True)
        assert [file.exists() for file in files] == [are_kept] * 2


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("Resources", "waits for nodes to be free (Slurm: Resources)"),
        ("Priority", "jobs of higher priority are first (Slurm: Priority)"),
        (
            "QOSMaxCpuPerUserLimit",
            "the limit of cores per user of its quality of service is reached (Slurm: QOSMaxCpuPerUserLimit)",
        ),
        ("AssocGrpGRES", "Slurm says: AssocGrpGRES"),
        ("AssocGrpCpuLimit", "the limit of cores of its account is reached (Slurm: AssocGrpCpuLimit)"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n0",
            "nodes that it needs are not available (Slurm: ReqNodeNotAvail, UnavailableNodes:n0)",
        ),
        ("None", "waits in Slurm's queue, which has not looked at it yet"),
        ("SomethingNew", "Slurm says: SomethingNew"),
    ],
)
def test_why_a_job_waits(word: str, told: str) -> None:
    assert why_it_waits(word) == told


def test_a_job_that_waits_reports_why(tmp_path: Path, play: Play) -> None:
    play("squeue", "7|PENDING|Resources|leaven-x-1\n")
    status = slurm(tmp_path).poll({"x-1": "7"})["x-1"]
    assert (status.phase, status.reason) == ("starting", "waits for nodes to be free (Slurm: Resources)")


@pytest.mark.parametrize(
    "said",
    [
        "<html>\n<body>Bad gateway</body>\n</html>\n",
        "7|PENDING|Resources|leaven-x-1\n8|RUN",  # cut
        "7|PENDING\n",
        "7|PENDING|Resources|leaven-x-1",  # the end of the line is missing: the name may go on
        "\x00\xff\n",
    ],
)
def test_an_answer_that_is_garbage_is_none(tmp_path: Path, play: Play, said: str) -> None:
    play("squeue", said)
    with pytest.raises(Unreachable, match="the answer of squeue can't be understood: "):
        slurm(tmp_path).poll({"x-1": "7"})


def test_names_of_other_jobs_may_be_anything(tmp_path: Path, play: Play) -> None:
    play("squeue", "6|RUNNING|None|a|b\nc d\n7|RUNNING|None|leaven-x-1\n8_[1-4]|PENDING|None|leaven-array-gone\n")
    (tmp_path / "x-1").mkdir()
    (tmp_path / "x-1" / "begun.json").touch()
    assert slurm(tmp_path).poll({"x-1": "7"})["x-1"].phase == "running"


def test_slurm_does_not_get_the_token_of_the_server(
    tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would store it with the job, whose processes inherit it."""
    monkeypatch.setenv("LEAVEN_TOKEN", "secret")
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\nenv > '{tmp_path}/seen'\necho 17\n")
    (tmp_path / "sbatch").chmod(0o755)
    slurm(tmp_path).submit(Task("x-1", tmp_path / "x-1", tmp_path, tmp_path, Entry.PLAIN, (), Resources()))
    assert "PATH=" in (tmp_path / "seen").read_text()
    assert "secret" not in (tmp_path / "seen").read_text()


def test_a_job_over_the_limit_of_submitted_jobs_waits(tmp_path: Path, play: Play) -> None:
    task = Task("x-1", tmp_path / "x-1", tmp_path, tmp_path, Entry.PLAIN, (), Resources())
    found = slurm(tmp_path)
    play("squeue", "")
    (tmp_path / "sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy' >&2\nexit 1\n"
    )
    (tmp_path / "sbatch").chmod(0o755)
    assert found.submit(task) == ""
    status = found.poll({"x-1": ""})["x-1"]
    told = "the limit of submitted jobs per user of its quality of service is reached (Slurm: "
    assert (status.phase, status.reason) == ("starting", f"{told}QOSMaxSubmitJobPerUserLimit)")


def test_a_submit_without_an_id_is_asked_for_again(tmp_path: Path, play: Play) -> None:
    task = Task("x-1", tmp_path / "x-1", tmp_path, tmp_path, Entry.PLAIN, (), Resources())
    play("sbatch", "welcome to the cluster\n")
    with pytest.raises(Unreachable, match="the answer of sbatch can't be understood: welcome to the cluster"):
        slurm(tmp_path).submit(task)
    play("sbatch", "17;cluster\n")
    assert slurm(tmp_path).submit(task) == "17"
    play("sbatch", "", 1)
    with pytest.raises(Refused):
        slurm(tmp_path).submit(task)


@pytest.mark.parametrize(
    ("state", "own", "outcome"),
    [
        ("CANCELLED", "stopped", Outcome.CANCELLED),
        ("CANCELLED", "succeeded", Outcome.SUCCEEDED),
        ("CANCELLED", None, Outcome.CANCELLED),
        ("TIMEOUT", "stopped", Outcome.TIMED_OUT),
        ("OUT_OF_MEMORY", "failed", Outcome.FAILED),
        ("PREEMPTED", "stopped", Outcome.STOPPED),
        ("PREEMPTED", None, Outcome.STOPPED),
        ("NODE_FAIL", None, Outcome.LOST),
        ("FAILED", None, Outcome.FAILED),
    ],
)
def test_how_a_job_ended(tmp_path: Path, play: Play, state: str, own: str | None, outcome: Outcome) -> None:
    play("squeue", f"7|{state}|None|leaven-x-1\n")
    environment = slurm(tmp_path)
    if own is not None:
        (tmp_path / "x-1" / "outcome.json").write_text(f'{{"outcome": "{own}", "exit": 1}}')
    assert environment.poll({"x-1": "7"})["x-1"].outcome is outcome


def test_a_state_that_is_not_known_is_no_end(tmp_path: Path, play: Play) -> None:
    play("squeue", "7|EXPEDITING|None|leaven-x-1\n")
    environment = slurm(tmp_path)
    (tmp_path / "x-1" / "begun.json").touch()
    status = environment.poll({"x-1": "7"})["x-1"]
    assert (status.phase, status.reason) == ("running", "Slurm says: EXPEDITING")


def test_a_failed_start_has_the_output_as_its_reason(tmp_path: Path, play: Play) -> None:
    play("squeue", "7|FAILED|NonZeroExitCode|leaven-x-1\n")
    environment = slurm(tmp_path)
    (tmp_path / "x-1" / "slurm.log").write_text("slurmstepd: error: execve(): /no/python: No such file\n\n")
    reason = environment.poll({"x-1": "7"})["x-1"].reason
    assert reason == "Slurm says: FAILED (NonZeroExitCode, slurmstepd: error: execve(): /no/python: No such file)"
