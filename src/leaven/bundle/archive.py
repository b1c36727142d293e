"""The file format of a bundle: a zip archive of known members, uncompressed, each with its checksum.

Decides which members are allowed, and refuses every file that has others. What they mean is decided elsewhere.
The checksums find damage, not tampering: whoever changes a member can change its checksum too.
"""

import hashlib
import json
import os
import re
import stat
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from leaven.files.regular import open_regular
from leaven.runtime.data.texts import TOKENIZER_FILES
from leaven.runtime.failures import Failure
from leaven.runtime.model.weights import BUNDLED_MANIFEST, BUNDLED_WEIGHTS
from leaven.runtime.run.folder import write_whole

MANIFEST = BUNDLED_MANIFEST
CARD = "README.md"
GOLDEN = "golden.safetensors"
CHECKSUMS = "checksums.json"
RECORDS = ("recipe.leaven", "resolved.leaven", "lock.json", "program.py")  # copied from the folder of the run
REQUIRED = (MANIFEST, CARD, BUNDLED_WEIGHTS, GOLDEN, CHECKSUMS)
_TOKENIZER = frozenset(f"tokenizer/{name}" for name in TOKENIZER_FILES)
_CODE = re.compile(r"code/\d+(/\w[\w.-]*)*/\w[\w .()+,=@-]*\.py")  # no part begins with a dot

LARGEST_TEXT = 16 * 2**20
LARGEST_TOKENIZER = 64 * 2**20
LARGEST_GOLDEN = 256 * 2**20
MOST_MEMBERS = 1000
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that zip knows; with it, equal members make equal files


def write_archive(file: Path, members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Write a bundle atomically, and return all that is in it. Equal members give equal bytes, whenever and wherever
    it is written."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(members.items())}
    whole = {**members, CHECKSUMS: json.dumps(sums, indent=2).encode() + b"\n"}
    if fault := _fault([(name, len(content)) for name, content in whole.items()]):
        raise Failure(f"{file.name} can't be written: {fault}")

    def write(beside: Path) -> None:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
            for name, content in whole.items():
                member = zipfile.ZipInfo(name, _EPOCH)
                member.create_system = 3
                member.external_attr = (stat.S_IFREG | 0o644) << 16
                archive.writestr(member, content)

    write_whole(file, write)
    return whole


def read_archive(path: Path) -> dict[str, bytes]:
    """The members of a bundle, each compared with its checksum; a failure where anything is wrong."""
    if os.path.isdir(path):
        inside, runs = sorted(path.glob("*.bundle")), path.parent / "runs" / path.name
        meant = inside[:1] or [runs] * os.path.isdir(runs)  # a recipe is named after its folder of images
        raise Failure(f"{path} is a folder, not a bundle", f"did you mean {meant[0]}?" if meant else "")
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
            _check_entries(path, entries, os.fstat(stream.fileno()).st_size)
            members = {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as problem:
        raise _unreadable(path, problem) from None
    except FileNotFoundError:
        near: list[str] = []
        with suppress(OSError):
            near = get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.7)
        raise Failure(f"{path} does not exist", f"did you mean {path.parent / near[0]}?" if near else "") from None
    except OSError as problem:
        raise Failure(f"{path} can't be read: {problem.strerror or problem}") from None
    _check_sums(path, members)
    return members


def damaged(path: Path, what: str) -> Failure:
    """A failure for a bundle that is not what `save` writes."""
    return Failure(f"{path} is damaged: {what}", "download or copy it again; it was not loaded")


def _fault(sizes: Sequence[tuple[str, int]]) -> str | None:
    """The fault of the members, if any: a bundle has known names, each once, and not too large."""
    names = [name for name, _ in sizes]
    if len(names) > MOST_MEMBERS:
        return f"it has {len(names)} members"
    for name, size in sizes:
        if names.count(name) > 1:
            return f"{name} is in it twice"
        if name not in (*REQUIRED, *RECORDS, *_TOKENIZER) and not _CODE.fullmatch(name):
            return f"{name!r} does not belong in a bundle"
        limit = LARGEST_GOLDEN if name == GOLDEN else LARGEST_TOKENIZER if name in _TOKENIZER else LARGEST_TEXT
        if size > limit and name != BUNDLED_WEIGHTS:
            return f"{name} is larger than {limit // 2**20} MB"
    missing = [name for name in REQUIRED if name not in names]
    return f"{missing[0]} is missing" if missing else None


def _check_entries(path: Path, entries: Sequence[zipfile.ZipInfo], size: int) -> None:
    """The archive has the members of a bundle, all regular files that fit in it."""
    if not {MANIFEST, BUNDLED_WEIGHTS} & {entry.filename for entry in entries}:
        raise Failure(f"{path} is not a bundle", "a run writes its bundle as `model.bundle`")
    if fault := _fault([(entry.filename, entry.file_size) for entry in entries]):
        raise damaged(path, fault)
    for entry in entries:
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise damaged(path, f"{entry.filename} is not a regular file")
        # Without compression there are no zip bombs.
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
            raise damaged(path, f"{entry.filename} is compressed or encrypted")
    if sum(entry.file_size for entry in entries) > size:
        raise damaged(path, "its members are larger than the file")


def _check_sums(path: Path, members: Mapping[str, bytes]) -> None:
    try:
        sums = json.loads(members[CHECKSUMS])
    except (ValueError, RecursionError):
        raise damaged(path, f"{CHECKSUMS} can't be read") from None
    named = set(members) - {CHECKSUMS}
    if not isinstance(sums, dict) or set(sums) != named:
        raise damaged(path, f"{CHECKSUMS} does not list its members")
    for name in sorted(named):
        if hashlib.sha256(members[name]).hexdigest() != sums[name]:
            raise damaged(path, f"{name} has a wrong checksum")


def _unreadable(path: Path, problem: Exception) -> Failure:
    try:
        with open_regular(path) as stream:
            start = stream.read(4)
    except OSError as failure:  # some files of the system open, but can't be read
        return Failure(f"{path} can't be read: {failure.strerror}")
    if start == b"PK\x03\x04":
        return damaged(path, "its end is missing" if "not a zip" in str(problem) else str(problem))
    what = "is empty" if not start else "is not a bundle"
    return Failure(f"{path} {what}", "a run writes its bundle as `model.bundle`")
