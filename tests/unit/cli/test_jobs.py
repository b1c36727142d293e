"""The commands for jobs, as a user gives them."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.jobs.plain_jobs import coordinators, plain, wait_until

from leaven.cli.main import leaven
from leaven.jobs import coordinator, requests
from leaven.jobs.settings import load_settings

RECIPE = "model efficientnet_lite0()\ndata digits()\ntrain epochs=2\n"


def run(*words: str) -> Result:
    return CliRunner().invoke(leaven, list(words))


def said(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 2, done.output
    return done.output


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a coordinator of its own, which is stopped."""
    text = f'[jobs]\nfolder = "{tmp_path}/jobs"\nbackoff = 0.05\n[environments.local]\ncores = 4\ngpus = 0\ngrace = 5\n'
    (tmp_path / "leaven.toml").write_text(text)
    monkeypatch.delenv("LEAVEN_JOBS", raising=False)
    monkeypatch.setenv("LEAVEN_CONFIG", os.devnull)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    settings = load_settings()
    store = requests.open_store(settings)
    coordinator.stop(settings, store)
    store.close()
    wait_until(lambda: not coordinators(settings.folder), "the coordinator to end")


def write(name: str, text: str, *arguments: str) -> str:
    Path(f"{name}.job").write_bytes(plain(text, *arguments, name=name).content)
    return f"{name}.job"


def test_a_package_is_submitted_followed_and_forgotten(folder: Path) -> None:
    output = said("submit", write("hello", "print('hello')"), "--name", "first", "--cpus", "1")
    assert output.startswith("job 1 (first) is queued on local; run ")
    done = run("jobs", "logs", "-f", "first")
    assert (done.exit_code, done.output) == (0, "hello\nfirst: succeeded\n")
    assert re.search(r"^1 +first +succeeded +local +1$", said("jobs"), re.M)
    assert "succeeded" in said("jobs", "show", "1")
    (found,) = json.loads(said("jobs", "--json"))
    assert (found["name"], found["state"], found["wanted"]) == ("first", "succeeded", "run")
    assert json.loads(said("jobs", "show", "1", "--json"))["tries"][0]["outcome"] == "succeeded"
    assert said("jobs", "clean", "first") == "forgot 1 job\n"
    assert said("jobs") == "no jobs; `leaven submit RECIPE` queues one\n"


def test_following_a_job_that_fails_ends_with_1(folder: Path) -> None:
    said("submit", write("bad", "print('so'); exit(3)"), "--retries", "1")
    done = run("jobs", "logs", "-f", "1")
    assert done.exit_code == 1
    assert (
        done.output.splitlines()
        == [
            "--- attempt 1",
            "so",
            "--- attempt 2",
            "so",
            "bad-1: failed (the program ended with exit code 3)",
        ]
        or done.output.count("so\n") == 2
    )
    assert said("jobs", "logs", "1", "--attempt", "2") == "so\n"


def test_a_job_is_paused_resumed_and_cancelled(folder: Path) -> None:
    said("submit", write("long", "import time; print('begun', flush=True); time.sleep(600)"), "--cpus", "1")

    def shows(text: str) -> bool:
        return text in said("jobs", "show", "1")

    wait_until(lambda: shows("state      running"))
    assert said("jobs", "pause", "1") == "pausing long-1\n"
    wait_until(lambda: shows("state      paused"))
    assert refused("jobs", "retry", "1") == "error: long-1 has not ended: it is paused\n"
    said("jobs", "priority", "1", "7")
    assert shows("priority   7")
    said("jobs", "resume", "1")
    assert refused("jobs", "resume", "1") == "error: long-1 is not paused\n"
    said("jobs", "cancel", "1")
    wait_until(lambda: shows("state      cancelled"))
    assert "has ended already: it is cancelled" in refused("jobs", "cancel", "1")


def test_the_coordinator_is_started_and_stopped(folder: Path) -> None:
    assert run("coordinator", "status").output.startswith("no coordinator is running")
    assert run("coordinator", "status").exit_code == 1
    assert said("coordinator", "start").startswith("started; its log is ")
    wait_until(lambda: run("coordinator", "status").output.startswith("running since"))
    assert said("coordinator", "start") == "a coordinator is running already\n"
    assert said("coordinator", "stop") == "stopped\n"
    assert said("coordinator", "stop") == "no coordinator is running\n"


