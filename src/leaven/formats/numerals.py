"""Numbers as people write them in tables: with a currency sign, thousands in groups, a decimal point or comma."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

MARKS = (".", ",")  # between a number and its fraction
_OTHER = {".": ",", ",": "."}
_GAPS = "\\s'\u2019"  # between thousands, whatever the decimal mark is
_SIGNS = re.compile(r"[%\u2212\u00a0\u202f\u2009]")
_PLAIN = {"\u2212": "-", "%": ""}


def number_in(text: str, decimal: str | None = None) -> float | None:
    """The number that a text is, by the decimal mark: a point, unless another is given; None where it is none.

    `1,234` may be either: without a decimal mark that is given, it is none.
    """
    bare = _bare(text)
    mark = decimal or "."
    if not _written_with(mark).fullmatch(bare) or (decimal is None and is_ambiguous(bare)):
        return None
    return float(re.sub(f"[{_GAPS}{_OTHER[mark]}]", "", bare).replace(mark, "."))


def is_ambiguous(text: str) -> bool:
    """Whether a comma may be between thousands, or before a fraction."""
    return re.fullmatch(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}", _bare(text)) is not None


def decimal_mark(texts: Iterable[str], marks: Sequence[str | None] = (None, *MARKS)) -> str | None:
    """The first of these marks by which all texts are numbers; None where none has to be given, or none fits."""
    texts = [*texts]
    return next((mark for mark in marks if all(number_in(text, mark) is not None for text in texts)), None)


def _bare(text: str) -> str:
    """A number without the signs around it."""
    text = _SIGNS.sub(lambda sign: _PLAIN.get(sign[0], " "), text)
    return "".join(letter for letter in text if unicodedata.category(letter) != "Sc").strip()


def _written_with(mark: str) -> re.Pattern[str]:
    groups = f"[1-9][0-9]{{0,2}}(?:[{_GAPS}{_OTHER[mark]}][0-9]{{3}})+"
    fraction = f"{re.escape(mark)}[0-9]*"
    return re.compile(f"[+-]?(?:(?:{groups}|[0-9]+)(?:{fraction})?|{re.escape(mark)}[0-9]+)(?:[eE][+-]?[0-9]+)?")
