"""Which known name was likely meant by one that is not known."""

import unicodedata

from leaven.language.diagnostics import Diagnostic

# How many reports suggest similar names, and out of how many: the search takes long, and nobody reads that far.
MAX_SUGGESTIONS, MAX_CANDIDATES = 50, 5_000


def is_misspelling(written: str, meant: str) -> bool:
    """Whether a word is almost certainly the other one with a letter or two wrong."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, written.lower(), meant).ratio() >= 0.8


def note_on_letters(report: Diagnostic) -> str:
    """A note for a name with a letter of another alphabet that looks like the right one."""
    edit = report.fix.edits[0] if report.fix is not None and report.fix.edits else None
    if not report.spots or edit is None or not edit.text.isascii():
        return ""
    written = edit.span.text
    letter = "" if written.isascii() else next((one for one in written if not one.isascii() and one.isalnum()), "")
    if not letter:
        return ""
    plain = edit.text[written.index(letter) : written.index(letter) + 1]
    script = unicodedata.name(letter, "not ASCII").partition(" ")[0].capitalize()
    script = "a full-width letter" if script == "Fullwidth" else script
    latin = f", not the Latin letter `{plain}`" if plain.isalpha() else ""
    return f"`{letter}` is {script} (U+{ord(letter):04X}){latin}"
