"""Processes of other users of this machine, which only root can start."""

import os
import pwd
import shutil
import stat
import struct
import sys
from pathlib import Path

_CAPABILITY = 2  # to read and enter any folder: root's own Python may be where nobody else may look
_ROOT = Path(__file__).parents[3]
_CAPABLE = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


def why_not() -> str:
    """Why there can be no processes of others; empty if there can."""
    if os.geteuid() != 0:
        return "only root can be other users"
    return "" if shutil.which("setpriv") else "setpriv is not installed"


def command(uid: int, *words: str) -> list[str]:
    """A command as another user, with its group alone."""
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        gid = uid
    return ["setpriv", "--clear-groups", *_CAPABLE, f"--reuid={uid}", f"--regid={gid}", *words]


def variables(home: Path) -> dict[str, str]:
    """The environment of another user, in which Python finds these tests from any folder."""
    return {**os.environ, "HOME": str(home), "PYTHONPATH": str(_ROOT)}


def python_for_all(folder: Path) -> Path:
    """A Python that others can run who are started without what `command` gives them, as Slurm does."""
    able, made = folder / "setpriv", folder / "python"
    shutil.copyfile(str(shutil.which("setpriv")), able)
    able.chmod(0o755)
    is_effective = 0x02000001  # version 2 of the format
    os.setxattr(able, "security.capability", struct.pack("<5I", is_effective, 1 << _CAPABILITY, 0, 0, 0))
    made.write_text(f'#!/bin/sh\nexec {able} {" ".join(_CAPABLE)} {sys.executable} "$@"\n')
    made.chmod(0o755)
    assert stat.S_IMODE(folder.stat().st_mode) & 0o005 == 0o005
    return made
