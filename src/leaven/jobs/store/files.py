"""Where the file of a store may be: on a drive of this machine, and such that only the user whose it is can write it.

Whoever could write it could run programs as that user. SQLite's locks don't hold on drives of other machines, where a
store would be damaged sooner or later.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from leaven.jobs.store.failures import StoreError

_NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
    "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs",
}  # fmt: skip
_LOCAL_FUSE = {"fuse.fuse-overlayfs", "fuse.grpcfuse", "fuse.portal"}
_TEAM = "each user has a store of their own; a team uses PostgreSQL: `store` in [jobs] of leaven.toml"


def prepare_file(file: Path) -> None:
    """Create the file of a store, for its user alone; refuse one that others can write."""
    mounts = ""
    with suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    kind = network_kind(file.parent, mounts)
    if kind is not None:
        raise StoreError(
            f"{file} is on a network drive ({kind}), where SQLite would be damaged",
            "set LEAVEN_JOBS to a folder of this machine, or `store` in [jobs] to a PostgreSQL database",
        )
    try:
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as problem:
        raise StoreError(f"can't create the store {file}: {problem.strerror}", "set LEAVEN_JOBS") from None
    for place in (file, file.parent):
        about = place.stat()
        if about.st_uid != os.geteuid():
            raise StoreError(f"{place} belongs to another user", _TEAM)
        if stat.S_IMODE(about.st_mode) & 0o022:
            raise StoreError(f"others can write {place}, and so run programs as you", f"chmod go-w {place}; {_TEAM}")


def network_kind(folder: Path, mounts: str) -> str | None:
    """The kind of network drive that a folder is on, by the lines of /proc/self/mountinfo; None if it is on none."""
    best, kind = "", ""
    place = os.path.realpath(folder)
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        words, rest = before.split(), after.split()
        if len(words) < 5 or not rest:
            continue
        point = words[4].encode().decode("unicode_escape")  # spaces are written as \040
        if len(point) >= len(best) and (place == point or place.startswith(point.rstrip("/") + "/")):
            best, kind = point, rest[0]
    is_network = kind in _NETWORK or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)
    return kind if is_network else None
