"""What people write out of the habit of other languages, and how it is written in a recipe.

Each function looks at the statement so far and the token that did not fit; it answers with a report, or with None where
something else is the matter.
"""

import re

from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error
from leaven.language.source import Span
from leaven.language.tokens import Token, rest_of_line, text_after

_QUOTES = "'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
# What stands for a sign of the language elsewhere, and what that sign is.
_SIGNS = {
    "|": ("->", "stages are joined with `->`"),
    "\u2192": ("->", "write the arrow as `->`"),
    "\u21d2": ("->", "write the arrow as `->`"),
    ">": ("->", "stages are joined with `->`"),
    "\u2012": ("-", "write an ordinary `-`"),
    "\u2013": ("-", "write an ordinary `-`"),
    "\u2014": ("-", "write an ordinary `-`"),
    "\u2212": ("-", "write an ordinary `-`"),
    "\u00d7": ("*", "write `*`"),
    "&": ("+", "layers are joined with `+`"),
}
_CALLED = ("model", "data", "optimizer", "schedule", "loss", "metrics")  # what stands behind these is called
_NAMED = ("train", "checkpoint", "split")  # whose arguments all have names
_HABITS = {
    "^": "a power of ten is written `1e-3`",
    "!": "layers are taken away with `-`, as in `all - head`; a comment starts with `#`",
    "~": "layers are taken away with `-`, as in `all - head`",
    "$": "a name stands for its value by itself: `lr`, not `${lr}`",
    "\\": "no sign is needed to go on in the next line: after `,` and `->`, and in brackets, it means nothing",
}


