"""Bound statements: each with its card and typed arguments, once, or its default where a recipe has none.

A statement with an error is dropped, after it is reported: whoever asks for it gets None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from leaven.binding.scope import Scope
from leaven.binding.values import Binder
from leaven.catalog import own
from leaven.catalog.card import Card, Parameter
from leaven.catalog.values import Default, Invocation, Unknown, Written
from leaven.language import syntax
from leaven.messages import statements as messages
from leaven.statements.contexts import Recognised, arguments_in_block


class Statements:
    """The statements of one recipe, bound to their cards."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        # By identity, as two equal statements may be bound differently; each is kept, so that its id is not reused.
        self._bound: dict[int, tuple[syntax.Statement, Invocation | None]] = {}
        self.defaults: Mapping[str, str] = {}  # of this recipe's task, where they differ from those of the cards

    def bound(self, placed: Recognised) -> Invocation | None:
        """The statement's arguments bound to its card, once, however many phases it applies to."""
        statement = placed.statement
        if id(statement) not in self._bound:
            self._bound[id(statement)] = (statement, self._bind(placed))
        return self._bound[id(statement)][1]

    def _bind(self, placed: Recognised) -> Invocation | None:
        statement = placed.statement
        if self.refuse_block(placed) and not statement.arguments:
            return None  # what is in the block was meant to be the argument
        misplaced = arguments_in_block(placed) if placed.card.statement.block == "phase" else []
        return bind_statement(replace(statement, arguments=(*statement.arguments, *misplaced)), placed.card, self.scope)

    def refuse_block(self, placed: Recognised) -> bool:
        """Whether a statement has a block that it does not take, which is reported."""
        block, card = placed.statement.block, placed.card
        if block is None or card.statement.block:
            return False
        takes_transforms = bool(card.parameters) and card.parameters[0].types == ("transforms",)
        self.scope.add(messages.unexpected_block(placed.statement, block, takes_transforms))
        return True

    def only(self, top: Mapping[str, list[Recognised]], name: str) -> Invocation | None:
        """The one statement of that name, or its default."""
        return self.bound(top[name][-1]) if top.get(name) else self.default(name)

    def default(self, name: str) -> Invocation:
        return default_of(name, self.defaults.get(name, ""))

    def call(self, top: Mapping[str, list[Recognised]], name: str) -> Invocation | None:
        """The call in the one statement of that name, or in its default: the loss of a `loss` statement."""
        return call_in(self.only(top, name))

    def listed(self, top: Mapping[str, list[Recognised]], name: str) -> tuple[Invocation, ...] | None:
        """The calls in all statements of that name, or in their default; None if one of them has an error."""
        statements = [self.bound(one) for one in top.get(name, ())] or [self.default(name)]
        if None in statements:
            return None
        return tuple(call for statement in statements if statement for call in statement.settings[0].value)


def bind_statement(
    statement: syntax.Statement, card: Card, scope: Scope, parameters: Sequence[Parameter] | None = None
) -> Invocation | None:
    """A statement's arguments bound to a card, or to other parameters than the card's own."""
    available = card.parameters if parameters is None else parameters
    settings = Binder(scope).bind_arguments(card, statement.arguments, statement.name.span, available)
    return None if isinstance(settings, Unknown) else Invocation(card, settings, Written(statement.span))


def call_in(statement: Invocation | None) -> Invocation | None:
    """The call that a statement consists of."""
    call = statement.settings[0].value if statement is not None else None
    return call if isinstance(call, Invocation) else None


@cache
def default_of(name: str, text: str = "") -> Invocation:
    """The default statement of that name, that of its card or another; no definition of the recipe changes it."""
    card = own.read("statement", name)
    assert card is not None
    # As it is written: `split`, not `data.split`.
    statement = bind_statement(own.default_statement(name, text), replace(card, name=card.bare_name), Scope())
    assert statement is not None, f"the default of `{name}` does not fit its card"
    return replace(statement, origin=Default(""))
