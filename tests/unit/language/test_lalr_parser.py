"""The saved tables match the grammar, and parsing with them equals parsing with Lark."""

import os
from pathlib import Path

import pytest
from lark import Lark, UnexpectedToken

from leaven.language import parse_tables
from leaven.language.lalr_parser import LalrParser
from leaven.language.layout import Layout
from leaven.language.parser import load_grammar
from leaven.language.source import Source
from leaven.language.tokens import Token

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*.leaven"))


@pytest.fixture(scope="module")
def lark() -> Lark:
    return parse_tables.build_lark()


def tokens(text: str) -> list[Token]:
    source = Source("x.leaven", text)
    return Layout(list(load_grammar().tokens(source)), source).tokens


def test_the_saved_tables_match_the_grammar() -> None:
    """`make bless` saves them."""
    expected = parse_tables.to_json()
    if os.environ.get("LEAVEN_BLESS"):
        parse_tables.SAVED.write_text(expected, encoding="utf-8")
    assert parse_tables.SAVED.read_text(encoding="utf-8") == expected


def test_an_edited_grammar_takes_effect_before_the_tables_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = tmp_path / "grammar.lark"
    grammar = parse_tables.GRAMMAR.read_text(encoding="utf-8")
    edited.write_text(grammar.replace('STAR: "*"', 'STAR: "x"'), encoding="utf-8")
    monkeypatch.setattr(parse_tables, "GRAMMAR", edited)
    assert "(?P<STAR>x)" in parse_tables.load().lexer


@pytest.mark.parametrize("damaged", ["", '{"checksum": 1', '{"checksum": 1}'])
def test_damaged_tables_are_computed_again(damaged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = parse_tables.load()
    (tmp_path / "grammar.json").write_text(damaged)
    monkeypatch.setattr(parse_tables, "SAVED", tmp_path / "grammar.json")
    assert parse_tables.load() == expected


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_lexer_finds_the_tokens_that_lark_finds(file: Path, lark: Lark) -> None:
    source = Source(file.name, file.read_text(encoding="utf-8"))
    ours = [(token.type, token.value, token.span.start, token.span.end) for token in load_grammar().tokens(source)]
    assert ours == [(token.type, str(token), token.start_pos, token.end_pos) for token in lark.lex(source.text)]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_lark_accepts_the_same_next_tokens(file: Path, lark: Lark) -> None:
    ours, theirs = LalrParser(load_grammar(), "start"), lark.parse_interactive("", start="start")
    for token in tokens(file.read_text(encoding="utf-8")):
        assert ours.accepts() == theirs.accepts(), token
        assert ours.feed(token)
        theirs.feed_token(token)


@pytest.mark.parametrize("text", ["model -> x", "model [", "x = 3", ") y", "let a b", "arg x: = 3", "a { b } c"])
def test_lark_rejects_the_same_token(text: str, lark: Lark) -> None:
    ours, theirs = LalrParser(load_grammar(), "start"), lark.parse_interactive("", start="start")
    assert accepted(ours, tokens(text)) == accepted_by_lark(theirs, tokens(text))
    assert ours.accepts() == theirs.accepts()


def accepted(parser: LalrParser, tokens: list[Token]) -> int:
    return next((at for at, token in enumerate(tokens) if not parser.feed(token)), len(tokens))


def accepted_by_lark(parser: object, tokens: list[Token]) -> int:
    for at, token in enumerate(tokens):
        try:
            parser.feed_token(token)  # type: ignore[attr-defined]
        except UnexpectedToken:
            return at
    return len(tokens)
