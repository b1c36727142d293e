"""`leaven.toml` and the user's configuration: which one holds, and what is wrong in them."""

from pathlib import Path

import pytest

from leaven.jobs.settings import SettingsError, load_settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("LEAVEN_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("LEAVEN_JOBS", raising=False)
    (tmp_path / "project" / "deep").mkdir(parents=True)
    return tmp_path / "project"


def test_without_files_jobs_are_kept_in_the_users_folder(project: Path, tmp_path: Path) -> None:
    found = load_settings(project)
    assert found.folder == tmp_path / "data" / "leaven" / "jobs"
    assert found.store == f"sqlite:///{found.folder}/jobs.sqlite"
    assert list(found.environments) == ["local"]


def test_the_nearest_project_file_wins_over_the_users(project: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[jobs]\nfolder = "/a"\nbackoff = 3\n[environments.local]\ncores = 2\n[environments.big]\nkind = "local"'
    )
    (project / "leaven.toml").write_text('[jobs]\nfolder = "/b"\n[environments.local]\nmemory = "16GB"')
    found = load_settings(project / "deep")
    assert (found.folder, found.backoff) == (Path("/b"), 3.0)
    assert found.environments["local"] == {"kind": "local", "memory": 16 * 10**9}
    assert found.environments["big"] == {"kind": "local"}


def test_an_environment_variable_sets_the_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAVEN_JOBS", "/elsewhere")
    assert load_settings(project).folder == Path("/elsewhere")


@pytest.mark.parametrize(
    ("name", "value", "report"),
    [
        ("LEAVEN_JOBS", "~nobody-has-this-name/jobs", "and there is no such user"),
        ("LEAVEN_JOBS", "{file}", "which is not a folder"),
        ("LEAVEN_CONFIG", "no/such.toml", "which is not a file"),
        ("LEAVEN_CONFIG", "{folder}", "which is not a file"),
    ],
)
def test_a_variable_that_leads_nowhere_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, report: str
) -> None:
    value = value.format(file=project.parent / "config.toml", folder=project)
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings(project)
    assert str(caught.value) == f"{name} is `{value}`, {report}"


@pytest.mark.parametrize(
    ("text", "report", "help"),
    [
        ("[jobs", "leaven.toml: Expected ']'", ""),
        ("[job]", "leaven.toml: unknown section [job]", "there are [jobs], [notify] and [environments.NAME]"),
        ('[jobs]\nfoldr = "x"', "leaven.toml: [jobs] has no `foldr`", "did you mean `folder`?"),
        ("[jobs]\nbackoff = -1", "leaven.toml: [jobs]: `backoff` must be a number", ""),
        ("[jobs]\nstore = 1", "leaven.toml: [jobs]: `store` must be a string", ""),
        ("jobs = 1", "leaven.toml: [jobs] must be a section", ""),
        ("[environments.gpu]", "leaven.toml: [environments.gpu]: `kind` is missing", "kinds: local"),
        ('[environments.gpu]\nkind = "x"', "leaven.toml: [environments.gpu]: unknown kind 'x'", "kinds: local"),
        ("[environments.gpu]\nkind = [1]", "leaven.toml: [environments.gpu]: unknown kind [1]", "kinds: local"),
        ("[environments.local]\ncore = 1", "leaven.toml: [environments.local] has no `core`", "did you mean `cores`?"),
        ('[environments.local]\ncores = "x"', "leaven.toml: [environments.local]: `cores` must be a whole number", ""),
        ("[environments.local]\ncores = true", "leaven.toml: [environments.local]: `cores` must be a whole number", ""),
        ('[environments.local]\ngrace = "1m"', "leaven.toml: [environments.local]: `grace` must be a number", ""),
        ("[environments.local]\ngrace = nan", "leaven.toml: [environments.local]: `grace` must be a number", ""),
        (
            '[environments.slurm]\noptions = "--exclusive"',
            "leaven.toml: [environments.slurm]: `options` must be a list of strings",
            "",
        ),
        (
            '[environments.cloud]\nsecrets = "TOKEN"',
            "leaven.toml: [environments.cloud]: `secrets` must be a list of strings",
            "",
        ),
        ('[environments.cloud]\nspot = "no"', "leaven.toml: [environments.cloud]: `spot` must be true or false", ""),
        ('[environments.ray]\nruntime_env = "x"', "leaven.toml: [environments.ray]: `runtime_env` must be a table", ""),
        (
            "[environments.kubernetes]\ntolerations = { key = 1 }",
            "leaven.toml: [environments.kubernetes]: `tolerations` must be a list of tables",
            "",
        ),
        (
            "[environments.kubernetes]\npod = { spec = [2026-01-01] }",
            "leaven.toml: [environments.kubernetes]: `pod` must be a table of plain values",
            "",
        ),
        ('[environments.local]\nmemory = "x"', "leaven.toml: [environments.local]: `memory` must be a size", ""),
        ("[environments]\nlocal = 1", "leaven.toml: [environments.local] must be a section", ""),
    ],
)
def test_what_is_wrong_in_a_file_is_reported_with_its_place(project: Path, text: str, report: str, help: str) -> None:
    (project / "leaven.toml").write_text(text)
    with pytest.raises(SettingsError) as problem:
        load_settings(project)
    assert problem.value.headline.removeprefix(f"{project}/").startswith(report)
    assert problem.value.help.startswith(help)
