"""The tables beside the grammar are those of the grammar, and reading by them is reading with Lark."""

import os
from pathlib import Path

import pytest
from lark import Lark, UnexpectedToken

from leaven.language import tables
from leaven.language.lalr import Reading
from leaven.language.layout import Piece, arrange
from leaven.language.parser import load_grammar
from leaven.language.source import Source

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*.leaven"))


@pytest.fixture(scope="module")
def lark() -> Lark:
    return tables.analyse()


def pieces(text: str) -> list[Piece]:
    source = Source("x.leaven", text)
    return arrange(list(load_grammar().tokens(text)), source).tokens


def test_the_kept_tables_are_those_of_the_grammar() -> None:
    """`make bless` writes them."""
    expected = tables.to_keep()
    if os.environ.get("LEAVEN_BLESS"):
        tables.KEPT.write_text(expected, encoding="utf-8")
    assert tables.KEPT.read_text(encoding="utf-8") == expected


def test_a_changed_grammar_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits the grammar sees the effect at once, before the tables are written."""
    changed = tmp_path / "grammar.lark"
    changed.write_text(tables.GRAMMAR.read_text(encoding="utf-8").replace('STAR: "*"', 'STAR: "x"'), encoding="utf-8")
    monkeypatch.setattr(tables, "GRAMMAR", changed)
    assert "(?P<STAR>x)" in tables.load().lexer


@pytest.mark.parametrize("damaged", ["", '{"checksum": 1', '{"checksum": 1}'])
def test_damaged_tables_are_made_anew(damaged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tables.load()
    (tmp_path / "grammar.json").write_text(damaged)
    monkeypatch.setattr(tables, "KEPT", tmp_path / "grammar.json")
    assert tables.load() == expected


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_characters_become_the_tokens_that_lark_finds(file: Path, lark: Lark) -> None:
    text = file.read_text(encoding="utf-8")
    ours = [(token.type, token.value, token.start_pos, token.end_pos) for token in load_grammar().tokens(text)]
    assert ours == [(token.type, str(token), token.start_pos, token.end_pos) for token in lark.lex(text)]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_same_tokens_may_follow_as_with_lark(file: Path, lark: Lark) -> None:
    ours, theirs = load_grammar().reading("start"), lark.parse_interactive("", start="start")
    for piece in pieces(file.read_text(encoding="utf-8")):
        assert ours.accepts() == theirs.accepts(), piece
        assert ours.feed(piece)
        theirs.feed_token(piece)


@pytest.mark.parametrize("text", ["model -> x", "model [", "x = 3", ") y", "let a b", "arg x: = 3", "a { b } c"])
def test_what_lark_refuses_is_refused(text: str, lark: Lark) -> None:
    ours, theirs = load_grammar().reading("start"), lark.parse_interactive("", start="start")
    assert taken(ours, pieces(text)) == taken_by_lark(theirs, pieces(text))
    assert ours.accepts() == theirs.accepts()


def taken(reading: Reading, tokens: list[Piece]) -> int:
    return next((at for at, token in enumerate(tokens) if not reading.feed(token)), len(tokens))


def taken_by_lark(reading: object, tokens: list[Piece]) -> int:
    for at, token in enumerate(tokens):
        try:
            reading.feed_token(token)  # type: ignore[attr-defined]
        except UnexpectedToken:
            return at
    return len(tokens)
