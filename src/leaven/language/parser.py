"""From text to tree.

`parse` always returns a tree and what is wrong with the text: after a mistake it goes on at the next statement.
What the names mean is left to the checker.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from leaven.language import parse_tables, syntax, syntax_errors
from leaven.language.diagnostics import Diagnostic, in_order
from leaven.language.lalr_parser import Grammar, LalrParser
from leaven.language.layout import ESCAPES, arrange
from leaven.language.source import Source, Span
from leaven.language.tokens import Token

MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Parsed:
    """A tree, as far as the text could be read, and every mistake in the text."""

    tree: syntax.Tree
    diagnostics: tuple[Diagnostic, ...]


def parse(source: Source) -> Parsed:
    """The tree of a recipe."""
    statements, comments, diagnostics = _read(source, "start")
    if statements is None:
        # A recipe beyond a limit: one statement stands for all that was not read, so that nobody calls it missing.
        statements = [syntax.Broken(None, None, source.span(0, 0))]
    return Parsed(syntax.Tree(tuple(statements or ()), source, tuple(comments)), diagnostics)


def parse_value(source: Source) -> tuple[syntax.Value | None, tuple[Diagnostic, ...]]:
    """The one value that a source holds, such as an option on the command line."""
    value, _, diagnostics = _read(source, "only_value")
    return value, diagnostics


def parse_setting(source: Source) -> tuple[syntax.Setting | None, tuple[Diagnostic, ...]]:
    """The one `path=value` that a source holds, such as `--set optimizer.lr=1e-4`."""
    setting, _, diagnostics = _read(source, "only_setting")
    return setting, diagnostics


def _read(source: Source, start: str) -> tuple[Any, list[Span], tuple[Diagnostic, ...]]:
    if len(source.text) > MAX_CHARACTERS:
        return None, [], (syntax_errors.too_large(source, MAX_CHARACTERS),)
    grammar = load_grammar()
    arranged = arrange(list(grammar.tokens(source)), source)
    if arranged.is_beyond_limit:
        return None, arranged.comments, in_order(arranged.diagnostics)
    reader = _Reader(grammar.parser(start), source)
    result = reader.read(iter(arranged.tokens))
    follows = bool(arranged.diagnostics) and start != "start"  # one value alone has no second mistake of its own
    diagnostics = [*arranged.diagnostics, *(() if follows else reader.diagnostics)]
    return result, arranged.comments, in_order(diagnostics)


class _Reader:
    """Feeds tokens to the grammar and, where it refuses one, puts a BROKEN statement in the place of the faulty one."""

    def __init__(self, parser: LalrParser, source: Source) -> None:
        self.parser = parser
        self.source = source
        self.diagnostics: list[Diagnostic] = []

    def read(self, tokens: Iterator[Token]) -> Any:
        statement: list[Token] = []
        for token in tokens:
            if not self.parser.feed(token):
                self.diagnostics.append(syntax_errors.unexpected(statement, token, self.parser.accepts()))
                if not self._recover(statement, token, tokens):
                    return None
                statement = []
            elif token.type in ("END", "LBRACE", "RBRACE"):
                statement = []
            else:
                statement.append(token)
        result = self.parser.finish()
        if result is None:
            # Only a source that must hold one value or setting can end too early; a file ends after any statement.
            self.diagnostics.append(syntax_errors.nothing_given(self.source))
        return result

    def _recover(self, statement: list[Token], token: Token, tokens: Iterator[Token]) -> bool:
        """Drop the faulty statement's tokens up to its block or its end; false where there is no statement to drop."""
        first = statement[0] if statement else token
        if statement:
            self.parser.unwind("statement")
        elif "END" in self.parser.accepts():  # something stands behind a block
            self.parser.feed(Token("END", "", first.span))
        if "BROKEN" not in self.parser.accepts():
            return False
        self.parser.feed(Token("BROKEN", first.value, first.span))
        while token.type not in ("END", "LBRACE", "RBRACE"):
            token = next(tokens)
        self.parser.feed(token)
        return True


@cache
def load_grammar() -> Grammar:
    """The grammar of grammar.lark, with the tree as what it builds."""
    return Grammar(parse_tables.load(), _Builder())


