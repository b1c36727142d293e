"""Folders in an object store, by their addresses (`s3://bucket/leaven`), through fsspec.

Which stores there are depends on what is installed: s3fs for Amazon's and its like, gcsfs for Google's, adlfs for
Azure's; files of this machine (`file:///shared`) always. Whatever goes wrong is an `OSError`.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leaven.terminal.problem import Problem

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_ACCESS = {  # the variables that these packages read; Google's is a file, which tools of clouds send themselves
    "s3fs": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
    ),
    "adlfs": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_SAS_TOKEN",
    ),
}


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
        if file.stat().st_size < 1_000_000:
            return self.write(name, file.read_bytes())
        with _as_os_error():
            self._files.makedirs(self._parent(name), exist_ok=True)
            self._files.put_file(str(file), self._at(name))

    def write(self, name: str, content: bytes) -> None:
        with _as_os_error():
            self._files.makedirs(self._parent(name), exist_ok=True)
            self._files.pipe_file(self._at(name), content)

    def get(self, name: str, file: Path) -> None:
        """Fetch a file; `FileNotFoundError` where there is none."""
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.fetched")
        with _as_os_error():
            self._files.get_file(self._at(name), str(beside))
        beside.replace(file)

    def read(self, name: str, offset: int, most: int) -> tuple[bytes, int]:
        """At most that many bytes of a file from an offset on, and the offset after them; nothing where there is none.

        A file that is shorter was begun again, and is read from its start.
        """
        try:
            with _as_os_error():
                size = int(self._files.size(self._at(name)) or 0)
                start = offset if offset <= size else 0
                end = min(size, start + most)
                text = b"" if end == start else bytes(self._files.cat_file(self._at(name), start=start, end=end))
                return text, end
        except FileNotFoundError:
            return b"", offset

    def has(self, name: str) -> bool:
        with _as_os_error():
            self._files.invalidate_cache()
            return bool(self._files.exists(self._at(name)))

    def put_folder(self, folder: Path, name: str) -> None:
        """Send all files of a folder."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(file, f"{name}/{file.relative_to(folder).as_posix()}")

    def get_folder(self, name: str, folder: Path) -> None:
        """Fetch all files of a folder that are still there; names that lead out of it are nobody's."""
        with _as_os_error():
            self._files.invalidate_cache()
            found = list(self._files.find(self._at(name)))
        folder.mkdir(parents=True, exist_ok=True)
        top = self._files._strip_protocol(self._at(name)).rstrip("/")
        for place in found:
            below = str(place)[len(top) :].lstrip("/")
            if below and ".." not in below.split("/"):
                with contextlib.suppress(FileNotFoundError):  # a machine that was thought to be lost may remove some
                    self.get(f"{name}/{below}", folder / below)

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        with contextlib.suppress(FileNotFoundError), _as_os_error():
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
        package = package_for(address)
        help = f"pip install {package}" if package else ""
        raise StoreNotUsable(f"`{address}` needs {package or address.partition(':')[0]}", help) from None
    except Exception as problem:
        raise StoreNotUsable(f"`{address}` can't be used: {problem}") from None
    return Folder(files, root)


def package_for(address: str) -> str:
    """The package that a machine needs to use an address; empty where it needs none, or one that is not known."""
    return _PACKAGES.get(address.partition(":")[0], "")


def access_variables(address: str) -> list[str]:
    """The variables of this process that give access to an address."""
    return [name for name in _ACCESS.get(package_for(address), ()) if os.environ.get(name)]


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """The libraries of stores have errors of their own."""
    try:
        yield
    except OSError:
        raise
    except Exception as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from None
