"""What to say about text that the grammar refuses.

Decides only the words: given the statement so far, the token that did not fit and what would have, it names the
likeliest mistake and the edit that mends it.
"""

import re

from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error
from leaven.language.layout import Piece
from leaven.language.source import Source, Span

_VALUE_STARTS = {"NAME", "NUMBER", "TEXT", "LSQB"}
_QUOTES = "'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_AHEAD = 120  # characters that are looked at behind a token, so that a report about an endless line is made at once
# What stands for a sign of the language elsewhere, and what that sign is.
_SIGNS = {
    "|": ("->", "stages are joined with `->`"),
    "\u2192": ("->", "write the arrow as `->`"),
    "\u21d2": ("->", "write the arrow as `->`"),
    "\u2012": ("-", "write an ordinary `-`"),
    "\u2013": ("-", "write an ordinary `-`"),
    "\u2014": ("-", "write an ordinary `-`"),
    "\u2212": ("-", "write an ordinary `-`"),
    "\u00d7": ("*", "write `*`"),
    "&": ("+", "layers are joined with `+`"),
}
_HABITS = {
    "^": "a power of ten is written `1e-3`",
    "!": "layers are taken away with `-`, as in `all - head`; a comment starts with `#`",
    "~": "layers are taken away with `-`, as in `all - head`",
    "$": "a name stands for its value by itself: `lr`, not `${lr}`",
    "\\": "no sign is needed to go on in the next line: after `,` and `->`, and in brackets, it means nothing",
}
_NOUNS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "TEXT": "a text in quotes",
    "UNIT": "a unit",
    "END": "the end of the statement",
    "COMMA": "`,`",
    "EQUALS": "`=`",
    "COLON": "`:`",
    "ARROW": "`->`",
    "LPAR": "`(`",
    "CALL": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "AS": "`as`",
    "$END": "the end",
}


def too_large(source: Source, limit: int) -> Diagnostic:
    return error(
        "too-large",
        f"the recipe has {len(source.text):,} characters, and {limit:,} is the limit",
        Spot(source.span(0, 0), "nothing of it was read"),
        fix="keep data in files of its own, and share statements through `extends`",
    )


def nothing_given(source: Source) -> Diagnostic:
    return error("missing-value", f"`{source.name}` was given no value", source.span(0, len(source.text)))


