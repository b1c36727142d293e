"""Folders in an object store, by their addresses (`s3://bucket/leaven`), through fsspec.

Which stores there are depends on what is installed: s3fs for Amazon's and its like, gcsfs for Google's, adlfs for
Azure's; files of this machine (`file:///shared`) always. Whatever goes wrong is an `OSError`.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leaven.jobs.problem import Problem

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}


class StoreNotUsable(Problem):
    """An address can't be used on this machine."""


class Folder:
    """A folder in an object store. Names have `/` between folders."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")

    def folder(self, name: str) -> "Folder":
        return Folder(self._files, self._at(name))

    def put(self, file: Path, name: str) -> None:
        """Send a file. A reader sees the old content or the new one."""
        self.write(name, file.read_bytes()) if file.stat().st_size < 1_000_000 else self._put_large(file, name)

    def _put_large(self, file: Path, name: str) -> None:
        with _told_as_os_error():
            self._files.makedirs(self._parent(name), exist_ok=True)
            self._files.put_file(str(file), self._at(name))

    def write(self, name: str, content: bytes) -> None:
        with _told_as_os_error():
            self._files.makedirs(self._parent(name), exist_ok=True)
            self._files.pipe_file(self._at(name), content)

    def get(self, name: str, file: Path) -> None:
        """Fetch a file; `FileNotFoundError` where there is none."""
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.fetched")
        with _told_as_os_error():
            self._files.get_file(self._at(name), str(beside))
        beside.replace(file)

    def read(self, name: str, offset: int = 0) -> bytes:
        """What a file has from an offset on; nothing where there is none."""
        try:
            with _told_as_os_error():
                size = int(self._files.size(self._at(name)) or 0)
                return b"" if size <= offset else bytes(self._files.cat_file(self._at(name), start=offset, end=size))
        except FileNotFoundError:
            return b""

    def has(self, name: str) -> bool:
        with _told_as_os_error():
            self._files.invalidate_cache()
            return bool(self._files.exists(self._at(name)))

    def put_folder(self, folder: Path, name: str) -> None:
        """Send all files of a folder."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(file, f"{name}/{file.relative_to(folder).as_posix()}")

    def get_folder(self, name: str, folder: Path) -> None:
        """Fetch all files of a folder."""
        with _told_as_os_error():
            self._files.invalidate_cache()
            found = list(self._files.find(self._at(name)))
        folder.mkdir(parents=True, exist_ok=True)
        top = self._files._strip_protocol(self._at(name)).rstrip("/")
        for place in found:
            below = str(place)[len(top) :].lstrip("/")
            self.get(f"{name}/{below}", folder / below)

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        with contextlib.suppress(FileNotFoundError), _told_as_os_error():
            self._files.rm(self._at(name), recursive=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _parent(self, name: str) -> str:
        return self._at(name).rpartition("/")[0]


def folder_at(address: str) -> Folder:
    """The folder at an address."""
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ImportError:
        kind = address.partition(":")[0]
        raise StoreNotUsable(f"`{address}` needs {_PACKAGES.get(kind, kind)}", _help(kind)) from None
    except Exception as problem:
        raise StoreNotUsable(f"`{address}` can't be used: {problem}") from None
    return Folder(files, root)


def _help(kind: str) -> str:
    return f"pip install {_PACKAGES[kind]}" if kind in _PACKAGES else ""


@contextlib.contextmanager
def _told_as_os_error() -> Iterator[None]:
    """The libraries of stores have errors of their own."""
    try:
        yield
    except OSError:
        raise
    except Exception as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from None