class _Builder:
    """One method for each form of the grammar, called as soon as that form is complete."""

    def start(self, body: list[syntax.AnyStatement]) -> list[syntax.AnyStatement]:
        return body

    def only_value(self, value: syntax.Value, _end: Token) -> syntax.Value:
        return value

    def only_setting(
        self, path: tuple[syntax.Name | syntax.String, ...], _equals: Token, value: syntax.Value, _end: Token
    ) -> syntax.Setting:
        return syntax.Setting(path, value, path[0].span.to(value.span))

    def path(self, name: Token, *quoted: Token | None) -> tuple[syntax.Name | syntax.String, ...]:
        _dot, label, _dot, rest = quoted
        words = _words(name)
        return (*words, self.string(label), *_words(rest)) if label and rest else words

    def body(self, *parts: Any) -> list[syntax.AnyStatement]:
        return [part for part in parts if not isinstance(part, Token)]

    def block(self, opening: Token, body: list[syntax.AnyStatement], closing: Token) -> syntax.Block:
        return syntax.Block(tuple(body), opening.span.to(closing.span))

    # -- statements

    def extends(self, word: Token, target: Token) -> syntax.Extends:
        return syntax.Extends(self.string(target), word.span.to(target.span))

    def import_(self, word: Token, target: Token, as_: Token | None, alias: Token | None) -> syntax.Import:
        node = self.string(target) if target.type == "STRING" else _name(target)
        return syntax.Import(node, _name(alias) if alias else None, word.span.to((alias or target).span))

    def arg(
        self,
        word: Token,
        name: Token,
        _colon: Token,
        type: Token,
        choices: syntax.List | None,
        _equals: Token | None,
        default: syntax.Value | None,
        help: Token | None,
    ) -> syntax.Arg:
        last = help or default or choices or type
        help_text = self.string(help) if help else None
        return syntax.Arg(_name(name), _name(type), choices, default, help_text, word.span.to(last.span))

    def let(self, word: Token, name: Token, _equals: Token, value: syntax.Value) -> syntax.Let:
        return syntax.Let(_name(name), value, word.span.to(value.span))

    def statement(
        self, name: Token, arguments: list[syntax.Argument] | None, block: syntax.Block | None
    ) -> syntax.Statement:
        last = block or (arguments[-1] if arguments else name)
        return syntax.Statement(_name(name), tuple(arguments or ()), block, name.span.to(last.span))

    def called_statement(
        self,
        name: Token,
        _call: Token,
        arguments: list[syntax.Argument] | None,
        _comma: Token | None,
        closing: Token,
        block: syntax.Block | None,
    ) -> syntax.Statement:
        return syntax.Statement(_name(name), tuple(arguments or ()), block, name.span.to((block or closing).span))

    def broken(self, first: Token, block: syntax.Block | None) -> syntax.Broken:
        name = _name(first) if first.value[:1].isalpha() else None
        return syntax.Broken(name, block, first.span.to((block or first).span))

    # -- values

    def arguments(self, *parts: Any) -> list[syntax.Argument]:
        return _grown(parts)

    def items(self, *parts: Any) -> list[syntax.Value]:
        return _grown(parts)

    def argument(self, keyword: Token | None, _equals: Token | None, value: syntax.Value) -> syntax.Argument:
        span = keyword.span.to(value.span) if keyword else value.span
        return syntax.Argument(_name(keyword) if keyword else None, value, span)

    def pipeline(self, *parts: Any) -> syntax.Pipeline:
        stages = tuple(part for part in parts if not isinstance(part, Token))
        return syntax.Pipeline(stages, stages[0].span.to(stages[-1].span))

    def binary(self, left: syntax.Value, operator: Token, right: syntax.Value) -> syntax.Binary:
        return syntax.Binary(operator.value, left, right, left.span.to(right.span))

    def negative(self, minus: Token, value: syntax.Value) -> syntax.Negative:
        return syntax.Negative(value, minus.span.to(value.span))

    def number(self, digits: Token, unit: Token | None) -> syntax.Number:
        plain = digits.value.replace("_", "")
        value = int(plain) if plain.isdigit() and len(plain) < 19 else float(plain)
        return syntax.Number(value, unit.value if unit else None, digits.span.to((unit or digits).span))

    def string(self, quoted: Token) -> syntax.String:
        body = quoted.value[1:-1] if len(quoted.value) > 1 and quoted.value.endswith('"') else quoted.value[1:]
        if "\\" in body:
            body = _unescape(body)
        return syntax.String(body, quoted.span)

    def name(self, word: Token) -> syntax.Name | syntax.Literal:
        if word.value in _LITERALS:
            return syntax.Literal(_LITERALS[word.value], word.span)
        return _name(word)

    def call(
        self,
        name: Token,
        _opening: Token,
        arguments: list[syntax.Argument] | None,
        _comma: Token | None,
        closing: Token,
    ) -> syntax.Call:
        return syntax.Call(_name(name), tuple(arguments or ()), name.span.to(closing.span))

    def group(self, _opening: Token, value: syntax.Value, _closing: Token) -> syntax.Value:
        return value

    def list(
        self, opening: Token, items: "list[syntax.Value] | None", _comma: Token | None, closing: Token
    ) -> syntax.List:
        return syntax.List(tuple(items or ()), opening.span.to(closing.span))


_LITERALS = {"true": True, "false": False, "none": None}


def _grown(parts: tuple[Any, ...]) -> list[Any]:
    """A list and its next element, or a first element alone. Growing in place keeps long lists linear."""
    if len(parts) == 1:
        return [parts[0]]
    grown, _comma, element = parts
    grown.append(element)
    return cast(list[Any], grown)


def _words(path: Token) -> tuple[syntax.Name, ...]:
    """The words of a dotted path, each with its own place."""
    found = re.finditer(r"[^.]+", path.value)
    start = path.span.start
    return tuple(
        syntax.Name(word[0], path.span.source.span(start + word.start(), start + word.end())) for word in found
    )


def _name(word: Token) -> syntax.Name:
    return syntax.Name(word.value, word.span)


def _unescape(body: str) -> str:
    """The text with its escapes resolved; an unknown one, already reported, stays as it is."""
    out, at = [], 0
    while at < len(body):
        pair = body[at : at + 2]
        if pair in ESCAPES:
            out.append(ESCAPES[pair])
            at += 2
        else:
            out.append(body[at])
            at += 1
    return "".join(out)