def unexpected(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic:
    """The report for a token that can't stand where it does."""
    for explanation in (
        _odd_character,
        _introduction,
        _assignment,
        _colon,
        _round_list,
        _missing_value,
        _missing_comma,
        _block,
    ):
        report = explanation(statement, token, accepted)
        if report:
            return report
    found = _noun(token)
    wanted = _wanted(accepted)
    if token.type == "END" and len(statement) == 1 and accepted == {"EQUALS"}:
        return error(
            "missing-value",
            f"`{statement[0]}` is given no value",
            Spot(statement[0].span, "expected `=` and a value"),
            fix=f"write `{statement[0]}=…`",
        )
    return error(
        "unexpected-token", f"{found} can't stand here", Spot(token.span, f"expected {wanted}" if wanted else "")
    )


def _odd_character(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    if token.type != "BAD":
        return None
    character = token.value
    if character in _QUOTES:
        return _wrong_quotes(token)
    if character == "." and statement and statement[-1].span.end == token.span.start:
        return _bare_pattern(statement[-1].span, token)
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


def _bare_pattern(start: Span, token: Piece) -> Diagnostic | None:
    """`layer1.*`, `*query`."""
    rest = re.match(r"[\w.*?\[\]-]*", _text_behind(token))
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


def _wrong_quotes(token: Piece) -> Diagnostic:
    """`'photos'`, `“photos”`."""
    closed = re.match(rf"([^{_QUOTES}\r\n]*)[{_QUOTES}]", _text_behind(token))
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


def _introduction(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    """Mistakes in `extends`, `import`, `arg` and `let`."""
    forms = {
        "EXTENDS": 'extends "base.leaven"',
        "IMPORT": 'import "mine.py" as mine',
        "ARG": 'arg lr: float = 3e-4 "the learning rate"',
        "LET": "let width = 64",
    }
    if not statement or statement[0].type not in forms:
        return None
    word = statement[0]
    if accepted & _VALUE_STARTS and statement[-1].type in (
        "EQUALS",
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "ARROW",
        "COMMA",
    ):
        return None
    if word.type == "EXTENDS" and token.type == "NAME":
        quoted = f'"{token.value}"'
        return error(
            "unexpected-token",
            "`extends` takes a file name in quotes",
            Spot(token.span, "not in quotes"),
            fix=Fix(f"write `extends {quoted}`", Edit(token.span, quoted)),
        )
    if word.type == "LET" and token.type == "COLON" and len(statement) == 2:
        return error(
            "unexpected-token",
            "a `let` gives its value with `=`",
            Spot(token.span, "expected `=`"),
            fix=Fix(f"write `let {statement[1]} = {_ahead(token) or '…'}`", Edit(token.span, " =")),
        )
    if word.type == "ARG" and token.type in ("EQUALS", "END", "TEXT") and len(statement) == 2:
        return error(
            "missing-type",
            f"the argument `{statement[1]}` has no type",
            Spot(statement[1].span, "expected `: type` after the name"),
            notes=["the types are int, float, bool, text, path and choice[…]"],
            fix=_typed_arg(statement[1], token),
        )
    return error(
        "unexpected-token",
        f"{_noun(token)} can't stand here",
        Spot(token.span, f"expected {_wanted(accepted)}"),
        fix=f"the form is `{forms[word.type]}`",
    )


def _typed_arg(name: Piece, token: Piece) -> Fix:
    """An `arg` with the type that its default tells."""
    default = _ahead(token) if token.type == "EQUALS" else ""
    type = "float"
    if default.startswith('"'):
        type = "text"
    elif default in ("true", "false"):
        type = "bool"
    elif default.isdigit():
        type = "int"
    shown = f" = {default}" if default else ""
    return Fix(f"write `arg {name}: {type}{shown}`", Edit(_behind(name), f": {type}"))


def _assignment(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    """`model = resnet18`, `model: resnet18`, and what was meant to be an argument: `epochs: 10`."""
    if len(statement) != 1 or token.type not in ("EQUALS", "COLON"):
        return None
    word, value = statement[0], _ahead(token)
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
        fix = Fix(f"to give a value a name, write `let {word} = {value}`", Edit(_before(word), "let "))
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


def _colon(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    """`train epochs: 10`."""
    if token.type != "COLON" or len(statement) < 2 or statement[-1].type != "NAME":
        return None
    name, value = statement[-1], re.match(r"[^\s,)\]}]*", _ahead(token))
    return error(
        "unexpected-token",
        "an argument is given with `=`, not with `:`",
        Spot(token.span, f"expected `=` after `{name}`"),
        fix=Fix(f"write `{name}={value[0] if value else ''}`", Edit(token.span, "=")),
    )


def _round_list(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    """`betas=(0.9, 0.999)`."""
    if token.type != "COMMA" or "COMMA" in accepted or "RPAR" not in accepted:
        return None
    depth = 0
    for piece in reversed(statement):
        depth += {"RPAR": 1, "LPAR": -1, "CALL": -1}.get(piece.type, 0)
        if depth < 0:
            break
    closed = re.match(r"[^()\r\n]*\)", _text_behind(token))
    span, fix = token.span, Fix("write a list in square brackets: `[0.9, 0.999]`")
    if closed:
        span = Span(token.span.source, piece.span.start, token.span.end + closed.end())
        fix = Fix(f"write `[{span.text[1:-1]}]`", Edit(span, f"[{span.text[1:-1]}]"))
    return error("unexpected-token", "a list stands in square brackets", Spot(span, "expected `[` and `]`"), fix=fix)


def _missing_value(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    if not accepted & _VALUE_STARTS or token.type in _VALUE_STARTS or not statement:
        return None
    before = statement[-1]
    if before.type == "NAME":
        return None
    pattern = _bare_pattern(token.span, token) if token.type == "STAR" else None
    if pattern and re.match(r"\w", _text_behind(token)):
        return pattern
    label = f"expected a value, found {_noun(token)}"
    if before.type == "EQUALS" and len(statement) > 1 and statement[-2].type == "NAME":
        name = statement[-2]
        return error(
            "missing-value",
            f"`{name}` is given no value",
            Spot(name.span.to(before.span), label),
            fix=f"write a value behind `{name}=`, or leave `{name}` out",
        )
    return error(
        "missing-value",
        f"a value is missing after `{before}`",
        Spot(before.span, label),
        fix=f"write a value after `{before}`, or remove the `{before}`",
    )


def _missing_comma(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    if "COMMA" not in accepted or token.type not in _VALUE_STARTS | {"LPAR", "MINUS"} or not statement:
        return None
    before = statement[-1]
    if before.type == "UNIT" and token.type == "NUMBER":
        return None
    return error(
        "missing-comma",
        f"a comma is missing before `{token}`",
        Spot(token.span, "a new argument begins here"),
        fix=Fix(f"write `{before}, {token}`", Edit(_behind(before), ",")),
    )


def _block(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    if token.type == "LBRACE" and statement:
        return error(
            "unexpected-token", f"`{statement[0]}` can't have a block here", Spot(token.span, "expected no `{`")
        )
    if not statement and "END" in accepted:
        return error(
            "unexpected-token",
            "a statement ends with its block",
            Spot(token.span, "this belongs to a new statement"),
            fix=Fix("begin a new line here", Edit(token.span, f"\n{token}")),
        )
    if not statement and token.type not in ("END", "RBRACE"):
        return error(
            "unexpected-token",
            f"a statement can't begin with {_noun(token)}",
            Spot(token.span, "expected the name of a statement, such as `model` or `freeze`"),
            fix=_first_sign(token),
        )
    return None


def _first_sign(token: Piece) -> Fix | None:
    """What a sign at the beginning of a line was meant to be."""
    beginning = token.span.text + _text_behind(token)
    if beginning.startswith(("//", "/*", "--")):
        return Fix(
            "a comment starts with `#`", Edit(Span(token.span.source, token.span.start, token.span.start + 2), "#")
        )
    if token.type in ("MINUS", "STAR"):
        return Fix(f"remove the `{token}`: a statement begins with its name", Edit(token.span, ""))
    if token.type == "NUMBER":
        return Fix("an argument stands behind its statement, as in `train epochs=10`")
    return None


def _noun(token: Piece) -> str:
    if token.type in ("NAME", "NUMBER", "UNIT", "TEXT") or token.type not in _NOUNS:
        return f"`{token}`"
    return _NOUNS[token.type]


def _wanted(accepted: set[str]) -> str:
    """What could stand here, in a few words: a value stands for all that a value may begin with."""
    if accepted >= _VALUE_STARTS:
        return "a value"
    nouns = sorted({_NOUNS[kind] for kind in accepted if kind in _NOUNS})
    return " or ".join(nouns) if len(nouns) <= 3 else ""


def _text_behind(token: Piece) -> str:
    return token.span.source.text[token.span.end : token.span.end + _AHEAD]


def _ahead(token: Piece) -> str:
    """What stands behind a token up to the end of its line or the block of its statement."""
    found = re.match(r"[^#;{}\r\n]*", _text_behind(token))
    value = found[0].strip() if found else ""
    return value if len(value) < _AHEAD - 20 else value[:20] + "…"


def _before(token: Piece) -> Span:
    return Span(token.span.source, token.span.start, token.span.start)


def _behind(token: Piece) -> Span:
    return Span(token.span.source, token.span.end, token.span.end)
