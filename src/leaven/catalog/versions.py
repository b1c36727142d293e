"""Which versions of which libraries are installed, found without importing anything.

`importlib.metadata` would answer the same, but takes longer to import than a whole check may take.
"""

import os
import re
import sys
from functools import cache
from zlib import crc32

from leaven.catalog import process

LIBRARIES = ("torch", "torchvision", "timm", "torchmetrics")
_HERE = os.path.dirname(os.path.abspath(__file__))
_SURVEY = os.path.join(os.path.dirname(_HERE), "survey")
_SHAPE_OF_CARDS = ("card.py", "traits.py")
_DESCRIPTION = re.compile(rf"({'|'.join(LIBRARIES)})(?:-([^-]+))?(?:-.*)?\.(?:dist|egg)-info", re.I)


@cache
def installed() -> dict[str, str]:
    """The version of each library that is installed."""
    found: dict[str, str] = {}
    for folder in sys.path:
        for library, version in _described(folder or os.curdir):
            found.setdefault(library, version)  # an import takes the first on the path
    return found


def _described(folder: str) -> list[tuple[str, str]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [match for name in names if name.endswith("-info") and (match := _DESCRIPTION.fullmatch(name))]
    return [(match[1].lower(), match[2] or _version_in(os.path.join(folder, match[0]))) for match in found]


def _version_in(description: str) -> str:
    """The version in the `egg-info` folder of a source tree."""
    try:
        with open(os.path.join(description, "PKG-INFO"), encoding="utf-8") as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Version:")), "unknown")
    except (OSError, ValueError):
        return "unknown"


@cache
def key() -> str:
    """A name for this set of installed versions, this environment and this version of the survey.

    The environment is part of it because the same versions may work in one and fail in another, as they do where a
    module on the user's path shadows one of theirs.
    """
    versions = "-".join(f"{library}{version}" for library, version in sorted(installed().items()))
    rest = repr((sys.prefix, sys.version_info[:2], process.search_path(), _survey_stamp()))
    return f"{re.sub(r'[^A-Za-z0-9.+-]', '_', versions) or 'nothing'}-{crc32(rest.encode()):08x}"


def _survey_stamp() -> list[tuple[str, int, int]]:
    """Size and time of the survey's files and of those that define the fields of cards."""
    with os.scandir(_SURVEY) as entries:
        sources = {entry.name: entry.stat() for entry in entries if entry.name.endswith((".py", ".toml"))}
    sources |= {name: os.stat(os.path.join(_HERE, name)) for name in _SHAPE_OF_CARDS}
    return sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in sources.items())
