"""The edits of texts: a table, and the function of each row, from a text to a changed one.

Words are counted from 1, in a pair of texts through both of them. `negate` knows English only.
"""

import re
from collections.abc import Callable

from leaven.formats.texts import Text, parts_of
from leaven.lab.edits.edit import EditKind, Parameter
from leaven.runtime.failures import Failure

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_VERB = re.compile(
    r"\b(is|are|am|was|were|can|could|will|would|should|must|may|might|does|do|did)\b(n['’]t| not\b)?", re.I
)
_SHORT = re.compile(r"\b(ca|wo|sha|is|are|was|were|could|would|should|must|does|do|did)n['’]t\b", re.I)
_LONG = {"ca": "can", "wo": "will", "sha": "shall"}


def word_count(text: Text) -> int:
    """How many words a text has."""
    return sum(len(_WORD.findall(part)) for part in parts_of(text))


def _each(text: Text, change: Callable[[str], str]) -> Text:
    """The text with each of its parts changed."""
    return change(text) if isinstance(text, str) else tuple(change(part) for part in text)


def _at_word(text: Text, word: int | str, change: Callable[[str, re.Match[str]], str]) -> Text:
    """The text with a word changed in its part; a Failure where there is none."""
    seen = 0
    parts = list(parts_of(text))
    for at, part in enumerate(parts):
        for found in _WORD.finditer(part):
            seen += 1
            if word in (seen, found[0]):
                parts[at] = change(part, found)
                return parts[0] if isinstance(text, str) else tuple(parts)
    missing = f"“{word}”" if isinstance(word, str) else str(word)
    raise Failure(f"the text has no word {missing}", f"it has {seen} words")


def replace(text: Text, old: str, new: str) -> Text:
    if not old:
        raise Failure("`replace` needs the words that are replaced")
    pattern = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
    if not any(pattern.search(part) for part in parts_of(text)):
        raise Failure(f"the text has no “{old}”", "words are replaced as a whole; upper and lower case differ")
    return _each(text, lambda part: pattern.sub(lambda _: new, part))


def drop(text: Text, word: int | str) -> Text:
    return _at_word(text, word, lambda part, found: _without(part, found.start(), found.end()))


def _without(part: str, start: int, end: int) -> str:
    """A text without some letters, and without the space that they leave over."""
    before, after = part[:start], part[end:]
    is_doubled = before[-1:].isspace() or not before
    return before + (after[1:] if is_doubled and after[:1].isspace() else after)


def swap(text: Text, word: int | str) -> Text:
    def swapped(part: str, found: re.Match[str]) -> str:
        words = list(_WORD.finditer(part))
        at = next(at for at, one in enumerate(words) if one.start() == found.start())
        if len(words) == 1:
            return part
        at = min(at, len(words) - 2)  # the last word with the one before
        one, next_one = words[at], words[at + 1]
        between = part[one.end() : next_one.start()]
        return part[: one.start()] + next_one[0] + between + one[0] + part[next_one.end() :]

    return _at_word(text, word, swapped)


def misspell(text: Text, word: int | str, seed: int) -> Text:
    def misspelt(part: str, found: re.Match[str]) -> str:
        letters = found[0]
        first = 1 if len(letters) > 3 else 0  # readers notice a wrong first letter at once
        places = [at for at in range(first, len(letters) - 1) if letters[at] != letters[at + 1]]
        if places:
            at = places[seed % len(places)]
            letters = letters[:at] + letters[at + 1] + letters[at] + letters[at + 2 :]
        else:
            letters += letters[-1]
        return part[: found.start()] + letters + part[found.end() :]

    return _at_word(text, word, misspelt)


def case(text: Text, letters: str) -> Text:
    return _each(text, {"lower": str.lower, "upper": str.upper, "title": str.title}[letters])


def negate(text: Text) -> Text:
    parts = list(parts_of(text))
    for at, part in enumerate(parts):
        if (negated := _negated(part)) != part:
            parts[at] = negated
            return parts[0] if isinstance(text, str) else tuple(parts)
    raise Failure("the text has no verb such as “is” or “can” to negate", "name the words: `replace`")


def _negated(part: str) -> str:
    """The sentence with its first auxiliary verb negated, or no longer."""
    short, verb = _SHORT.search(part), _VERB.search(part)
    if short is not None and (verb is None or short.start() <= verb.start()):
        stem = short[1]
        whole = _LONG.get(stem.lower(), stem.lower())
        whole = whole.capitalize() if stem[0].isupper() else whole
        return part[: short.start()] + whole + part[short.end() :]
    if verb is None:
        return part
    return part[: verb.end(1)] + ("" if verb[2] else " not") + part[verb.end() :]


# -- the table

_word = Parameter("word", "word")

KINDS = (
    EditKind(
        "replace", "text", "Words in place of others, everywhere.", "with {old} replaced by {new}", replace,
        (Parameter("old", "text"), Parameter("new", "text")),
    ),
    EditKind(
        "misspell", "text", "Two letters of a word swapped; another seed swaps others.",
        "with word {word} misspelt[ by seed {seed}]", misspell,
        (_word, Parameter("seed", "count", 0, 2**32 - 1, default=0)), by_word=True,
    ),
    EditKind(
        "swap", "text", "A word swapped with the next one, the last with the one before.", "with word {word} swapped",
        swap, (_word,), by_word=True,
    ),
    EditKind("drop", "text", "A word left out.", "without word {word}", drop, (_word,), by_word=True),
    EditKind(
        "case", "text", "In other letters: lower, upper or title.", "in {letters} case", case,
        (Parameter("letters", "text", choices=("lower", "upper", "title")),),
    ),
    EditKind("negate", "text", "The first verb negated, or no longer (English).", "negated", negate),
)  # fmt: skip