def test_environments_are_listed_and_checked(folder: Path) -> None:
    assert re.search(r"^local +local +4 cores, .* of memory, no GPUs$", said("env", "list"), re.M)
    output = said("env", "check", "local")
    assert re.search(r"^ok +a tiny job: ran in ", output, re.M)
    assert output.endswith("local can be used\n")
    assert list((folder / "jobs" / "attempts").iterdir()) == []
    assert "there is no environment `cloud`" in refused("env", "check", "cloud")


def test_what_is_missing_in_an_environment_is_said(folder: Path) -> None:
    (folder / "leaven.toml").write_text(
        f'[jobs]\nfolder = "{folder}/jobs"\n[environments.local]\npython = "/no/python"'
    )
    done = run("env", "check", "local")
    assert done.exit_code == 1
    assert "missing  Python /no/python" in done.output
    assert "set `python` of the environment in leaven.toml" in done.output


def test_a_recipe_is_packed_with_the_same_bytes(folder: Path) -> None:
    (folder / "small.leaven").write_text(RECIPE)
    output = said("pack", "small.leaven")
    assert re.search(r"^small\.job: 5 files, sha256 [0-9a-f]{64}\n\Z", output, re.M)  # the index may be made first
    assert said("pack", "small.leaven", "-o", "again.job").split()[-1] == output.split()[-1]
    assert (folder / "again.job").read_bytes() == (folder / "small.job").read_bytes()


@pytest.mark.parametrize(
    ("words", "report"),
    [
        (
            ["--gpus", "8"],
            "error: local can't run this job: 8 GPUs are needed, and it has no GPUs\nhelp: local has 4 c",
        ),
        (["--on", "cluster"], "error: there is no environment `cluster`\nhelp: there are: local"),
        (["--after", "nobody"], "error: there is no job `nobody`\nhelp: `leaven jobs` lists them"),
        (["--name", "a", "--after", "a"], "error: `a` can't wait for itself"),
        (["--name", "12"], "error: `12` can't be the name of a job"),
        (["--sweep"], "error: the recipe has no `sweep`"),
        (["--quick"], "error: a package can't be changed\nhelp: pack the recipe with these options"),
        (["--set", "train.batch=8"], "error: a package can't be changed"),
        (["--memory", "much"], "error: `much` must be a size of memory, such as 16GB"),
        (["--time", "soon"], "error: `soon` must be a length of time, such as 90m or 12h"),
    ],
)
def test_what_can_not_be_done_is_refused_at_submit(folder: Path, words: list[str], report: str) -> None:
    assert refused("submit", write("hello", "pass"), *words).startswith(report)
    assert said("jobs") == "no jobs; `leaven submit RECIPE` queues one\n"


def test_a_file_that_is_not_a_package_is_refused(folder: Path) -> None:
    Path("bad.job").write_text("hello")
    assert refused("submit", "bad.job").startswith("error: bad.job is not a job package")


def test_errors_in_a_recipe_are_reported_as_by_check(folder: Path) -> None:
    (folder / "bad.leaven").write_text("model efficientnet_lite0()\ndata digits()\ntrain epoch=2\n")
    done = run("submit", "bad.leaven")
    assert done.exit_code == 1
    assert "bad.leaven:3" in done.output


def test_trials_of_a_sweep_are_jobs_and_the_last_one_waits_for_them(folder: Path) -> None:
    (folder / "sweep.leaven").write_text(
        "arg lr: float = 0.1\n" + RECIPE + "optimizer sgd(lr=lr)\nsweep lr, [0.1, 0.01, 0.001]\n"
    )
    settings = load_settings()
    output = said("submit", "sweep.leaven", "--sweep", "--name", "rates", "--on", "local", "--cpus", "1")
    coordinator.stop(settings, store := requests.open_store(settings))
    assert output.startswith("jobs 1 to 3: the trials of ")
    found = store.jobs()
    assert [job.entry for job in found] == ["program"] * 3 + ["end sweep"]
    assert [Path(job.run).name for job in found] == ["trial-01", "trial-02", "trial-03", "rates"]
    assert "--lr=0.01" in found[1].arguments
    assert store.after(4) == [1, 2, 3]
    requests.cancel(store, found)
    coordinator.start(settings)
    wait_until(lambda: {job.state.value for job in store.jobs()} == {"cancelled"})
    store.close()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["jobs", "kill", "1"], "Did you mean `leaven jobs cancel`?"),
        (["env", "ls"], "Did you mean `leaven env list`?"),
        (["queue"], "Did you mean `leaven jobs`?"),
    ],
)
def test_commands_of_other_tools_are_known(words: list[str], hint: str) -> None:
    assert hint in refused(*words)
