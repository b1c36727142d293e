"""Packages: the same bytes for the same job, nothing in them that does not belong there, and what is refused."""

import io
import json
import os
import zipfile
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import plain, sweep

from leaven import __version__
from leaven.formats import run_folder
from leaven.formats.run_folder import PROGRAM
from leaven.jobs.package import (
    FORMAT,
    Manifest,
    Package,
    PackageError,
    make_package,
    open_package,
    read_package,
    refuse_other_version,
    unpack,
)
from leaven.jobs.packing import pack
from leaven.jobs.resources import Resources
from leaven.language.source_files import read_source
from leaven.plan.compiling import compile_source

RECIPE = """import "mine.py" as mine
model mine.Net()
data  digits()
train epochs=3
"""
MINE = "from torch import nn\nimport beside\n\n\nclass Net(nn.Module):\n" + (
    "    def __init__(self, num_classes=10):\n        super().__init__()\n"
    "        self.head = nn.Linear(64, num_classes)\n\n"
    "    def forward(self, images):\n        return self.head(images[:, 0].flatten(1))\n"
)


def packed(folder: Path, **more: object) -> Package:
    from leaven.language.source import Source

    source = read_source(folder / "own.leaven", "own.leaven")
    assert isinstance(source, Source)
    compiled = compile_source(source)
    assert compiled.plan is not None, compiled.diagnostics
    assert compiled.recipe is not None
    return pack(source, compiled.recipe, compiled.plan, Resources(cpus=2), **more)  # type: ignore[arg-type]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.leaven").write_text(RECIPE)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "beside.py").write_text("HELLO = 1\n")
    (tmp_path / "other.py").write_text("SECRET = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_recipe_always_gives_the_same_bytes(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = packed(own)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    os.utime(own / "mine.py", (0, 0))
    again = packed(own)
    assert again.content == first.content
    assert b"hf_secret" not in again.content
    (own / "beside.py").write_text("HELLO = 2\n")
    assert packed(own).hash != first.hash


def test_a_package_has_the_files_that_the_program_imports_and_no_others(own: Path) -> None:
    found = packed(own, is_quick=True)
    code = {name.partition("/")[2] for name in found.members if name.startswith("code-")}
    assert code == {"0/mine.py", "0/beside.py"}
    assert {PROGRAM, "plan.json", "plan.txt", "recipe.leaven", "resolved.leaven"} < set(found.members)
    manifest = read_package(found.content, "it").manifest
    assert manifest == found.manifest
    assert manifest.arguments == ("--quick",)
    assert manifest.data == {"source": "digits", "outputs": 10, "samples": manifest.data["samples"]}
    assert manifest.versions["leaven"] == __version__
    assert manifest.resources == Resources(cpus=2)
    place = next(name for name in found.members if name.endswith("mine.py"))
    assert f'"{place}"' in found.members[PROGRAM].decode()


def test_the_fingerprint_of_a_folder_changes_with_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    for name in ("ants", "bees"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "own.leaven").write_text('model efficientnet_lite0()\ndata folder("photos")\ntrain epochs=1\n')
    monkeypatch.chdir(tmp_path)
    before = packed(tmp_path)
    assert packed(tmp_path).content == before.content
    (tmp_path / "photos" / "ants" / "9.png").rename(tmp_path / "photos" / "ants" / "x.png")
    assert packed(tmp_path).manifest.data["files"] != before.manifest.data["files"]
    assert not [name for name in before.members if name.endswith(".png")]


def test_unpacking_is_done_once(tmp_path: Path) -> None:
    found = plain("print(1)")
    unpack(found, tmp_path)
    assert (tmp_path / PROGRAM).read_text() == "print(1)"
    assert run_folder.read_json(tmp_path / run_folder.LOCK)["package"] == found.hash
    (tmp_path / PROGRAM).write_text("edited")
    unpack(found, tmp_path)
    assert (tmp_path / PROGRAM).read_text() == "edited"


def test_unpacking_a_sweep_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    found = sweep("print(1)")
    (tmp_path / "trial-02").touch()
    with pytest.raises(FileExistsError):
        unpack(found, tmp_path)
    (tmp_path / "trial-02").unlink()
    unpack(found, tmp_path)
    for trial in ("trial-01", "trial-02"):
        assert (tmp_path / trial / PROGRAM).read_text() == "print(1)"
        assert (tmp_path / trial / "code-1" / "0" / "mine.py").is_file()
        assert run_folder.read_json(tmp_path / trial / run_folder.LOCK)["package"] == found.hash


def archive(members: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return written.getvalue()


MANIFEST = Manifest("a", __version__).to_json()


@pytest.mark.parametrize(
    ("content", "report"),
    [
        (b"not a zip", "x.job is not a job package: File is not a zip file"),
        (plain("print()").content[:-40], "x.job is not a job package: File is not a zip file"),
        (archive({"a": b""}), "x.job is not a job package: it has no job.json"),
        (archive({"job.json": b"{"}), "x.job is damaged: its job.json can't be read"),
        (archive({"job.json": b"[]"}), "x.job is damaged: its job.json can't be read"),
        (
            archive({"job.json": json.dumps({**MANIFEST, "entry": "x"}).encode()}),
            "x.job is damaged: its job.json can't be read ('x' is not a valid Entry)",
        ),
        (archive({"job.json": json.dumps(MANIFEST).encode()}), "x.job is damaged: it has no program.py"),
        (
            archive({"job.json": json.dumps({**MANIFEST, "format": 7, "leaven": "9.0"}).encode()}),
            f"x.job was packed by another version of Leaven (Leaven 9.0): it has format 7, this one reads {FORMAT}",
        ),
        (
            archive({"job.json": json.dumps(MANIFEST).encode(), PROGRAM: b"", "../up.py": b""}),
            "x.job is damaged: it would write to '../up.py'",
        ),
        (
            archive({"job.json": json.dumps(MANIFEST).encode(), PROGRAM: b"", "/etc/up.py": b""}),
            "x.job is damaged: it would write to '/etc/up.py'",
        ),
    ],
    ids=[str(number) for number in range(10)],  # the bytes have the time in them
)
def test_what_is_not_a_package_is_refused(tmp_path: Path, content: bytes, report: str) -> None:
    (tmp_path / "x.job").write_bytes(content)
    with pytest.raises(PackageError) as problem:
        open_package(tmp_path / "x.job")
    assert str(problem.value).replace(f"{tmp_path}/", "").startswith(report)


def test_a_package_of_another_version_is_refused() -> None:
    found = make_package(Manifest("a", "0.0.9"), {PROGRAM: b""})
    with pytest.raises(PackageError, match=rf"a was packed by Leaven 0\.0\.9, and this is Leaven {__version__}"):
        refuse_other_version(found.manifest, __version__, "a")


def test_a_missing_package_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="No such file"):
        open_package(tmp_path / "none.job")
