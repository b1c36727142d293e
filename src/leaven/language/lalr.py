"""Reads tokens by the LALR(1) tables of a grammar.

Decides nothing about the language: the tables come from `tables.py`, what a form becomes from the builder's methods,
and what to do about a token that does not fit is left to the caller.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

END = "$END"


class Token:
    """A piece of text with its type."""

    __slots__ = ("end_pos", "start_pos", "type", "value")

    def __init__(self, type: str, value: str, start_pos: int = 0, end_pos: int = 0) -> None:
        self.type = type
        self.value = value
        self.start_pos = start_pos
        self.end_pos = end_pos

    def __str__(self) -> str:
        return self.value


class Rule(NamedTuple):
    """One way to read a form.

    `places` says what becomes of the `size` values that were read: the number of one of them, None for an optional part
    that is not there, `~number` for a list whose elements are taken. `method` is what the builder makes of the result;
    without one, a `form` with a single value is that value, and any other the list of them.
    """

    form: str
    size: int
    places: tuple[int | None, ...]
    method: str | None
    is_list: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """What reading by a grammar needs.

    A state says for each token or form what to do: go to another state, or, as `~number`, apply a rule. `starts` holds
    the first and the last state of each form that can be read by itself.
    """

    lexer: str
    ignored: frozenset[str]
    rules: tuple[Rule, ...]
    states: tuple[dict[str, int], ...]
    starts: dict[str, tuple[int, int]]


class Grammar:
    """The tables of a grammar, and the builder whose methods make values of its forms."""

    def __init__(self, tables: Tables, builder: object) -> None:
        self.tables = tables
        self.methods: list[Callable[..., Any] | None] = [
            getattr(builder, rule.method) if rule.method else None for rule in tables.rules
        ]
        self._pattern = re.compile(tables.lexer)

    def tokens(self, text: str) -> Iterator[Token]:
        """The text, cut into tokens. Some terminal fits every character, so nothing is left out but what is ignored."""
        for found in self._pattern.finditer(text):
            if found.lastgroup not in self.tables.ignored:
                assert found.lastgroup is not None
                yield Token(found.lastgroup, found[0], found.start(), found.end())

    def reading(self, form: str) -> "Reading":
        """A reading of that form, before its first token."""
        return Reading(self, form)


class Reading:
    """How far a text has been read."""

    def __init__(self, grammar: Grammar, form: str) -> None:
        first, self._last = grammar.tables.starts[form]
        self._rules = grammar.tables.rules
        self._methods = grammar.methods
        self._table = grammar.tables.states
        self._states = [first]
        self._values: list[Any] = []

    def feed(self, token: Token) -> bool:
        """Read a token; false if it can't stand here."""
        while (action := self._table[self._states[-1]].get(token.type)) is not None:
            if action >= 0:
                self._states.append(action)
                self._values.append(token)
                return True
            self._apply(~action)
        return False

    def finish(self) -> Any | None:
        """What was read; None if it can't end here."""
        while self._states[-1] != self._last:
            action = self._table[self._states[-1]].get(END)
            if action is None:
                return None
            self._apply(~action)
        return self._values[-1]

    def accepts(self) -> set[str]:
        """The types of all tokens that can stand here; END is one of them where the text may end."""
        return {type for type in self._table[self._states[-1]] if type.isupper() and self._fits(type)}

    def unwind(self, form: str) -> None:
        """Forget what was read last, back to where that form could begin."""
        while self._values and form not in self._table[self._states[-1]]:
            self._states.pop()
            self._values.pop()

    def _apply(self, number: int) -> None:
        rule, method = self._rules[number], self._methods[number]
        start = len(self._values) - rule.size
        values = self._values[start:]
        del self._values[start:], self._states[len(self._states) - rule.size :]
        if rule.is_list or method:
            values = _arranged(values, rule.places)
        self._values.append(method(*values) if method else values if rule.is_list else values[0])
        self._states.append(self._table[self._states[-1]][rule.form])

    def _fits(self, type: str) -> bool:
        """Whether the rules that a token calls for lead to a place for it."""
        states = list(self._states)
        while (action := self._table[states[-1]].get(type)) is not None:
            if action >= 0:
                return True
            rule = self._rules[~action]
            del states[len(states) - rule.size :]
            states.append(self._table[states[-1]][rule.form])
        return type == END and states[-1] == self._last


def _arranged(values: list[Any], places: tuple[int | None, ...]) -> list[Any]:
    is_grown = bool(places) and places[0] == ~0
    arranged: list[Any] = values[0] if is_grown else []  # growing in place keeps long lists linear
    for place in places[is_grown:]:
        if place is None:
            arranged.append(None)
        elif place >= 0:
            arranged.append(values[place])
        else:
            arranged += values[~place]
    return arranged
