"""Contexts of statements: the top of a recipe, a phase, the block of `data` or `optimizer`.

Decides which card a statement's name means in its context, and how a phase's statements join those of the whole recipe.
What the arguments mean is left to `binding`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from leaven.catalog import lookup, own
from leaven.catalog.card import Card
from leaven.catalog.statement_keys import (
    BLOCK_OWNERS,
    EDITS,
    BodyStatement,
    Key,
    block_names,
    body,
    has_label,
    is_edit,
    key_of,
    statement_card,
)
from leaven.catalog.user_code import technique_card
from leaven.catalog.values import Unknown
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic
from leaven.language.layout import KEYWORDS
from leaven.language.record import Record
from leaven.language.source import Span
from leaven.messages import statements as messages
from leaven.messages.suggestions import is_misspelling
from leaven.statements.merge import apply_edits


class Scope(Protocol):
    """The interface to a recipe's names: cards of user code, and reports."""

    def add(self, report: Diagnostic) -> Unknown: ...

    def user_card(self, path: str) -> Card | Unknown | None: ...

    def report_undefined(self, name: syntax.Name) -> Unknown | None: ...


class Recognised(Record):
    """A statement that may be used in its context, and its card."""

    card: Card
    statement: syntax.Statement


def by_name(recognised: Iterable[Recognised]) -> dict[str, list[Recognised]]:
    """The statements by the name of their card."""
    by_card: dict[str, list[Recognised]] = {}
    for statement in recognised:
        by_card.setdefault(statement.card.bare_name, []).append(statement)
    return by_card


def changes_model(statement: BodyStatement) -> bool:
    """Whether a statement changes the model for good, so that one at the top is done once, before the first phase."""
    card = statement_card(statement.name.path) if statement.name is not None else None
    return card is not None and card.statement.changes_model


def phase_statements(
    base: Iterable[BodyStatement], inner: Iterable[syntax.AnyStatement], diagnostics: list[Diagnostic]
) -> list[BodyStatement]:
    """All statements of a phase: its own replace those that may be given once, and are added to the others."""
    own_statements = body(inner)
    cards = [(s, statement_card(s.name.path)) for s in own_statements if s.name is not None]
    replaced = {key_of(s) for s, card in cards if card is not None and card.statement.once}
    kept = [s for s in base if key_of(s) not in replaced] if replaced else base
    plain = (statement for statement in own_statements if not is_edit(statement))
    return apply_edits([*kept, *plain], own_statements, diagnostics, "phase")


def recognise(
    statements: Iterable[syntax.AnyStatement], context: str, scope: Scope, known: Mapping[int, Recognised] | None = None
) -> list[Recognised]:
    """The statements that may be used here, each with its card; the others are reported.

    A misspelt one has the card that it must mean, so that what else is wrong with it is found too. `known` holds, by
    identity, those that were recognised already.
    """
    recognised: list[Recognised] = []
    guessed: set[int] = set()
    first: dict[Key, Span] = {}
    for statement in body(statements):  # that a name can't be defined in a block is reported in binding/names.py
        if isinstance(statement, syntax.Broken):
            _read_broken_block(statement, scope)
            continue
        one = known.get(id(statement)) if known else None
        card = one.card if one is not None else _card(statement.name.path, context, scope)
        if card is None and not isinstance(scope.user_card(statement.name.path), Unknown):
            card = _report_unknown(statement, context, scope)
            guessed.add(id(statement))
        if card is not None:
            _refuse_repeated(statement, card, first, scope)
            recognised.append(one or Recognised(card, statement))
    # A guess at what may be given once and is there already is wrong: something else was meant.
    certain = {one.card.name for one in recognised if id(one.statement) not in guessed and one.card.statement.once}
    return [one for one in recognised if id(one.statement) not in guessed or one.card.name not in certain]


def _refuse_repeated(statement: syntax.Statement, card: Card, first: dict[Key, Span], scope: Scope) -> None:
    if not card.statement.once and not has_label(card.name):
        return
    key = key_of(statement)
    is_distinct = len(key) > 1 or not has_label(card.name)
    if is_distinct and key in first and statement.span.source is first[key].source:
        scope.add(messages.repeated(statement, first[key]))
    first.setdefault(key, statement.name.span)


def _read_broken_block(statement: syntax.Broken, scope: Scope) -> None:
    """The block of a statement that could not be read may hold errors of its own."""
    if statement.block is None or statement.name is None:
        return
    card = own.read("statement", statement.name.path)
    if card is not None and card.statement.block in messages.CONTEXTS:  # a broken `change` does not say whose it is
        recognise(statement.block.statements, card.statement.block, scope)


def _card(path: str, context: str, scope: Scope) -> Card | None:
    """The card of a statement's name in its context; None where it has none there."""
    if context in BLOCK_OWNERS:
        card = own.read("statement", f"{context}.{path}")
        return replace(card, name=path) if card is not None else None
    card = statement_card(path) if "." not in path else own.read("technique", path)
    if card is not None and (context == "recipe" or card.statement.in_phase):
        return card
    user = scope.user_card(path)
    return technique_card(user) if isinstance(user, Card) else None


def _report_unknown(statement: syntax.Statement, context: str, scope: Scope) -> Card | None:
    """Report a statement that means nothing in its context; the answer is the card that it must mean, if any."""
    path, here = statement.name.path, _names_in(context)
    respelt = [word for word in here if word != path and word.replace("_", "") == path.replace("_", "").lower()]
    if not respelt and (report := messages.misplaced(statement, context)):
        scope.add(report)
        return None
    if scope.report_undefined(statement.name) is not None:
        return None
    keywords = KEYWORDS if context == "recipe" else ()
    similar = lookup.nearest(path, (*here, *keywords))
    near = respelt or [word for word in similar if word not in (*EDITS, *keywords) or is_misspelling(path, word)]
    scope.add(messages.unknown(statement, context, near))
    is_certain = len(near) == 1 and near[0] not in EDITS and (respelt or is_misspelling(path, near[0]))
    return _card(near[0], context, scope) if is_certain else None


def _names_in(context: str) -> list[str]:
    if context in BLOCK_OWNERS:
        return block_names(context)
    names = [name for name in (*own.names("statement"), *own.names("technique")) if "." not in name]
    if context == "recipe":
        return names
    return [name for name in names if (card := statement_card(name)) is not None and card.statement.in_phase]


def arguments_in_block(recognised: Recognised) -> list[syntax.Argument]:
    """Arguments that are written in the block like statements: `phase "head" { epochs 2 }`."""
    given = {argument.keyword.path for argument in recognised.statement.arguments if argument.keyword}
    return [
        syntax.Argument(inner.name, inner.arguments[0].value, inner.span)
        for inner in recognised.statement.inner
        if isinstance(inner, syntax.Statement) and len(inner.arguments) == 1 and inner.arguments[0].keyword is None
        if recognised.card.parameter(inner.name.path) and inner.name.path not in given
    ]
