"""What to say about text that the grammar refuses.

Decides only the words: given the statement so far, the token that did not fit and what would have, it names the
likeliest mistake and the edit that mends it.
"""

from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error
from leaven.language.layout import Piece
from leaven.language.source import Source, Span

_VALUE_STARTS = {"NAME", "NUMBER", "TEXT", "LSQB"}
_CURLY_QUOTES = "\u201c\u201d\u201e\u00ab\u00bb"
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
    for explanation in (_odd_character, _introduction, _assignment, _missing_value, _missing_comma, _block):
        report = explanation(statement, token, accepted)
        if report:
            return report
    found = _noun(token)
    wanted = _wanted(accepted)
    return error(
        "unexpected-token", f"{found} can't stand here", Spot(token.span, f"expected {wanted}" if wanted else "")
    )


def _odd_character(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    if token.type != "BAD":
        return None
    character = token.value
    notes: list[str] = []
    fix: Fix | str | None = None
    if character in "'`" or character in _CURLY_QUOTES:
        fix = 'write texts in straight double quotes: `"photos"`'
    elif character.isspace() or character == "\ufeff":
        fix = Fix("replace it with an ordinary space", Edit(token.span, " "))
        notes = ["such characters often come with text copied from a web page"]
    elif character == "!":
        fix = "a comment starts with `#`"
    name = f"`{character}`" if character.isprintable() else f"the character U+{ord(character):04X}"
    return error(
        "unexpected-character", f"{name} has no meaning in a recipe", Spot(token.span, "here"), notes=notes, fix=fix
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
    if word.type == "ARG" and token.type in ("EQUALS", "END", "TEXT") and len(statement) == 2:
        return error(
            "missing-type",
            f"the argument `{statement[1]}` has no type",
            Spot(statement[1].span, "expected `: type` after the name"),
            notes=["the types are int, float, bool, text, path and choice[…]"],
            fix=Fix(f"write `arg {statement[1]}: float …`", Edit(_behind(statement[1]), ": float")),
        )
    return error(
        "unexpected-token",
        f"{_noun(token)} can't stand here",
        Spot(token.span, f"expected {_wanted(accepted)}"),
        fix=f"the form is `{forms[word.type]}`",
    )


def _assignment(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    """`model = resnet18`, `model: resnet18`."""
    if len(statement) != 1 or token.type not in ("EQUALS", "COLON"):
        return None
    word = statement[0]
    return error(
        "unexpected-token",
        f"a statement has no `{token}` after its name",
        Spot(token.span, f"not between `{word}` and its value"),
        notes=[f"to give a value a name, write `let {word} = …`"],
        fix=Fix(f"write `{word} …` without the `{token}`", Edit(token.span, "")),
    )


def _missing_value(statement: list[Piece], token: Piece, accepted: set[str]) -> Diagnostic | None:
    if not accepted & _VALUE_STARTS or token.type in _VALUE_STARTS or not statement:
        return None
    before = statement[-1]
    if before.type == "NAME":
        return None
    return error(
        "missing-value",
        f"a value is missing after `{before}`",
        Spot(before.span, f"expected a value, found {_noun(token)}"),
        fix=f"write a value after `{before}`, or remove it",
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
        )
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


def _behind(token: Piece) -> Span:
    return Span(token.span.source, token.span.end, token.span.end)
