"""Edits read from words, as checks write them: `padded by 8 px, in grey`. The words are those of the table."""

import json
import re
from difflib import SequenceMatcher
from functools import cache

from leaven.lab.edits.edit import Edit, EditKind
from leaven.lab.edits.kinds import KINDS
from leaven.runtime.failures import Failure

SUGGESTED = 3


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], EditKind], ...]:
    return tuple((re.compile(kind.pattern), kind) for kind in KINDS.values())


def edit_at(text: str, start: int) -> tuple[Edit, int] | None:
    """The edit whose words begin at a place, and where they end; None where none do."""
    for pattern, kind in _patterns():
        if found := pattern.match(text, start):
            read = [_value(given) for given in found.groups() if given is not None]
            return kind.with_arguments(*read), found.end()
    return None


def nearest_phrases(text: str) -> list[str]:
    """The words of the edits that were probably meant, where a text begins with none: `padded by PIXELS px`."""
    phrases = {
        re.sub(r"\{(\w+)\}", lambda one: one[1].upper(), kind.phrase.partition("[")[0]) for kind in KINDS.values()
    }
    typed = " ".join(re.findall(r"[A-Za-z]+", text.partition(",")[0])).lower()

    def likeness(phrase: str) -> float:
        words = " ".join(word for word in phrase.split() if word.islower())
        return SequenceMatcher(None, words, typed[: len(words)]).ratio()

    return sorted(phrases, key=lambda phrase: (-likeness(phrase), phrase))[:SUGGESTED]


def _value(given: str) -> float | int | str:
    if given.startswith('"'):
        return unquoted(given)
    return int(given) if given.isdigit() else float(given)


def unquoted(given: str) -> str:
    """The text in quotes; a Failure for an escape that means nothing."""
    try:
        text: str = json.loads(given, strict=False)
    except ValueError:
        raise Failure(f"{given} has an unknown escape", 'in quotes, write \\\\ for \\ and \\" for "') from None
    return text
