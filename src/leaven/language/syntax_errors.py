"""What to say about text that the grammar refuses.

Decides only the words: given the statement so far, the token that did not fit and what would have, it names the
likeliest mistake and the edit that mends it.
"""

import re

from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error
from leaven.language.foreign_syntax import (
    assignment,
    bare_pattern,
    colon,
    first_sign,
    from_import,
    missing_brackets,
    missing_equals,
    odd_character,
    round_list,
    spoken_sign,
)
from leaven.language.source import Source
from leaven.language.tokens import Token, rest_of_line, text_after, with_rest_of_line

_VALUE_STARTS = {"NAME", "NUMBER", "STRING", "LSQB"}
_BEFORE_VALUES = {"EQUALS", "PLUS", "MINUS", "STAR", "SLASH", "ARROW", "COMMA"}
_NOUNS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a text in quotes",
    "UNIT": "a unit",
    "END": "the end of the statement",
    "COMMA": "`,`",
    "EQUALS": "`=`",
    "COLON": "`:`",
    "DOT": "`.`",
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


def unexpected(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic:
    """The report for a token that can't stand where it does."""
    for explanation in (
        odd_character,
        _introduction,
        assignment,
        colon,
        round_list,
        _missing_value,
        _missing_comma,
        _block,
    ):
        report = explanation(statement, token, accepted)
        if report:
            return report
    found = _noun(token)
    wanted = _wanted(accepted)
    if token.type == "END" and len(statement) == 1 and "EQUALS" in accepted and "COMMA" not in accepted:
        return error(
            "missing-value",
            f"`{statement[0]}` is given no value",
            Spot(statement[0].span, "expected `=` and a value"),
            fix=f"write `{statement[0]}=…`",
        )
    return error(
        "unexpected-token", f"{found} can't stand here", Spot(token.span, f"expected {wanted}" if wanted else "")
    )


def _introduction(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    """Mistakes in `extends`, `import`, `arg` and `let`."""
    forms = {
        "EXTENDS": 'extends "base.leaven"',
        "IMPORT": 'import "mine.py" as mine',
        "ARG": 'arg lr: float = 3e-4 "the learning rate"',
        "LET": "let width = 64",
    }
    word = statement[0].type if statement else ""
    if word not in forms:
        return None
    if accepted & _VALUE_STARTS and statement[-1].type in _BEFORE_VALUES:
        return None
    report = None
    match word:
        case "EXTENDS":
            report = _in_extends(token)
        case "LET":
            report = _in_let(statement, token)
        case "ARG":
            report = _in_arg(statement, token)
    return report or error(
        "unexpected-token",
        f"{_noun(token)} can't stand here",
        Spot(token.span, f"expected {_wanted(accepted)}"),
        fix=f"the form is `{forms[word]}`",
    )


def _in_extends(token: Token) -> Diagnostic | None:
    if token.type != "NAME":
        return None
    quoted = f'"{token.value}"'
    return error(
        "unexpected-token",
        "`extends` takes a file name in quotes",
        Spot(token.span, "not in quotes"),
        fix=Fix(f"write `extends {quoted}`", Edit(token.span, quoted)),
    )


def _in_let(statement: list[Token], token: Token) -> Diagnostic | None:
    if token.type == "END" or len(statement) != 2:
        return None
    value = rest_of_line(token) if token.type == "COLON" else with_rest_of_line(token)
    return error(
        "unexpected-token",
        "a `let` gives its value with `=`",
        Spot(token.span, "expected `=`"),
        fix=f"write `let {statement[1]} = {value or '…'}`",
    )


def _in_arg(statement: list[Token], token: Token) -> Diagnostic | None:
    name = statement[1] if len(statement) > 1 else None
    if name is None:
        return None
    if token.type in ("EQUALS", "END", "STRING") and len(statement) == 2:
        return error(
            "missing-type",
            f"the argument `{name}` has no type",
            Spot(name.span, "expected `: type` after the name"),
            notes=["the types are int, float, bool, text, path and choice[…]"],
            fix=_typed_arg(name, token),
        )
    written = with_rest_of_line(token)
    if token.type == "NAME" and len(statement) == 2:
        return error(
            "unexpected-token",
            f"a `:` is missing between `{name}` and its type",
            Spot(token.span, "expected `:`"),
            fix=Fix(f"write `arg {name}: {written}`", Edit(name.span.at_end, ":")),
        )
    if token.type in ("NUMBER", "NAME", "MINUS") and len(statement) == 4:
        return error(
            "unexpected-token",
            f"a `=` is missing before the default of `{name}`",
            Spot(token.span, "expected `=`"),
            fix=Fix(f"write `arg {name}: {statement[3]} = {written}`", Edit(statement[3].span.at_end, " =")),
        )
    if token.type == "COMMA":
        return error(
            "unexpected-token",
            "the parts of an `arg` have no commas between them",
            Spot(token.span, "not needed"),
            fix=Fix("remove the `,`", Edit(token.span, "")),
        )
    return None


def _typed_arg(name: Token, token: Token) -> Fix:
    """An `arg` with the type that its default tells."""
    default = rest_of_line(token) if token.type == "EQUALS" else ""
    type = "float"
    if default.startswith('"'):
        type = "text"
    elif default in ("true", "false"):
        type = "bool"
    elif default.isdigit():
        type = "int"
    shown = f" = {default}" if default else ""
    return Fix(f"write `arg {name}: {type}{shown}`", Edit(name.span.at_end, f": {type}"))


def _missing_value(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    if not accepted & _VALUE_STARTS or token.type in _VALUE_STARTS or not statement:
        return None
    before = statement[-1]
    if before.type == "NAME":
        return None
    pattern = bare_pattern(token.span, token) if token.type == "STAR" else None
    if pattern and re.match(r"\w", text_after(token)):
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
    if token.type == "COMMA" and before.type in ("LPAR", "CALL", "LSQB"):
        return error(
            "missing-value",
            "a value is missing before `,`",
            Spot(token.span, "nothing stands before it"),
            fix=Fix("remove the `,`", Edit(token.span, "")),
        )
    return error(
        "missing-value",
        f"a value is missing after `{before}`",
        Spot(before.span, label),
        fix=f"write a value after `{before}`, or remove the `{before}`",
    )


def _missing_comma(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    if "COMMA" not in accepted or token.type not in _VALUE_STARTS | {"LPAR", "MINUS"} or not statement:
        return None
    before = statement[-1]
    if before.type == "UNIT" and token.type == "NUMBER":
        return None
    for habit in (from_import, missing_equals, missing_brackets):
        if report := habit(statement, token):
            return report
    if report := spoken_sign(before, token):
        return report
    return error(
        "missing-comma",
        f"a comma is missing before `{token}`",
        Spot(token.span, "a new argument begins here"),
        fix=Fix(f"write `{before}, {token}`", Edit(before.span.at_end, ",")),
    )


def _block(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
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
            fix=first_sign(token),
        )
    return None


def _noun(token: Token) -> str:
    if token.type in ("NAME", "NUMBER", "UNIT", "STRING") or token.type not in _NOUNS:
        return f"`{token}`"
    return _NOUNS[token.type]


def _wanted(accepted: set[str]) -> str:
    """What could stand here, in a few words: a value stands for all that a value may begin with."""
    if accepted >= _VALUE_STARTS:
        return "a value"
    nouns = sorted({_NOUNS[kind] for kind in accepted if kind in _NOUNS})
    return " or ".join(nouns) if len(nouns) <= 3 else ""
