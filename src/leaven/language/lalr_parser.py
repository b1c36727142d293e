"""Parses tokens with the LALR(1) tables of a grammar.

Knows nothing about recipes: `parse_tables.py` loads the tables, the builder's methods make the nodes of the tree, and
the caller decides what to do with a token that the grammar does not accept.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from leaven.language.record import Record
from leaven.language.source import Source, Span
from leaven.language.tokens import Token

END = "$END"


class Rule(NamedTuple):
    """One production of the grammar.

    `children` says which of the `size` values on the stack the node is built from: an index, None for an optional part
    that is absent, `~index` for a list whose elements are spliced in. `method` is the builder's method; without one, a
    list (`is_list`) stays a list, and any other node is its only child.
    """

    nonterminal: str
    size: int
    children: list[int | None]
    method: str | None
    is_list: bool


class ParseTables(Record):
    """Everything that parsing needs.

    A state maps each terminal or nonterminal to an action: the next state, or `~number` to reduce by a rule. `starts`
    has the first and the last state of each start symbol.
    """

    lexer: str
    ignored: list[str]
    rules: list[Rule]
    states: list[dict[str, int]]
    starts: dict[str, list[int]]


class Grammar:
    """The tables of a grammar, and the builder whose methods make nodes."""

    def __init__(self, tables: ParseTables, builder: object) -> None:
        self.tables = tables
        self.methods: list[Callable[..., Any] | None] = [
            getattr(builder, rule.method) if rule.method else None for rule in tables.rules
        ]
        self._pattern = re.compile(tables.lexer)

    def tokens(self, source: Source) -> Iterator[Token]:
        """The tokens of a source. Every character belongs to one; those of ignored types are left out."""
        for found in self._pattern.finditer(source.text):
            if found.lastgroup not in self.tables.ignored:
                assert found.lastgroup is not None
                yield Token(found.lastgroup, found[0], Span(source, found.start(), found.end()))


class LalrParser:
    """A parser that is fed token by token: the stack of states and the values that belong to them."""

    def __init__(self, grammar: Grammar, start: str) -> None:
        first, self._last = grammar.tables.starts[start]
        self._rules = grammar.tables.rules
        self._methods = grammar.methods
        self._table = grammar.tables.states
        self._states = [first]
        self._values: list[Any] = []

    def feed(self, token: Token) -> bool:
        """Parse a token; false if the grammar does not accept it here."""
        while (action := self._table[self._states[-1]].get(token.type)) is not None:
            if action >= 0:
                self._states.append(action)
                self._values.append(token)
                return True
            self._reduce(~action)
        return False

    def finish(self) -> Any | None:
        """The result; None if the input can't end here."""
        while self._states[-1] != self._last:
            action = self._table[self._states[-1]].get(END)
            if action is None:
                return None
            self._reduce(~action)
        return self._values[-1]

    def accepts(self) -> set[str]:
        """The types of all tokens that may come next; END is one of them where the input may end."""
        return {type for type in self._table[self._states[-1]] if type.isupper() and self._is_accepted(type)}

    def unwind(self, nonterminal: str) -> None:
        """Pop the stack, back to where that nonterminal may start."""
        while self._values and nonterminal not in self._table[self._states[-1]]:
            self._states.pop()
            self._values.pop()

    def _reduce(self, number: int) -> None:
        rule, method = self._rules[number], self._methods[number]
        start = len(self._values) - rule.size
        values = self._values[start:]
        del self._values[start:], self._states[len(self._states) - rule.size :]
        if rule.is_list or method:
            values = _children(values, rule.children)
        self._values.append(method(*values) if method else values if rule.is_list else values[0])
        self._states.append(self._table[self._states[-1]][rule.nonterminal])

    def _is_accepted(self, type: str) -> bool:
        """Whether the reductions that a token causes lead to a state that shifts it."""
        states = list(self._states)
        while (action := self._table[states[-1]].get(type)) is not None:
            if action >= 0:
                return True
            rule = self._rules[~action]
            del states[len(states) - rule.size :]
            states.append(self._table[states[-1]][rule.nonterminal])
        return type == END and states[-1] == self._last


def _children(values: list[Any], indices: list[int | None]) -> list[Any]:
    extends_first = bool(indices) and indices[0] == ~0
    children: list[Any] = values[0] if extends_first else []  # appending in place keeps long lists linear
    for index in indices[extends_first:]:
        if index is None:
            children.append(None)
        elif index >= 0:
            children.append(values[index])
        else:
            children += values[~index]
    return children
