"""Packages: the same bytes for the same job, nothing in them that does not belong there, and what is refused."""

import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import plain, sweep

from leaven import __version__
from leaven.formats import run_folder
from leaven.formats.run_folder import PROGRAM
from leaven.jobs.manifest import FORMAT, Manifest, PackageError
from leaven.jobs.package import Package, make_package, open_package, read_package, refuse_other_version, unpack
from leaven.jobs.packing import pack
from leaven.jobs.resources import Resources
from leaven.language.source_files import read_source
from leaven.planning.compiling import compile_source

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
            "x.job is damaged: `entry` in its job.json can't be 'x'",
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
        (
            archive({"job.json": json.dumps(MANIFEST).encode(), PROGRAM: b"", f"{PROGRAM}/a.py": b""}),
            "x.job is damaged: it would write to 'program.py/a.py'",
        ),
        (
            archive({"job.json": json.dumps(MANIFEST).encode(), PROGRAM: b"", ".": b""}),
            "x.job is damaged: it would write to '.'",
        ),
    ],
    ids=[str(number) for number in range(12)],  # the bytes have the time in them
)
def test_what_is_not_a_package_is_refused(tmp_path: Path, content: bytes, report: str) -> None:
    (tmp_path / "x.job").write_bytes(content)
    with pytest.raises(PackageError) as problem:
        open_package(tmp_path / "x.job")
    assert str(problem.value).replace(f"{tmp_path}/", "").startswith(report)


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_what_becomes_larger_than_it_says_is_not_unpacked(how: int) -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", how) as made:
        made.writestr(PROGRAM, bytes(10_000_000))
    content = bytearray(written.getvalue())
    struct.pack_into("<I", content, content.index(b"PK\x01\x02") + 24, 100)  # its size, in the list of members
    tracemalloc.start()
    try:
        with pytest.raises(PackageError, match=r"x.job is damaged: 'program.py' is compressed"):
            read_package(bytes(content), "x.job")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_two_members_of_one_name_are_refused() -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made, warnings.catch_warnings(action="ignore"):
        for text in ("print('shown')", "print('run')"):
            made.writestr(PROGRAM, text)
    with pytest.raises(PackageError, match=r"x.job is damaged: it has two members of one name"):
        read_package(written.getvalue(), "x.job")


def test_a_package_of_another_version_is_refused() -> None:
    found = make_package(Manifest("a", "0.0.9"), {PROGRAM: b""})
    with pytest.raises(PackageError, match=rf"a was packed by Leaven 0\.0\.9, and this is Leaven {__version__}"):
        refuse_other_version(found.manifest, __version__, "a")


def test_a_missing_package_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="No such file"):
        open_package(tmp_path / "none.job")


def forged(members: dict[str, bytes], **changed: object) -> bytes:
    """A package whose manifest says something else."""
    found = {**json.loads(json.dumps(Manifest("plain", __version__).to_json())), **changed}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in {**members, "job.json": json.dumps(found).encode()}.items():
            archive.writestr(name, content)
    return written.getvalue()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "../../../x"),
        ("name", ".."),
        ("name", ""),
        ("name", "a\0b"),
        ("name", ["a"]),
        ("name", "a" * 5000),
        ("leaven", None),
        ("entry", "shell"),
        ("entry", []),
        ("arguments", "--all"),
        ("arguments", [1]),
        ("arguments", ["a\0"]),
        ("arguments", ["a"] * 5000),
        ("epochs", "three"),
        ("epochs", -1),
        ("epochs", 10**30),
        ("monitor", 7),
        ("project", "../.."),
        ("project", "/a/../../b"),
        ("output", "relative"),
        ("is_quick", "yes"),
        ("versions", {"torch": 2}),
        ("data", []),
        ("resources", []),
        ("resources", {"cpus": "many"}),
    ],
)
def test_a_manifest_is_not_believed(key: str, value: object) -> None:
    with pytest.raises(PackageError, match=f"the package is damaged: `{key}` in its job.json can't be"):
        read_package(forged({PROGRAM: b""}, **{key: value}), "the package")


@pytest.mark.parametrize(
    "needs",
    [
        {"cpus": -5},
        {"cpus": 0},
        {"cpus": 1.5},
        {"gpus": -1},
        {"memory": 2**70},
        {"processes": 0},
        {"nodes": 10**9},
        {"minutes": 0},
        {"minutes": -1},
    ],
)
def test_needs_out_of_range_are_refused(needs: dict[str, float]) -> None:
    with pytest.raises(PackageError, match=r"in its job.json, `.*` can't be"):
        read_package(forged({PROGRAM: b""}, resources=needs), "the package")


@pytest.mark.parametrize("text", [b"[]", b'{"trials": []}', b"[" * 100_000, b"null"])
def test_trials_that_are_none_are_refused(text: bytes) -> None:
    with pytest.raises(PackageError, match="its trials are not those of a sweep"):
        read_package(forged({PROGRAM: b"", "trials.json": text}, entry="sweep"), "the package")


def test_a_trial_can_not_have_a_folder_elsewhere() -> None:
    trials = {"trials": [{"name": "../../outside", "text": "", "values": {}, "flags": []}]}
    with pytest.raises(PackageError, match="its trials are not those of a sweep"):
        read_package(forged({PROGRAM: b"", "trials.json": json.dumps(trials).encode()}, entry="sweep"), "the package")


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{}", b"7", b'{"format": "1"}', b"\xff"])
def test_a_manifest_that_is_none_is_refused(text: bytes) -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("job.json", text)
    with pytest.raises(PackageError):
        read_package(written.getvalue(), "the package")
