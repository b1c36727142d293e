"""The repository speaks of Leaven alone: nothing in it depends on the machine it was written on."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", "bench", "docs", "src", "tests")

# Put together here, so that this file does not hold what it forbids.
MACHINE_PATHS = ["/" + "work/", "/tmp/" + "v/", "/opt/" + "pypi", "/" + "root/", "/home" + "/", "/Users" + "/"]
REGISTRIES = ["pypi" + ".org", "python" + "hosted.org", "pytorch.org/" + "whl", "anaconda" + ".org", "index" + "-url"]


def texts() -> Iterator[Path]:
    """Every text file of the repository. Next to the examples may lie data, which is not ours."""
    files = [*ROOT.glob("[!.]*"), *ROOT.glob(".git?*"), *ROOT.glob("examples/*")]
    for folder in FOLDERS:
        files += ROOT.joinpath(folder).rglob("*")
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts and b"\0" not in file.read_bytes():
            yield file


@pytest.mark.parametrize("forbidden", [MACHINE_PATHS, REGISTRIES], ids=["machine paths", "package registries"])
def test_no_file_names_a_machine_or_a_registry(forbidden: list[str]) -> None:
    pattern = re.compile("|".join(map(re.escape, forbidden)))
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in texts()
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_continuous_integration_can_be_run() -> None:
    run = ROOT / ".ci" / "run"
    assert run.stat().st_mode & 0o111
    made = re.findall(r"^make (.+)", run.read_text(), re.M)
    assert made == ["test", "test-slow", "test-jobs"], "together, that is all"


def test_every_make_target_is_listed_by_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    assert [target for target in targets if not re.search(rf"^{target}:.*## \w", makefile, re.M)] == []
