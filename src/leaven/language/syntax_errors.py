"""Reports about tokens that the grammar rejects.

Given the statement so far, the rejected token and the types that would have been accepted, names the likeliest mistake
and the edit that fixes it. Everything else about the recipe is left to the checker.
"""

import re

from leaven.language import foreign_syntax
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Edit, Fix, remove, write
from leaven.language.lexical_errors import QUOTES, unexpected_character, wrong_quotes
from leaven.language.source import Span
from leaven.language.tokens import Token, line_from, rest_of_line, text_after

_VALUE_STARTS = {"NAME", "NUMBER", "STRING", "LSQB"}
_BEFORE_VALUES = {"EQUALS", "PLUS", "MINUS", "STAR", "SLASH", "ARROW", "COMMA"}
_KEYWORD_FORMS = {
    "EXTENDS": 'extends "base.leaven"',
    "IMPORT": 'import "mine.py" as mine',
    "ARG": 'arg lr: float = 3e-4 "the learning rate"',
    "LET": "let width = 64",
}
_NOUNS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "UNIT": "a unit",
    "END": "end of statement",
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
    "$END": "end of input",
}


def unexpected(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic:
    """The report about a token that the grammar rejects."""
    return (
        foreign_syntax.python_statement(statement, token)
        or foreign_syntax.unquoted_path(statement, token)
        or _odd_character(statement, token)
        or _in_keyword_statement(statement, token, accepted)
        or foreign_syntax.assignment(statement, token)
        or foreign_syntax.colon_for_equals(statement, token)
        or foreign_syntax.tuple_for_list(statement, token, accepted)
        or _missing_value(statement, token, accepted)
        or _missing_comma(statement, token, accepted)
        or _at_block(statement, token, accepted)
        or _unexpected(token, accepted)
    )


def _unexpected(token: Token, accepted: set[str], fix: str | None = None) -> Diagnostic:
    """The report where nothing better is known."""
    expected = _expected(accepted)
    label = f"expected {expected}" if expected else ""
    return error("unexpected-token", f"unexpected {_noun(token)}", (token, label), fix=fix)


def _odd_character(statement: list[Token], token: Token) -> Diagnostic | None:
    if token.type not in ("BAD", "DOT"):
        return None
    if token.value in QUOTES:
        return wrong_quotes(token)
    if token.type == "DOT" and statement and statement[-1].span.end == token.span.start:
        return foreign_syntax.unquoted_pattern(statement[-1].span, token)
    return unexpected_character(token)


def _in_keyword_statement(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    keyword = statement[0].type if statement else ""
    if keyword not in _KEYWORD_FORMS:
        return None
    if accepted & _VALUE_STARTS and statement[-1].type in _BEFORE_VALUES:
        return None
    habits = {"EXTENDS": _in_extends, "LET": _in_let, "ARG": _in_arg}
    report = habits[keyword](statement, token) if keyword in habits else None
    return report or _unexpected(token, accepted, fix=f"use the form `{_KEYWORD_FORMS[keyword]}`")


def _in_extends(statement: list[Token], token: Token) -> Diagnostic | None:
    if token.type != "NAME":
        return None
    headline = f"missing quotes around the file name `{token}`"
    fix = write(token.span, f'"{token}"', shown=statement[0].span.to(token.span))
    return error("missing-quotes", headline, (token, "expected a string"), fix=fix)


def _in_let(statement: list[Token], token: Token) -> Diagnostic | None:
    if token.type == "END" or len(statement) != 2:
        return None
    name, whole = statement[1], statement[0].span.to(line_from(token))
    sign = Span(token.span.source, name.span.end, token.span.end if token.type == "COLON" else token.span.start)
    headline = f"missing `=` after `{name}`"
    fix = write(sign, " =" if whole.source.text[sign.end : sign.end + 1].isspace() else " = ", shown=whole)
    return error("missing-equals", headline, (token, f"expected `=`, found {_noun(token)}"), fix=fix)


def _in_arg(statement: list[Token], token: Token) -> Diagnostic | None:
    if len(statement) < 2:
        return None
    name, whole = statement[1], statement[0].span.to(line_from(token))
    if token.type in ("EQUALS", "END", "STRING") and len(statement) == 2:
        return _missing_type(statement[0], name, token)
    if token.type == "NAME" and len(statement) == 2:
        headline = f"missing `:` between `{name}` and its type"
        return error("missing-colon", headline, (token, "expected `:`"), fix=write(name.span.at_end, ":", shown=whole))
    if token.type in ("NUMBER", "NAME", "MINUS") and len(statement) == 4:
        fix = write(statement[3].span.at_end, " =", shown=whole)
        return error("missing-equals", f"missing `=` before the default of `{name}`", (token, "expected `=`"), fix=fix)
    if token.type == "COMMA":
        headline = "unexpected `,` in an `arg`"
        return error("unexpected-token", headline, (token, "not needed"), fix=remove(token.span, "remove the `,`"))
    return None


def _missing_type(word: Token, name: Token, token: Token) -> Diagnostic:
    """The report about an `arg` without a type; the fix has the type of its default."""
    default = rest_of_line(token) if token.type == "EQUALS" else ""
    type = "bool" if default in ("true", "false") else "int" if default.isdigit() else "float"
    type = "text" if default.startswith('"') else type
    whole = word.span.to(line_from(token) if default else name.span)
    headline = f"missing type for the argument `{name}`"
    notes = ["the types are int, float, bool, text, path and choice[…]"]
    fix = write(name.span.at_end, f": {type}", shown=whole)
    return error("missing-type", headline, (name, "expected `: type` after the name"), notes=notes, fix=fix)


def _missing_value(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    if not statement:
        return None
    before = statement[-1]
    if token.type == "END" and len(statement) == 1 and "EQUALS" in accepted and "COMMA" not in accepted:
        fix = f"add its value: `{before}=…`"
        return error("missing-value", f"missing value for `{before}`", (before, "expected `=` and a value"), fix=fix)
    if not accepted & _VALUE_STARTS or token.type in _VALUE_STARTS or before.type == "NAME":
        return None
    if token.type == "STAR" and re.match(r"\w", text_after(token)):
        return foreign_syntax.unquoted_pattern(token.span, token)
    label = f"expected a value, found {_noun(token)}"
    if before.type == "EQUALS" and len(statement) > 1 and statement[-2].type == "NAME":
        name = statement[-2]
        fix = f"write a value after `{name}=`, or remove `{name}=`"
        return error("missing-value", f"missing value for `{name}`", (name.span.to(before.span), label), fix=fix)
    if token.type == "COMMA" and before.type in ("LPAR", "CALL", "LSQB"):
        place = (token, f"expected a value after `{before}`")
        return error("missing-value", "missing value before `,`", place, fix=remove(token.span, "remove the `,`"))
    fix = f"write a value after `{before}`, or remove the `{before}`"
    return error("missing-value", f"missing value after `{before}`", (before, label), fix=fix)


def _missing_comma(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    if "COMMA" not in accepted or token.type not in _VALUE_STARTS | {"LPAR", "MINUS"} or not statement:
        return None
    before = statement[-1]
    if before.type == "UNIT" and token.type == "NUMBER":
        return None
    habits = (
        foreign_syntax.name_with_dash,
        foreign_syntax.from_import,
        foreign_syntax.counted_layers,
        foreign_syntax.number_without_equals,
        foreign_syntax.missing_parentheses,
        foreign_syntax.word_for_operator,
    )
    if report := next(filter(None, (habit(statement, token) for habit in habits)), None):
        return report
    otherwise = f"put a comma before `{token}`"
    fix = write(before.span.at_end, ",", shown=before.span.to(token.span), otherwise=otherwise)
    return error("missing-comma", f"missing comma before `{token}`", (token, "the next argument starts here"), fix=fix)


def _at_block(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    if token.type == "LBRACE" and statement:
        return error("unexpected-block", f"`{statement[0]}` takes no block here", (token, "unexpected `{`"))
    if not statement and "END" in accepted:
        headline = f"unexpected {_noun(token)} after a block"
        fix = Fix("start a new line here", (Edit(token.span.at_start, "\n"),))
        return error("unexpected-token", headline, (token, "a statement ends with its block"), fix=fix)
    if not statement and token.type not in ("END", "RBRACE"):
        headline = f"a statement can't start with {_noun(token)}"
        place = (token, "expected the name of a statement, such as `model` or `freeze`")
        return error("unexpected-token", headline, place, fix=foreign_syntax.first_token_fix(token))
    return None


def _noun(token: Token) -> str:
    if token.type in ("NAME", "NUMBER", "UNIT", "STRING") or token.type not in _NOUNS:
        return f"`{token}`"
    return _NOUNS[token.type]


def _expected(accepted: set[str]) -> str:
    """The accepted tokens in a few words; "a value" covers all that a value may start with."""
    if accepted >= _VALUE_STARTS:
        return "a value"
    nouns = sorted({_NOUNS[kind] for kind in accepted if kind in _NOUNS})
    return " or ".join(nouns) if len(nouns) <= 3 else ""
