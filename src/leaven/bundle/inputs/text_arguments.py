"""Which texts are meant on the command line: a text itself, the lines of a file or of the input, the rows of a table.

Pairs are the two columns of a table, the two sides of a tab in a line, or two arguments.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from leaven.bundle.inputs.tables import rows_of
from leaven.formats.tables import PLAIN, Layout, formats, is_table_like
from leaven.formats.texts import Text, parts_of
from leaven.runtime.failures import Failure

STANDARD_INPUT = "-"
LINES = (".txt", ".text", ".md", ".log")


def find_texts(
    inputs: Sequence[str], parts: int, columns: Sequence[str], layout: Layout = PLAIN
) -> tuple[list[Text], list[Failure]]:
    """The texts that are meant, each of so many parts, in order; and what is wrong where there are none.

    A table has them in these columns; its layout may be that of the training.
    """
    texts: list[Text] = []
    problems: list[Failure] = []
    are_plain = not any(given == STANDARD_INPUT or _is_path(given) for given in inputs)
    if parts == 2 and are_plain and len(inputs) == 2:
        return [(inputs[0], inputs[1])], []
    for given in inputs:
        try:
            texts += list(_meant(given, parts, columns, layout))  # of a file that can't be read to its end, none
        except Failure as problem:
            problems.append(problem)
    return texts, problems


def in_one_line(text: Text) -> str:
    """A text in one line."""
    return " | ".join(" ".join(part.split()) for part in parts_of(text))


def _meant(given: str, parts: int, columns: Sequence[str], layout: Layout) -> Iterator[Text]:
    if given == STANDARD_INPUT:
        yield from _lines(sys.stdin.read(), "standard input", parts)
    elif not _is_path(given):
        yield given
    elif not os.path.isfile(given):
        raise Failure(f"{given} {'is a folder' if os.path.isdir(given) else 'does not exist'}")
    elif is_table_like(Path(given), layout):
        for _, cells in rows_of(Path(given), columns, layout, "name one by `--text`"):
            texts = tuple(str(cell or "") for cell in cells)
            yield texts[0] if len(texts) == 1 else texts
    else:
        try:
            yield from _lines(Path(given).read_text(encoding="utf-8-sig"), given, parts)
        except (OSError, UnicodeDecodeError) as problem:
            reason = "it is not UTF-8 text" if isinstance(problem, ValueError) else problem.strerror
            raise Failure(f"{given} can't be read: {reason}") from None


def _is_path(given: str) -> bool:
    """Whether an argument names a file; a text may end like one, but then it has spaces before."""
    return os.path.isfile(given) or (given.lower().endswith((*LINES, *formats())) and not any(map(str.isspace, given)))


def _lines(content: str, name: str, parts: int) -> Iterator[Text]:
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise Failure(f"{name} has no texts in it")
    for line in lines:
        yield line if parts == 1 else tuple(line.split("\t"))
