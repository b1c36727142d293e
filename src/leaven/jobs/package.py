"""A job package: a zip file with all that a job is, named by the hash of its bytes.

    job.json          what it is: versions, arguments, resources, fingerprint of the data
    program.py        what is run, with plan.json, plan.txt, recipe.leaven and resolved.leaven
    code-…/           the user's own Python files

The same job always has the same bytes: members are sorted, not compressed (which zlib does differently from version to
version), and have no times. It never has data, weights or environment variables in it. Reading a package runs nothing.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from leaven.formats import run_folder, sweep_folder
from leaven.formats.atomic_files import write_bytes, write_text
from leaven.formats.user_sources import FOLDER
from leaven.jobs.problem import Problem
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry

FORMAT = 1
SUFFIX = ".job"
MANIFEST = "job.json"
_MOST_BYTES = 100_000_000  # a program, a plan and some Python files are far smaller
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of zip files


class PackageError(Problem):
    """A file is not a package that can be run here."""


@dataclass(frozen=True)
class Manifest:
    """What a job is."""

    name: str
    leaven: str
    entry: Entry = Entry.PROGRAM
    arguments: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    python: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    is_quick: bool = False
    epochs: int | None = None  # of all phases, where that is known
    monitor: str = ""
    project: str = ""  # the folder where relative paths in the program start
    recipe_folder: str = ""
    output: str = ""  # the folder for runs
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Package:
    """A package that was read: its bytes, hash, manifest and members."""

    content: bytes
    manifest: Manifest
    members: Mapping[str, bytes]

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def save(self, folder: Path) -> Path:
        """Write it to a folder of packages, under its hash; one that is there already is the same."""
        file = package_file(folder, self.hash)
        if not file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            write_bytes(file, self.content)
        return file


def package_file(folder: Path, hash: str) -> Path:
    """The file of a package in a folder of packages."""
    return folder / f"{hash}{SUFFIX}"


def make_package(manifest: Manifest, members: Mapping[str, bytes]) -> Package:
    """A package of some files; their names have `/` between folders."""
    files = {**members, MANIFEST: (json.dumps(manifest.to_json(), indent=1, sort_keys=True) + "\n").encode()}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _FIRST_DAY)
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, files[name])
    return Package(written.getvalue(), manifest, dict(members))


def open_package(file: Path) -> Package:
    """Read a package file."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise PackageError(f"{file} is too large to be a job package")
        content = file.read_bytes()
    except OSError as problem:
        raise PackageError(f"can't read {file}: {problem.strerror}") from None
    return read_package(content, str(file))


def read_package(content: bytes, name: str) -> Package:
    """A package from its bytes; `name` is what reports call it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > _MOST_BYTES:
                raise PackageError(f"{name} is too large to be a job package")
            members = {info.filename: archive.read(info) for info in infos}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as problem:
        raise PackageError(f"{name} is not a job package: {problem}", "`leaven pack` writes one") from None
    if MANIFEST not in members:
        raise PackageError(f"{name} is not a job package: it has no {MANIFEST}", "`leaven pack` writes one")
    manifest = _manifest(members.pop(MANIFEST), name)
    for member in members:
        _refuse_outside(member, name)
    if run_folder.PROGRAM not in members:
        raise PackageError(f"{name} is damaged: it has no {run_folder.PROGRAM}")
    return Package(content, manifest, members)


def _manifest(text: bytes, name: str) -> Manifest:
    try:
        found = json.loads(text)
        version = found["format"]
        if version == FORMAT:
            known = {each.name for each in fields(Manifest)}
            kept = {key: value for key, value in found.items() if key in known}
            resources = Resources.from_json(kept.pop("resources"))
            entry, arguments = Entry(kept["entry"]), tuple(kept["arguments"])
            return Manifest(**{**kept, "entry": entry, "arguments": arguments}, resources=resources)
    except (ValueError, KeyError, TypeError) as problem:
        raise PackageError(f"{name} is damaged: its {MANIFEST} can't be read ({problem})") from None
    made_by = f" (Leaven {found['leaven']})" if "leaven" in found else ""
    raise PackageError(
        f"{name} was packed by another version of Leaven{made_by}: it has format {version}, this one reads {FORMAT}",
        "pack the recipe again: `leaven pack RECIPE`",
    )


def _refuse_outside(member: str, name: str) -> None:
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member or "\0" in member or member.endswith("/"):
        raise PackageError(f"{name} is damaged: it would write to {member!r}")


def refuse_other_version(manifest: Manifest, here: str, name: str) -> None:
    """A program and the runtime that it imports belong together."""
    if manifest.leaven != here:
        raise PackageError(
            f"{name} was packed by Leaven {manifest.leaven}, and this is Leaven {here}",
            f"pack the recipe again with this version, or install leaven=={manifest.leaven}",
        )


def unpack(package: Package, folder: Path) -> None:
    """Write a package into a run folder, so that its program can be run there; once done, nothing is written again.

    The lock is written last: a folder that has it is complete.
    """
    if (folder / run_folder.LOCK).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    _write(package.members, folder)
    manifest = package.manifest
    lock = run_folder.first_lock(
        package.members[run_folder.PROGRAM],
        recipe_folder=manifest.recipe_folder,
        started_in=manifest.project or str(folder),
        package=package.hash,
    )
    if sweep_folder.is_sweep(folder):
        sweep_folder.make_trial_folders(folder, lock)
        code = {name: content for name, content in package.members.items() if name.startswith(f"{FOLDER}-")}
        for trial in sweep_folder.read_trials(folder).trials:
            _write(code, folder / trial.name)  # its program imports what is beside it
    write_text(folder / run_folder.LOCK, lock)


def _write(members: Mapping[str, bytes], folder: Path) -> None:
    for name, content in members.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
