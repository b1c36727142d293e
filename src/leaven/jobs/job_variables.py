"""The environment variables of a job's program: those given at the submit, and secrets, of which only names are stored.

The value of a secret is looked up when an attempt starts: in `secrets.toml` of the folder of jobs, which nobody else
may read, or else among the variables of the coordinator.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from leaven.files.regular import open_regular
from leaven.formats.run_folder import PACKED_BY
from leaven.jobs.attempt_processes import ATTEMPT
from leaven.jobs.supervisor import PRIVATE, TELL
from leaven.terminal.problem import Problem

FILE = "secrets.toml"
JOB = "LEAVEN_JOB"  # the variable with the number of the job
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OWN = (ATTEMPT, TELL, JOB, PACKED_BY, *PRIVATE)
_LONGEST = 32_000


class VariableError(Problem):
    """A variable can't be given to a job."""


def parsed(words: Iterable[str]) -> dict[str, str]:
    """Variables that were given as `NAME=value`."""
    variables: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise VariableError(
                f"`{word}` must be NAME=value", f"to pass the value of {name} as it is: --secret {name}"
            )
        variables[name] = value
    return variables


def refuse_wrong(variables: Mapping[str, str], secrets: Sequence[str]) -> None:
    """Refuse names and values that no program can be given."""
    for name in (*variables, *secrets):
        if not _NAME.fullmatch(name):
            raise VariableError(f"`{name}` can't be the name of an environment variable")
        if name in _OWN:
            raise VariableError(f"{name} is used by Leaven itself")
        if name in variables and name in secrets:
            raise VariableError(f"{name} is given both as a variable and as a secret")
    for name, value in variables.items():
        if "\0" in value or len(value) > _LONGEST:
            raise VariableError(f"the value of {name} can't be passed to a program")


def secret_values(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The values of secrets, for an attempt that starts now."""
    if not names:
        return {}
    known = {**os.environ, **_from_file(folder / FILE)}
    for name in names:
        if name not in known:
            help = f"write it to {folder / FILE}, or start the coordinator where it is set"
            raise VariableError(f"the secret {name} is not known to the coordinator", help)
    return {name: known[name] for name in names}


def _from_file(file: Path) -> dict[str, str]:
    try:
        with open_regular(file) as opened:
            about = os.fstat(opened.fileno())
            if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o077:
                raise VariableError(f"other users may read or change {file}", f"chmod 600 {file}")
            values = tomllib.load(opened)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise VariableError(f"can't read {file}: {problem}") from None
    return {name: str(value) for name, value in values.items()}
