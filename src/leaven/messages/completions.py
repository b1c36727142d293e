"""Completion in the text of a recipe: the words that may stand at a place, each with its summary.

Decides what may stand there by the tokens before it: a statement, an argument, a value of the type that its parameter
takes. What follows the place is not read, so that a line which is being typed is as good as a whole one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from leaven.catalog import lookup, own
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.selectors import WORDS as SELECTORS
from leaven.catalog.statement_keys import BLOCK_OWNERS, block_names, statement_card
from leaven.language.layout import KEYWORDS, Layout
from leaven.language.parser import load_grammar
from leaven.language.source import Source
from leaven.language.tokens import Token
from leaven.messages import describe

MOST = 200
_WORD = re.compile(r"[^\W\d]?[\w.]*$")
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"?|#[^\n]*')
_OF_TYPE = {"transforms": "transform"}  # the kind of card that a type means, where it is called otherwise
_BOOLS = ("true", "false")
_SELECTOR_CALLS = ("stages", "first", "last", "type")


class Completion(NamedTuple):
    """A word that may stand at a place."""

    label: str
    kind: str  # statement, keyword, argument, value, name, or a kind of card
    detail: str = ""

    @property
    def text(self) -> str:
        """What is written: an argument with its equals sign."""
        return f"{self.label}=" if self.kind == "argument" else self.label


class Completions(NamedTuple):
    """The words for a place, and where the word that is being typed starts."""

    start: int
    items: tuple[Completion, ...]


@dataclass
class _Frame:
    """An open bracket or statement: whose arguments are read, and how many of them there are."""

    opened_by: str = ""  # the type of the token; empty for a statement
    cards: Sequence[Card] = ()
    context: str = ""  # of a block
    keyword: str = ""
    position: int = 0
    given: set[str] = field(default_factory=set)
    kinds: Sequence[str] = ()  # of the cards that are wanted where brackets only group

    @property
    def parameter(self) -> Parameter | None:
        """The parameter whose value is next."""
        for card in self.cards:
            if self.keyword:
                return card.parameter(self.keyword)
            free = [one for one in card.parameters if one.positional]
            if self.position < len(free):
                return free[self.position]
            if free and free[-1].variadic:
                return free[-1]
        return None


def completions(source: Source, offset: int) -> Completions:
    """The words that may stand at an offset of a recipe."""
    before = source.text[:offset]
    if _is_text(before):
        return Completions(offset, ())
    found = _WORD.search(before)
    start = found.start() if found is not None else offset
    typed = before[start:].lower()
    reader = _Reader(Source(source.name, before[:start], source.folder))
    matching = [one for one in reader.items() if typed in one.label.lower()]
    matching.sort(key=lambda one: not one.label.lower().startswith(typed))
    return Completions(start, tuple(dict.fromkeys(matching))[:MOST])


def card_at(source: Source, offset: int) -> Card | None:
    """The card of the name at an offset, in the meaning that it has there."""
    end = re.compile(r"[\w.]*").match(source.text, offset)
    until = end.end() if end is not None else offset
    found = _WORD.search(source.text[:until])
    word = found[0] if found is not None else ""
    if found is None or not word or _is_text(source.text[: found.start()]):
        return None
    reader = _Reader(Source(source.name, source.text[: found.start()], source.folder))
    for kind in reader.kinds():
        if cards := _find(kind, word, reader.context):
            return cards[0]
    return None


def _is_text(before: str) -> bool:
    """Whether a place is within a string or a comment."""
    line = before.rpartition("\n")[2]
    last = next((found for found in _STRING_OR_COMMENT.finditer(line) if found.end() == len(line)), None)
    return last is not None and (last[0][0] == "#" or len(last[0]) == 1 or not last[0].endswith('"'))


class _Reader:
    """What is open where a text ends."""

    def __init__(self, source: Source) -> None:
        self.names: list[str] = []
        self._frames = [_Frame("", context="recipe")]
        self._is_start = True
        self._last: Token | None = None
        layout = Layout(list(load_grammar().tokens(source)), source)
        tokens = [token for token in layout.tokens if token.span.start < token.span.end or token.type == "END"]
        ends = [at for at, token in enumerate(tokens) if token.type != "END"]
        ends_line = bool(re.search(r"[\n;]\s*$", source.text))
        for token in tokens if ends_line else tokens[: ends[-1] + 1 if ends else 0]:
            self._read(token)

    @property
    def context(self) -> str:
        """The block that the place is in."""
        return next((one.context for one in reversed(self._frames) if one.context), "recipe")

    def _read(self, token: Token) -> None:
        frame, last = self._frames[-1], self._last
        match token.type:
            case "END":
                self._end_statement()
            case "LBRACE":
                owner = frame.cards[0].statement.block if frame.cards and not frame.opened_by else ""
                self._frames.append(_Frame("LBRACE", context=owner or self.context))
                self._is_start = True
            case "RBRACE":
                self._close("LBRACE")
            case "CALL" | "LPAR" if last is not None and last.type == "NAME" and last.span.end == token.span.start:
                self._frames.append(_Frame("LPAR", self._called(last.value)))
            case "CALL" | "LPAR" | "LSQB":
                kind = "LSQB" if token.type == "LSQB" else "LPAR"
                self._frames.append(_Frame(kind, kinds=self._wanted()))
            case "RPAR" | "RSQB":
                self._close("LPAR" if token.type == "RPAR" else "LSQB")
            case "COMMA":
                frame.position += not frame.keyword
                frame.keyword = ""
            case "EQUALS" if last is not None and last.type == "NAME":
                frame.keyword = last.value
                frame.given.add(last.value)
            case "NAME" if self._is_start:
                self._is_start = False
                cards = _find("statement", token.value, self.context)
                self._frames.append(_Frame("", cards))
            case "ARG" | "LET" | "IMPORT" | "EXTENDS":
                self._is_start = False
                self._frames.append(_Frame(""))
            case "NAME" if last is not None and last.type in ("ARG", "LET", "AS"):
                self.names.append(token.value)
        self._last = token

    def _called(self, name: str) -> Sequence[Card]:
        frame = self._frames[-1]
        if not frame.opened_by and self._last is not None and not frame.given and frame.position == 0:
            is_statement = bool(frame.cards) and frame.cards[0].bare_name in (name, f"{self.context}.{name}")
            if is_statement and frame.cards[0].name.rpartition(".")[2] == name:
                return frame.cards
        return next((cards for kind in self._wanted() if (cards := _find(kind, name, self.context))), ())

    def _end_statement(self) -> None:
        while len(self._frames) > 1 and self._frames[-1].opened_by != "LBRACE":
            self._frames.pop()
        self._is_start = True

    def _close(self, opened_by: str) -> None:
        while len(self._frames) > 1:
            if self._frames.pop().opened_by == opened_by:
                break
        if opened_by == "LBRACE":
            self._end_statement()

    # -- what may stand here

    def _wanted(self) -> Sequence[str]:
        """The kinds of cards that a value may be of."""
        frame = self._frames[-1]
        if frame.kinds:
            return frame.kinds
        parameter = frame.parameter
        types = [_OF_TYPE.get(each, each) for each in (parameter.types if parameter is not None else ())]
        kinds = [each for each in types if each in KINDS]
        is_after_arrow = self._last is not None and self._last.type == "ARROW"
        return ["component"] if is_after_arrow and kinds == ["model"] else [*kinds, "component"] if kinds == [
            "model"
        ] else kinds  # fmt: skip

    def kinds(self) -> Sequence[str]:
        """The kinds of cards that may stand here."""
        return ["statement"] if self._is_start else self._wanted()

    def items(self) -> Iterator[Completion]:
        if self._is_start:
            yield from self._statements()
            return
        if self._last is not None and self._last.type in ("ARG", "LET", "IMPORT", "EXTENDS", "AS", "COLON"):
            return
        frame = self._frames[-1]
        parameter = frame.parameter
        if self._is_value_next():
            yield from _values(parameter)
            yield from (
                Completion(name, kind, _summary(kind, name)) for kind in self._wanted() for name in lookup.names(kind)
            )
            yield from (Completion(name, "name") for name in dict.fromkeys(self.names))
        if not frame.keyword and (self._last is None or self._last.type in ("COMMA", "LPAR", "CALL", "NAME")):
            yield from _arguments(frame.cards, frame.given)

    def _is_value_next(self) -> bool:
        return self._last is None or (self._last.type not in ("NUMBER", "STRING", "RPAR", "RSQB", "UNIT") and (
            self._last.type != "NAME" or self._frames[-1].position == 0
        ))  # fmt: skip

    def _statements(self) -> Iterator[Completion]:
        context = self.context
        if context in BLOCK_OWNERS:
            yield from (Completion(name, "statement", _card_summary(context, name)) for name in block_names(context))
            return
        for name in (*own.names("statement"), *own.names("technique")):
            card = statement_card(name) if "." not in name else None
            if card is not None and (context == "recipe" or card.statement.in_phase):
                yield Completion(name, card.kind, card.summary)
        if context == "recipe":
            yield from (Completion(word, "keyword") for word in KEYWORDS)


def _find(kind: str, name: str, context: str) -> Sequence[Card]:
    if kind == "statement":
        card = statement_card(name, context if context in BLOCK_OWNERS else "")
        return (card,) if card is not None else ()
    return lookup.find(kind, name)


def _summary(kind: str, name: str) -> str:
    """The summary of one of Leaven's own cards; reading those of all models would take long."""
    card = own.read(kind, name) if name in own.names(kind) else None
    return card.summary if card is not None else ""


def _card_summary(owner: str, name: str) -> str:
    card = statement_card(name, owner)
    return card.summary if card is not None else ""


def _values(parameter: Parameter | None) -> Iterator[Completion]:
    if parameter is None:
        return
    yield from (Completion(choice, "value") for choice in parameter.choices)
    if "bool" in parameter.types:
        yield from (Completion(word, "value") for word in _BOOLS)
    if "none" in parameter.types:
        yield Completion("none", "value")
    if {"selector", "modules"} & set(parameter.types):
        yield from (Completion(word, "value", "a selector of layers") for word in (*SELECTORS, *_SELECTOR_CALLS))


def _arguments(cards: Sequence[Card], given: set[str]) -> Iterator[Completion]:
    for card in cards[:1]:
        for parameter in card.parameters:
            if parameter.name not in given and not parameter.variadic:
                detail = f"{describe.expected(parameter)}{f'; {parameter.summary}' if parameter.summary else ''}"
                yield Completion(parameter.name, "argument", detail)
