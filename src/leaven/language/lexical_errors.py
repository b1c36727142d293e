"""Reports about characters, brackets, strings and numbers: what is wrong before the grammar sees it."""

import re
import unicodedata

from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Edit, Fix, remove, write
from leaven.language.source import Source, SourceKind, Span
from leaven.language.tokens import Token, through

QUOTES = "'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"  # that strings do not use
_BASES = {"x": "hexadecimal", "b": "binary", "o": "octal"}
# Characters that mean something elsewhere: what a recipe has instead, and how to say it.
_REPLACEMENTS = {
    **dict.fromkeys("|>", ("->", "join stages with `->`")),
    **dict.fromkeys("\u2192\u21d2", ("->", "write the arrow as `->`")),
    **dict.fromkeys("\u2012\u2013\u2014\u2212", ("-", "write an ordinary `-`")),
    "\u00d7": ("*", "write `*`"),
    "&": ("+", "join layers with `+`"),
}
_ADVICE = {
    "^": "write a power of ten as `1e-3`",
    "!": "exclude layers with `-`, as in `all - head`; start a comment with `#`",
    "~": "exclude layers with `-`, as in `all - head`",
    "$": "use a name as it is: `lr`, not `${lr}`",
    "\\": "remove it; a statement continues after `,` and `->` and inside brackets",
}


def too_large(source: Source, limit: int) -> Diagnostic:
    headline = f"the recipe has {len(source.text):,} characters; the limit is {limit:,}"
    fix = "keep data in separate files, and share statements with `extends`"
    return error("too-large", headline, (source.span(0, 0), "the file was not parsed"), fix=fix)


def too_deep(token: Token, brackets: int, operators: int) -> Diagnostic:
    headline = f"more than {brackets} nested brackets or {operators} nested operators"
    fix = "name the inner parts with `let`"
    return error("too-deep", headline, (token, "the limit is reached here; the file was not parsed"), fix=fix)


def unexpected_character(token: Token) -> Diagnostic:
    """A character that no token starts with, or a `.` by itself."""
    character = token.value
    notes: list[str] = []
    fix: Fix | str | None = _ADVICE.get(character)
    if character.isspace() or character == "\ufeff":
        fix = Fix("replace it with an ordinary space", (Edit(token.span, " "),))
        notes = ["such characters often come with text copied from a web page"]
    elif character in _REPLACEMENTS:
        replacement, advice = _REPLACEMENTS[character]
        fix = Fix(advice, (Edit(token.span, replacement),))
    name = f"character `{character}`"
    if not character.isprintable():  # by its name: `no-break space (U+00A0)`
        name = f"{unicodedata.name(character, 'character').lower()} (U+{ord(character):04X})"
    label = "not part of the language"
    return error("unexpected-character", f"unexpected {name}", (token, label), notes=notes, fix=fix)


def wrong_quotes(token: Token) -> Diagnostic:
    """`'photos'`, `“photos”`."""
    span = through(token, rf"[^{QUOTES}\r\n]*[{QUOTES}]")
    is_closed = span != token.span
    fix = write(span, f'"{span.text[1:-1]}"') if is_closed else Fix('strings are written as `"photos"`')
    label = "strings use straight double quotes"
    return error("wrong-quotes", f"unexpected quotation mark `{token}`", (span, label), fix=fix)


def unclosed_bracket(opened: Token, closing: str, missing: Edit, before: str = "") -> Diagnostic:
    """An opening bracket; `missing` closes it, `before` a line or where nothing else is known."""
    fix = Fix(f"add the missing `{closing}`{before}", (missing,))
    return error("unclosed-bracket", f"this `{opened}` is never closed", (opened, f"no matching `{closing}`"), fix=fix)


def unmatched_bracket(token: Token) -> Diagnostic:
    fix = remove(token.span, f"remove the `{token}`")
    return error("unmatched-bracket", f"this `{token}` closes nothing", (token, "no open bracket"), fix=fix)


def wrong_bracket(opened: Token, token: Token, closing: str) -> Diagnostic:
    headline = f"this `{opened}` is closed by `{token}`"
    fix = write(token.span, closing, "replace it with ")
    return error("unmatched-bracket", headline, (token, f"expected `{closing}`"), (opened, "opened here"), fix=fix)


def unclosed_string(token: Token) -> Diagnostic:
    end, label = token.span.at_end, re.match(r'"[^".]*(?=\.)', token.value)
    if label and token.span.source.kind is SourceKind.OPTION:  # `--set 'phase."fine-tune.epochs=3'`
        end = Span(token.span.source, token.span.start + label.end(), token.span.start + label.end())
    headline = 'this string has no closing `"`'
    fix = write(end, '"', shown=token.span)
    return error("unclosed-string", headline, (token, "a string ends on the line where it starts"), fix=fix)


def unknown_escape(token: Token, escape: str, at: int) -> Diagnostic:
    """An escape at an index of a string."""
    start = token.span.start + at
    path = token.value.replace("\\", "/")
    place = Span(token.span.source, start, start + len(escape)), 'the escapes are `\\"`, `\\\\`, `\\n` and `\\t`'
    notes = [f"for a backslash, write `\\{escape}`"]
    fix = write(token.span, path, "in a path, use `/` on every system: ")
    return error("unknown-escape", f"unknown escape `{escape}` in a string", place, notes=notes, fix=fix)


def not_decimal(number: Token) -> Diagnostic:
    """A number such as `0x10`; the token's value is the decimal one."""
    written = number.span.text
    headline = f"`{written}` is {_BASES[written[1].lower()]}"
    return error("invalid-number", headline, (number, "numbers are decimal"), fix=write(number.span, number.value))


def misplaced_underscore(number: Token) -> Diagnostic:
    digits = number.value.replace("_", "")
    headline = f"`{number}` is not a number"
    return error("invalid-number", headline, (number, "a `_` goes between two digits"), fix=write(number.span, digits))


def missing_newline(token: Token) -> Diagnostic:
    fix = Fix(f"start a new line before `{token}`", (Edit(token.span.at_start, "\n"),))
    return error("missing-newline", "two statements on one line", (token, "a new statement starts here"), fix=fix)
