"""Letters of other alphabets that look like those of a name: nobody sees which one is wrong unless a report says it."""

import unicodedata

from leaven.language.diagnostics import Diagnostic


def note_of(report: Diagnostic) -> str:
    """What to add to a report about a name that has such a letter and is nearly a known one; mostly nothing."""
    if not report.spots or report.fix is None or report.fix.edit is None or not report.fix.edit.text.isascii():
        return ""
    written = report.fix.edit.span.text
    letter = "" if written.isascii() else next((one for one in written if not one.isascii() and one.isalnum()), "")
    if not letter:
        return ""
    name = unicodedata.name(letter, "a letter of another alphabet").lower()
    return f"`{letter}` is a {name.removeprefix('a ')} (U+{ord(letter):04X}), whatever it looks like"
