"""From text to tree.

`parse` always returns a tree and every syntax error: after an error it continues at the next statement. What the names
mean is left to the checker.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from leaven.language import foreign_syntax, lexical_errors, parse_tables, syntax, syntax_errors
from leaven.language.diagnostics import Diagnostic, error, in_order
from leaven.language.lalr_parser import Grammar, LalrParser
from leaven.language.layout import ESCAPES, Layout
from leaven.language.record import Record
from leaven.language.source import Source, Span
from leaven.language.tokens import Token

MAX_CHARACTERS = 1_000_000

_STATEMENT_BOUNDS = ("END", "LBRACE", "RBRACE")
_LITERALS = {"true": True, "false": False, "none": None}

_Arguments = list[syntax.Argument] | None
_Block = syntax.Block | None


class Parsed(Record):
    """A tree, as far as the text could be parsed, and every syntax error."""

    tree: syntax.Tree
    diagnostics: tuple[Diagnostic, ...]


def parse(source: Source) -> Parsed:
    """The tree of a recipe."""
    statements, comments, diagnostics = _parse(source, "start")
    if statements is None:
        # Beyond a limit: one broken statement for all that was not parsed, so that nothing is reported as missing.
        statements = [syntax.Broken(None, None, source.span(0, 0))]
    return Parsed(syntax.Tree(tuple(statements), source, tuple(comments)), diagnostics)


def parse_value(source: Source) -> tuple[syntax.Value | None, tuple[Diagnostic, ...]]:
    """The single value of a source, such as an option on the command line."""
    value, _, diagnostics = _parse(source, "only_value")
    return value, diagnostics


def parse_setting(source: Source) -> tuple[syntax.Setting | None, tuple[Diagnostic, ...]]:
    """The single `path=value` of a source, such as `--set optimizer.lr=1e-4`."""
    setting, _, diagnostics = _parse(source, "only_setting")
    return setting, diagnostics


def _parse(source: Source, start: str) -> tuple[Any, list[Span], tuple[Diagnostic, ...]]:
    if len(source.text) > MAX_CHARACTERS:
        return None, [], (lexical_errors.too_large(source, MAX_CHARACTERS),)
    grammar = load_grammar()
    layout = Layout(list(grammar.tokens(source)), source)
    if layout.is_beyond_limit:
        return None, layout.comments, in_order(layout.diagnostics)
    result, errors = _feed(iter(layout.tokens), LalrParser(grammar, start), source)
    # In a single value, a second error is a consequence of the first.
    errors = layout.diagnostics + errors if start == "start" else layout.diagnostics or errors
    return result, layout.comments, in_order(errors)


def _feed(tokens: Iterator[Token], parser: LalrParser, source: Source) -> tuple[Any, list[Diagnostic]]:
    """The tree of the tokens, and the errors; a BROKEN statement replaces one with a rejected token."""
    errors: list[Diagnostic] = []
    statement: list[Token] = []
    for token in tokens:
        if not parser.feed(token):
            errors.append(syntax_errors.unexpected(statement, token, parser.accepts()))
            if not _recover(statement, token, tokens, parser):
                return None, errors
            statement = []
        elif token.type in _STATEMENT_BOUNDS:
            statement = []
        else:
            statement.append(token)
    result = parser.finish()
    if result is None:
        # Only a single value or setting can end too early; a file may end after any statement.
        whole = (source.span(0, len(source.text)), "")
        errors.append(error("missing-value", f"missing value for `{source.name}`", whole))
    return result, errors


def _recover(statement: list[Token], token: Token, tokens: Iterator[Token], parser: LalrParser) -> bool:
    """Skip the faulty statement up to its block or its end; false if there is no statement to skip."""
    first = statement[0] if statement else token
    if statement:
        parser.unwind("statement")
    elif "END" in parser.accepts():  # something follows a block
        parser.feed(Token("END", "", first.span))
    if "BROKEN" not in parser.accepts():
        return False
    parser.feed(Token("BROKEN", first.value, first.span))
    end = foreign_syntax.end_of_indented(statement, token)
    while token.type not in _STATEMENT_BOUNDS or token.span.start < end:
        token = next(tokens)
    parser.feed(token)
    return True


@cache
def load_grammar() -> Grammar:
    """The grammar of grammar.lark, with a builder for the tree."""
    return Grammar(parse_tables.load(), _Builder())


class _Builder:
    """One method per rule of the grammar, called when the rule is complete."""

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

    def statement(self, name: Token, arguments: _Arguments, block: _Block) -> syntax.Statement:
        last = block or (arguments[-1] if arguments else name)
        return syntax.Statement(_name(name), tuple(arguments or ()), block, name.span.to(last.span))

    def called_statement(
        self, name: Token, _call: Token, arguments: _Arguments, _comma: Token | None, closing: Token, block: _Block
    ) -> syntax.Statement:
        return syntax.Statement(_name(name), tuple(arguments or ()), block, name.span.to((block or closing).span))

    def broken(self, first: Token, block: syntax.Block | None) -> syntax.Broken:
        name = _name(first) if first.value[:1].isalpha() else None
        return syntax.Broken(name, block, first.span.to((block or first).span))

    # -- values

    def items(self, *parts: Any) -> Any:
        """A list and its next element, or a first element alone. Appending in place keeps long lists linear."""
        if len(parts) == 1:
            return [parts[0]]
        elements, _comma, element = parts
        elements.append(element)
        return elements

    arguments = items

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
        # An unknown escape, already reported, stays as it is.
        return syntax.String(re.sub(r"\\.", lambda pair: ESCAPES.get(pair[0], pair[0]), body), quoted.span)

    def name(self, word: Token) -> syntax.Name | syntax.Literal:
        if word.value in _LITERALS:
            return syntax.Literal(_LITERALS[word.value], word.span)
        return _name(word)

    def call(
        self, name: Token, _opening: Token, arguments: _Arguments, _comma: Token | None, closing: Token
    ) -> syntax.Call:
        return syntax.Call(_name(name), tuple(arguments or ()), name.span.to(closing.span))

    def group(self, _opening: Token, value: syntax.Value, _closing: Token) -> syntax.Value:
        return value

    def list(
        self, opening: Token, items: "list[syntax.Value] | None", _comma: Token | None, closing: Token
    ) -> syntax.List:
        return syntax.List(tuple(items or ()), opening.span.to(closing.span))


def _words(path: Token) -> tuple[syntax.Name, ...]:
    """The words of a dotted path, each with its own span."""
    words = re.finditer(r"[^.]+", path.value)
    source, start, _ = path.span
    return tuple(syntax.Name(word[0], source.span(start + word.start(), start + word.end())) for word in words)


def _name(word: Token) -> syntax.Name:
    return syntax.Name(word.value, word.span)
