"""Numbers of bytes as people write and read them: `20GB`, `1.3 MB`."""

import re

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i?))?b?", re.IGNORECASE | re.ASCII)


def parse_bytes(text: str) -> int | None:
    """`20GB`, `1.5 TB`, `512MiB` or `1000` as a number of bytes; None for anything else."""
    found = _WRITTEN.fullmatch(text.strip())
    if not found:
        return None
    number, prefix, binary = found.groups()
    thousand = 1024 if binary else 1000
    return int(float(number) * thousand ** (" kmgtp".index(prefix.lower()) if prefix else 0))


def show_bytes(count: int) -> str:
    """A number of bytes with three digits at most before its unit: `740 B`, `1.3 MB`, `128 GB`."""
    size = float(count)
    for unit in _UNITS:
        if round(size) < 1000 or unit == _UNITS[-1]:
            return f"{size:.1f} {unit}" if size < 10 and unit != "B" else f"{size:,.0f} {unit}"
        size /= 1000
    raise AssertionError
