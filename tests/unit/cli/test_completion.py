"""What the shell offers at <TAB>."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from leaven.catalog import library
from leaven.cli.main import leaven


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    library.installed().prepare(lambda line: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.leaven").write_text('arg rate: float = 3e-4 "how fast to learn"\n')
    (tmp_path / "first.leaven").write_text('extends "base.leaven"\narg kind: choice["small", "large"] = "small"\n')
    return tmp_path


def offers(*words: str) -> list[CompletionItem]:
    """What is offered for the last of the words."""
    *before, incomplete = words
    return ShellComplete(leaven, {}, "leaven", "_LEAVEN_COMPLETE").get_completions(before, incomplete)


def values(*words: str) -> list[str]:
    return [item.value for item in offers(*words)]


def test_explain_offers_reports_and_whatever_has_a_card() -> None:
    everything = values("explain", "")
    assert "unknown-layer" in everything
    assert everything.index("unknown-layer") < everything.index("accuracy")
    assert values("explain", "mixu") == ["mixup"]
    assert "convnext_tiny" in values("explain", "convnext_t")


def test_a_kind_is_offered_and_narrows_the_names() -> None:
    assert values("catalog", "search", "--kind", "op") == ["optimizer"]
    assert "adamw" in values("catalog", "show", "adam")
    assert values("catalog", "show", "--kind", "technique", "m") == ["mixup"]


def test_a_recipe_has_options_of_its_own() -> None:
    (rate,) = offers("check", "first.leaven", "--ra")
    assert (rate.value, rate.help) == ("--rate", "how fast to learn")
    assert {"--kind", "--json", "--rate"} <= set(values("check", "first.leaven", "--"))
    assert "--rate" not in values("check", "--")


def test_behind_an_option_of_the_recipe_its_values_are_offered() -> None:
    assert values("check", "first.leaven", "--kind", "") == ["small", "large"]
    assert [item.type for item in offers("check", "first.leaven", "--rate", "")] == ["file"]


@pytest.mark.parametrize(
    ("words", "type"),
    [
        (["check", "fi"], "file"),
        (["check", "first.leaven", "--data", "pho"], "file"),
        (["check", "first.leaven", "--checkpoint", ""], "file"),
        (["check", "first.leaven", "--output", ""], "dir"),
        (["format", "fi"], "file"),
    ],
)
def test_paths_are_left_to_the_shell(words: list[str], type: str) -> None:
    assert [(item.value, item.type) for item in offers(*words)] == [(words[-1], type)]


def test_models_are_offered_behind_their_option() -> None:
    assert "resnet18" in values("check", "first.leaven", "--model", "resnet1")


@pytest.mark.parametrize("command", ["resume", "finish"])
def test_runs_that_are_not_finished_are_offered(command: str, folder: Path) -> None:
    for run, is_finished in (("runs/dogs/first", True), ("runs/dogs/second", False), ("trials/cats/third", False)):
        (folder / run).mkdir(parents=True)
        (folder / run / "program.py").touch()
        (folder / run / "lock.json").write_text(json.dumps({"finished": is_finished}))
    assert values(command, "") == ["runs/dogs/second"]
    assert values(command, "runs/d") == ["runs/dogs/second"]
    assert values(command, "trials/") == ["trials/cats/third"]
    assert values(command, "trials/cats/t") == ["trials/cats/third"]
    assert [(item.value, item.type) for item in offers(command, "elsewhere")] == [("elsewhere", "dir")]


def test_nobody_waits_for_the_libraries_to_be_read(tmp_path: Path) -> None:
    done = complete("bash", "leaven explain mixu", LEAVEN_CACHE=str(tmp_path / "cache"))
    assert done.stdout.split() == ["plain,mixup"]
    assert done.stderr == ""
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(("shell", "answer"), [("bash", "plain,--rate"), ("zsh", "--rate"), ("fish", "plain,--rate")])
def test_every_shell_is_answered(shell: str, answer: str) -> None:
    assert answer in complete(shell, "leaven check first.leaven --ra").stdout


def complete(shell: str, line: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """What a shell's script gets, and what lands on the terminal, when <TAB> is pressed behind a line."""
    words = line.split()
    asked = {"COMP_WORDS": line, "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1)}
    return subprocess.run(
        [sys.executable, "-c", "from leaven.cli.main import main; main()"],
        env={**os.environ, **asked, "_LEAVEN_COMPLETE": f"{shell}_complete", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
