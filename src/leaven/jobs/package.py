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
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from leaven.files.atomic_files import PRIVATE, write_bytes, write_text
from leaven.files.regular import read_regular
from leaven.formats import run_folder, sweep_folder
from leaven.formats.user_sources import FOLDER
from leaven.jobs.manifest import MANIFEST, Manifest, PackageError, read_manifest, refuse_wrong_trials
from leaven.jobs.states import Entry

SUFFIX = ".job"
MOST_BYTES = 16_000_000  # a program, a plan and some Python files are far smaller
_MOST_JSON = 2_000_000  # bytes of JSON, which takes many times as much memory
_MOST_MEMBERS = 10_000
_MEMBER = b"PK\x01\x02"  # of the list of members at the end of an archive
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of zip files


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
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bytes(file, self.content, PRIVATE)
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
        content = read_regular(file, MOST_BYTES)
    except OSError as problem:
        raise PackageError(f"can't read {file}: {problem.strerror}") from None
    return read_package(content, str(file))


def read_package(content: bytes, name: str) -> Package:
    """A package from its bytes; `name` is what reports call it."""
    if content.count(_MEMBER) > _MOST_MEMBERS:  # before each becomes an object
        raise PackageError(f"{name} is too large to be a job package")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            _refuse_unusual(infos, name)
            members = {info.filename: archive.read(info) for info in infos}
    except PackageError:
        raise
    except Exception as problem:  # a damaged archive fails in each of its parts in another way
        raise PackageError(f"{name} is not a job package: {problem}", "`leaven pack` writes one") from None
    if MANIFEST not in members:
        raise PackageError(f"{name} is not a job package: it has no {MANIFEST}", "`leaven pack` writes one")
    if len(members[MANIFEST]) > _MOST_JSON or len(members.get(sweep_folder.TRIALS, b"")) > _MOST_JSON:
        raise PackageError(f"{name} is too large to be a job package")
    manifest = read_manifest(members.pop(MANIFEST), name)
    _refuse_outside(members, name)
    if run_folder.PROGRAM not in members:
        raise PackageError(f"{name} is damaged: it has no {run_folder.PROGRAM}")
    if (trials := members.get(sweep_folder.TRIALS)) is not None:
        refuse_wrong_trials(trials, name)
    elif manifest.entry is Entry.SWEEP:
        raise PackageError(f"{name} is damaged: it has no {sweep_folder.TRIALS}")
    return Package(content, manifest, members)


def _refuse_unusual(infos: Sequence[zipfile.ZipInfo], name: str) -> None:
    """Refuse what `make_package` does not write; what is compressed may become larger than it says."""
    if sum(info.file_size for info in infos) > MOST_BYTES:
        raise PackageError(f"{name} is too large to be a job package")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise PackageError(f"{name} is damaged: {info.filename!r} is compressed", "`leaven pack` writes another")
    if len({info.filename for info in infos}) < len(infos):
        raise PackageError(f"{name} is damaged: it has two members of one name")


def _refuse_outside(members: Mapping[str, bytes], name: str) -> None:
    """Refuse members that are outside of the folder, or that can't be in it together."""
    for member in members:
        path = PurePosixPath(member)
        is_plain = str(path) == member != "." and not path.is_absolute() and ".." not in path.parts
        is_below_a_file = any(str(folder) in members for folder in list(path.parents)[:-1])
        if not is_plain or is_below_a_file or "\\" in member or "\0" in member:
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
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    write_text(folder / run_folder.LOCK, lock, PRIVATE)


def _write(members: Mapping[str, bytes], folder: Path) -> None:
    for name, content in members.items():
        file = folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(file, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK, PRIVATE)) as opened:
            opened.write(content)