def odd_character(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    """A character that no token begins with, or a dot by itself."""
    if token.type not in ("BAD", "DOT"):
        return None
    character = token.value
    if character in _QUOTES:
        return _wrong_quotes(token)
    if character == "." and statement and statement[-1].span.end == token.span.start:
        return bare_pattern(statement[-1].span, token)
    notes: list[str] = []
    fix: Fix | str | None = _HABITS.get(character)
    if character.isspace() or character == "\ufeff":
        fix = Fix("replace it with an ordinary space", Edit(token.span, " "))
        notes = ["such characters often come with text copied from a web page"]
    elif character in _SIGNS:
        sign, help_text = _SIGNS[character]
        fix = Fix(help_text, Edit(token.span, sign))
    name = f"`{character}`" if character.isprintable() else _invisible(character)
    return error(
        "unexpected-character", f"{name} has no meaning in a recipe", Spot(token.span, "here"), notes=notes, fix=fix
    )


def bare_pattern(start: Span, token: Token) -> Diagnostic | None:
    """`layer1.*`, `*query`."""
    rest = re.match(r"[\w.*?\[\]-]*", text_after(token))
    span = Span(start.source, start.start, token.span.end + (rest.end() if rest else 0))
    if not re.search(r"[*?\[]", span.text):
        return None
    return error(
        "unexpected-character",
        "a pattern of layers stands in quotes",
        Spot(span, "not in quotes"),
        fix=Fix(f'write `"{span.text}"`', Edit(span, f'"{span.text}"')),
    )


def _invisible(character: str) -> str:
    """A character that can't be seen, by its name: a no-break space (U+00A0)."""
    import unicodedata

    name = unicodedata.name(character, "").lower()
    number = f"U+{ord(character):04X}"
    return f"a {name} ({number})" if name else f"the character {number}"


def _wrong_quotes(token: Token) -> Diagnostic:
    """`'photos'`, `“photos”`."""
    closed = re.match(rf"([^{_QUOTES}\r\n]*)[{_QUOTES}]", text_after(token))
    span, fix = token.span, Fix('write texts in straight double quotes: `"photos"`')
    if closed:
        span = Span(token.span.source, token.span.start, token.span.end + closed.end())
        fix = Fix(f'write `"{closed[1]}"`', Edit(span, f'"{closed[1]}"'))
    return error(
        "unexpected-character",
        f"`{token}` does not quote a text",
        Spot(span, "texts stand in straight double quotes"),
        fix=fix,
    )


def assignment(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    """`model = resnet18`, `model: resnet18`, and what was meant to be an argument: `epochs: 10`."""
    if len(statement) != 1 or token.type not in ("EQUALS", "COLON"):
        return None
    word, value = statement[0], rest_of_line(token)
    between = Span(token.span.source, word.span.end, token.span.end)
    notes: list[str] = []
    is_indented = word.span.column > 1
    if not value:
        label = "nothing follows it on this line"
        fix = Fix(f"remove the `{token}`: arguments stand on this line, a block in braces", Edit(between, ""))
    elif token.type == "COLON" and is_indented:
        label = "an argument is not a line of its own"
        fix = Fix(f"an argument stands in the line of its statement: `… {word}={value}`")
    elif not re.fullmatch(r"[-.\d][-.\w]*|true|false|none|True|False|None", value):
        label = f"not between `{word}` and its value"
        fix = Fix(f"write `{word} {value}`", Edit(between, ""))
        if token.type == "EQUALS":
            notes = [f"to give a value a name, write `let {word} = {value}`"]
    elif token.type == "EQUALS":
        label = "this is neither a statement nor a `let`"
        notes = ["an argument stands behind its statement, as in `train epochs=10`"]
        fix = Fix(f"to give a value a name, write `let {word} = {value}`", Edit(word.span.at_start, "let "))
    else:
        label = f"not between `{word}` and its value"
        fix = Fix(f"an argument stands in the line of its statement: `… {word}={value}`")
    return error(
        "unexpected-token",
        f"a statement has no `{token}` after its name",
        Spot(token.span, label),
        notes=notes,
        fix=fix,
    )


def colon(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    """`train epochs: 10`."""
    if token.type != "COLON" or len(statement) < 2 or statement[-1].type != "NAME":
        return None
    name, value = statement[-1], re.match(r"[^\s,)\]}]*", rest_of_line(token))
    return error(
        "unexpected-token",
        "an argument is given with `=`, not with `:`",
        Spot(token.span, f"expected `=` after `{name}`"),
        fix=Fix(f"write `{name}={value[0] if value else ''}`", Edit(token.span, "=")),
    )


def round_list(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    """`betas=(0.9, 0.999)`."""
    if token.type != "COMMA" or "COMMA" in accepted or "RPAR" not in accepted:
        return None
    if statement[-1].type in ("LPAR", "CALL"):  # a comma alone makes no list
        return None
    depth = 0
    for piece in reversed(statement):
        depth += {"RPAR": 1, "LPAR": -1, "CALL": -1}.get(piece.type, 0)
        if depth < 0:
            break
    closed = re.match(r"[^()\r\n]*\)", text_after(token))
    span, fix = token.span, Fix("write a list in square brackets: `[0.9, 0.999]`")
    if closed:
        span = Span(token.span.source, piece.span.start, token.span.end + closed.end())
        fix = Fix(f"write `[{span.text[1:-1]}]`", Edit(span, f"[{span.text[1:-1]}]"))
    return error("unexpected-token", "a list stands in square brackets", Spot(span, "expected `[` and `]`"), fix=fix)


def from_import(statement: list[Token], token: Token) -> Diagnostic | None:
    """`from torch import nn`."""
    if len(statement) != 2 or str(statement[0]) != "from" or str(token) != "import":
        return None
    return error(
        "unexpected-token",
        "a recipe imports whole modules",
        Spot(statement[0].span.to(token.span), "no `from` here"),
        fix=f"write `import {statement[1]} as {str(statement[1]).rpartition('.')[2]}`",
    )


def spoken_sign(left: Token, token: Token) -> Diagnostic | None:
    """`freeze all except head`."""
    signs = {"except": "-", "but": "-", "without": "-", "minus": "-", "and": "+", "plus": "+"}
    sign = signs.get(token.value)
    right = re.match(r"[ \t]+([\w.]+|\"[^\"\r\n]*\")", text_after(token))
    if sign is None or right is None:
        return None
    what = "taken away with `-`" if sign == "-" else "joined with `+`"
    return error(
        "unexpected-token",
        f"layers are {what}, not with `{token}`",
        Spot(token.span, f"expected `{sign}`"),
        fix=Fix(f"write `{left} {sign} {right[1]}`", Edit(token.span, sign)),
    )


def missing_equals(statement: list[Token], token: Token) -> Diagnostic | None:
    """`train epochs 3`."""
    name, first = statement[-1], statement[0]
    is_named = len(statement) > 2 and statement[-2].type == "COMMA"
    if token.type != "NUMBER" or name.type != "NAME" or not (is_named or (name is not first and str(first) in _NAMED)):
        return None
    number = re.match(r"[^\s,;)\]}]*", f"{token}{text_after(token)}")
    written = f"{name}={number[0] if number else token}"
    return error(
        "unexpected-token",
        "an argument is given with `=`",
        Spot(token.span, f"expected `=` after `{name}`"),
        fix=Fix(
            f"write `{written if is_named else f'{first} {written}'}`",
            Edit(name.span.to(token.span), f"{name}={token}"),
        ),
    )


def missing_brackets(statement: list[Token], token: Token) -> Diagnostic | None:
    """`optimizer adamw lr=1e-3`."""
    if len(statement) != 2 or str(statement[0]) not in _CALLED or token.type != "NAME":
        return None
    name, arguments = statement[1], token.value + text_after(token)
    found = re.match(r"\w+ *=[^#;{}\r\n]*", arguments)
    if name.type != "NAME" or not found or len(found[0]) > 60:
        return None
    call = f"{name}({found[0].strip()})"
    whole = Span(token.span.source, name.span.start, token.span.start + len(found[0].rstrip()))
    return error(
        "unexpected-token",
        f"the arguments of `{name}` stand in brackets",
        Spot(token.span, "expected `(`"),
        fix=Fix(f"write `{statement[0]} {call}`", Edit(whole, call)),
    )


def first_sign(token: Token) -> Fix | None:
    """What a sign at the beginning of a line was meant to be."""
    beginning = token.span.text + text_after(token)
    if beginning.startswith(("//", "/*", "--")):
        return Fix(
            "a comment starts with `#`", Edit(Span(token.span.source, token.span.start, token.span.start + 2), "#")
        )
    if token.type in ("MINUS", "STAR"):
        return Fix(f"remove the `{token}`: a statement begins with its name", Edit(token.span, ""))
    if token.type == "NUMBER":
        return Fix("an argument stands behind its statement, as in `train epochs=10`")
    return None
