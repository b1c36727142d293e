"""The default statements, written on their cards as in a recipe."""

from functools import cache

from leaven.catalog import own
from leaven.language import syntax
from leaven.language.parser import parse
from leaven.language.source import Source, SourceKind


@cache
def default_statement(name: str, text: str = "") -> syntax.Statement:
    """The statement that a recipe has if it does not write one of that name: that of its card, or the given one."""
    card = own.read("statement", name)
    assert card is not None
    text = text or card.statement.default or name.rpartition(".")[2]
    (statement,) = parse(Source("default", text, kind=SourceKind.DEFAULT)).tree.statements
    assert isinstance(statement, syntax.Statement)
    return statement
