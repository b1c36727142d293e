"""Files that name classes, one per line: the first line names class 0. And why a file can't be read.

YOLO's tools do not agree on lines that are empty: some count them, and others don't. So a line that might shift the
numbers of all classes after it is refused, rather than skipped or counted.
"""

import json
import re
from pathlib import Path

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")


def read_lines(file: Path) -> list[str]:
    """The lines of a file of names, without empty ones at its end; a ValueError says what is wrong with one."""
    lines = [line.strip() for line in file.read_text("utf-8-sig").rstrip().splitlines()]
    for at, line in enumerate(lines, 1):
        if not line:
            raise ValueError(f"line {at} is empty, and it is not clear whether it counts as a class; remove it")
        if line.startswith("#") and not _COLOUR.match(line):
            raise ValueError(f"line {at} is a comment, and it is not clear whether it counts as a class; remove it")
    if lines and lines[0].lower() in ("name", "names", "class", "classes"):
        raise ValueError(f"its first line, `{lines[0]}`, looks like a header, but would be class 0; remove it")
    return lines


def unreadable(problem: Exception) -> str:
    """Why a file of text can't be read, and in which line, where that is known."""
    match problem:
        case UnicodeDecodeError(object=content, start=start):
            return f"line {content[:start].count(10) + 1} is not UTF-8 text"  # 10 ends a line
        case json.JSONDecodeError(msg=reason, lineno=line):
            return f"{reason} in line {line}"
        case OSError(strerror=str(reason)):
            return reason
    return str(problem)
