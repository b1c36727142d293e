"""One rule for what the name of a layer or parameter matches, for the check and for the running program alike.

A path means the module and everything under it: `layer4` means `layer4.1.conv2.weight`. A path with `*`, `?` or `[…]`
is a glob, in which a star matches dots too.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def is_glob(path: str) -> bool:
    return any(character in path for character in "*?[")


def is_under(name: str, paths: Iterable[str]) -> bool:
    """Whether a module or parameter is one that the paths name, or lies under one."""
    for path in paths:
        if name == path or name.startswith(f"{path}."):
            return True
        if is_glob(path) and (fnmatchcase(name, path) or fnmatchcase(name, f"{path}.*")):
            return True
    return False


def with_outer(name: str) -> list[str]:
    """A module or parameter and the modules that it is in, outermost first: `layer4`, `layer4.1`, `layer4.1.bn1`."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def is_named(module: str, pattern: str) -> bool:
    """Whether a pattern names this very module: a glob at the same depth, so that `layer*` means no layer within."""
    return module == pattern or (module.count(".") == pattern.count(".") and fnmatchcase(module, pattern))
