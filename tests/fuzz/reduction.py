"""The smallest text that still fails: lines are left out as long as it does, then characters."""

from collections.abc import Callable


def reduce(text: str, fails: Callable[[str], bool], most: int = 400) -> str:
    """A smaller text that fails too, found with at most so many attempts."""
    left = most
    for split, join in ((_lines, "".join), (list, "".join)):
        parts = split(text)
        size = max(1, len(parts) // 2)
        while size and left > 0:
            at = 0
            while at < len(parts) and left > 0:
                fewer = parts[:at] + parts[at + size :]
                left -= 1
                if fewer and fails(join(fewer)):
                    parts = fewer
                else:
                    at += size
            size //= 2
        text = join(parts)
    return text


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
