"""The files that a lab may reach: those below the folders that it was started with, and what was uploaded to it.

A path from a client is resolved, with all its links, before it is compared; what lies elsewhere is refused.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from leaven.api.problems import Forbidden, Missing, Refused
from leaven.cache import location
from leaven.catalog.published import published_model
from leaven.files.atomic_files import write_bytes
from leaven.formats import run_folder, sweep_folder

ENDINGS = {"bundle": ".bundle", "recipe": ".leaven"}
_UPLOAD = re.compile(r"[0-9a-f]{32}")
_PUBLISHED = re.compile(r"[\w.-]{1,200}")
_KEPT = 500  # uploads
_MOST = 20_000  # files and folders that a listing looks at
_DEEPEST = 4  # folders in folders, of a listing


@dataclass(frozen=True)
class Found:
    """A run, bundle or recipe below the folders, or a published model."""

    name: str
    kind: str  # run, bundle, recipe, published
    path: Path | None = None


class Places:
    """The folders, single files and published models that a lab was started with."""

    def __init__(self, words: Sequence[str]) -> None:
        self.published: list[str] = []
        self.roots: list[Path] = []
        self.given: list[str] = []
        for word in words or ["."]:
            if os.path.lexists(word):
                self.roots.append(Path(word).resolve())
                self.given += [self.name_of(Path(word).resolve())] if words else []
            elif _PUBLISHED.fullmatch(word) and published_model(word) is not None:
                self.published.append(word)
                self.given.append(word)
            else:
                raise Missing(f"there is no run, bundle, published model or folder `{word}`")
        self.folders = [root for root in self.roots if root.is_dir()]
        if not self.roots:
            self.folders = []

    # -- from a client

    def path(self, word: str) -> Path:
        """The path that a client means, which is below the folders; it need not exist."""
        try:
            place = Path(word).resolve() if os.path.isabs(word) else Path.cwd().joinpath(word).resolve()
        except (OSError, ValueError, RuntimeError):
            raise Refused("that is not a path") from None
        if not any(place == root or place.is_relative_to(root) for root in self.roots):
            raise Forbidden(f"`{word[:200]}` is not below the folders of the lab", "start the lab with that folder")
        return place

    def existing(self, word: str) -> Path:
        """The same for what must exist."""
        place = self.path(word)
        if not place.exists():
            raise Missing(f"there is no file `{word[:200]}`")
        return place

    def file(self, word: str) -> str:
        """A regular file."""
        place = self.existing(word)
        if not place.is_file():
            raise Refused(f"`{word[:200]}` is not a file")
        return str(place)

    def run(self, word: str) -> Path:
        """The folder of a run."""
        place = self.existing(word)
        self._refuse_links(place)
        if not (place / run_folder.PROGRAM).is_file():
            raise Missing(f"`{word[:200]}` is not a run: it has no {run_folder.PROGRAM}")
        return place

    def model(self, word: str) -> str:
        """A model or a recipe as its process is told: an absolute path, or the name of a published model."""
        if _PUBLISHED.fullmatch(word) and not os.path.lexists(word) and published_model(word) is not None:
            return word
        place = self.existing(word)
        self._refuse_links(place)
        return str(place)

    def _refuse_links(self, folder: Path) -> None:
        """Refuse a folder with links to what is not below the folders of the lab."""
        for entry in os.scandir(folder) if folder.is_dir() else ():
            if entry.is_symlink():
                self.path(entry.path)

    # -- for a client

    def name_of(self, path: str | os.PathLike[str]) -> str:
        """A path as it is shown: relative to the current folder where it lies below that."""
        place, here = Path(path), Path.cwd()
        return place.relative_to(here).as_posix() if place.is_relative_to(here) and place != here else str(place)

    def found(self) -> list[Found]:
        """The runs, bundles and recipes below the folders, and the published models that were given."""
        listed = [Found(name, "published") for name in self.published]
        for root in self.roots:
            if root.is_file() and (kind := _kind_of_file(root.name)):
                listed.append(Found(self.name_of(root), kind, root))
        seen: set[Path] = set()
        walked = (place for root in self.folders for place in _walk(root, _DEEPEST))
        for place, kind in islice(walked, _MOST):
            if kind and place not in seen:
                seen.add(place)
                listed.append(Found(self.name_of(place), kind, place))
        return listed

    # -- uploads

    def keep(self, content: bytes) -> str:
        """Keep an upload in the user's cache; its id."""
        id = hashlib.sha256(content).hexdigest()[:32]
        folder = _uploads()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / id).exists():
            write_bytes(folder / id, content)
        with suppress(OSError):
            os.utime(folder / id)
        location.keep_newest(folder, "*", _KEPT)
        return id

    def upload(self, id: str) -> str:
        """The file of an upload."""
        place = _uploads() / id
        if not _UPLOAD.fullmatch(id) or not place.is_file():
            raise Missing(f"there is no upload `{id[:60]}`", "send it again")
        return str(place)

    def forget(self, id: str) -> None:
        """Remove an upload that can't be used."""
        Path(self.upload(id)).unlink(missing_ok=True)


def _uploads() -> Path:
    return location.user_folder() / "lab" / "uploads"


def _walk(folder: Path, depth: int) -> Iterator[tuple[Path, str]]:
    """What is below a folder, with its kind; the inside of runs is left out, and links are not followed."""
    if (folder / run_folder.PROGRAM).is_file():
        yield folder, "run"
        return
    if sweep_folder.is_sweep(folder):
        yield folder, "sweep"
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_file(follow_symlinks=False):
            yield Path(entry.path), _kind_of_file(entry.name)
        elif depth and entry.is_dir(follow_symlinks=False):
            yield Path(entry.path), ""
            yield from _walk(Path(entry.path), depth - 1)


def _kind_of_file(name: str) -> str:
    return next((kind for kind, ending in ENDINGS.items() if name.endswith(ending)), "")
