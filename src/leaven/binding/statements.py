"""Statements as they are meant: each bound to its card once, or its default where a recipe has none.

What the statements of a phase make together is left to `phases.py`, what all of them do to `checker.py`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from leaven.binding.scope import Scope
from leaven.binding.values import Binder
from leaven.catalog import own
from leaven.catalog.values import UNKNOWN, Default, Invocation, Unknown, Written
from leaven.language import syntax
from leaven.messages import statements as messages
from leaven.statements.contexts import Recognised, arguments_in_block
from leaven.statements.defaults import default_statement


class Statements:
    """The statements of one recipe, bound to their cards."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.binder = Binder(scope)
        # By identity, as two equal statements may be bound differently; each is kept, so that its id is not reused.
        self._bound: dict[int, tuple[syntax.Statement, Invocation | Unknown]] = {}

    def bound(self, placed: Recognised) -> Any:
        """The statement's arguments bound to its card, once, however many phases it applies to."""
        statement = placed.statement
        if id(statement) not in self._bound:
            self._bound[id(statement)] = (statement, self._bind(placed))
        return self._bound[id(statement)][1]

    def _bind(self, placed: Recognised) -> Invocation | Unknown:
        statement = placed.statement
        if self.refuse_block(placed) and not statement.arguments:
            return UNKNOWN  # what is in the block was meant to be the argument
        misplaced = arguments_in_block(placed) if placed.card.statement.block == "phase" else []
        arguments = (*statement.arguments, *misplaced)
        settings = self.binder.bind_arguments(placed.card, arguments, statement.name.span)
        return settings if isinstance(settings, Unknown) else Invocation(placed.card, settings, Written(statement.span))

    def refuse_block(self, placed: Recognised) -> bool:
        """Whether a statement has a block that it does not take, which is reported."""
        block, card = placed.statement.block, placed.card
        if block is None or card.statement.block:
            return False
        takes_transforms = bool(card.parameters) and card.parameters[0].types == ("transforms",)
        self.scope.add(messages.unexpected_block(placed.statement, block, takes_transforms))
        return True

    def only(self, top: Mapping[str, list[Recognised]], name: str) -> Any:
        """The one statement of that name, or its default."""
        if top.get(name):
            return self.bound(top[name][-1])
        return default_of(name)

    def listed(self, top: Mapping[str, list[Recognised]], name: str) -> Any:
        """What all statements of that name list."""
        statements = [self.bound(one) for one in top.get(name, ())] or [default_of(name)]
        if any(isinstance(statement, Unknown) for statement in statements):
            return next(statement for statement in statements if isinstance(statement, Unknown))
        return tuple(value for statement in statements for value in value_of(statement))


def value_of(statement: Any) -> Any:
    """The value of a statement that has one: the loss of a `loss` statement."""
    return statement if isinstance(statement, Unknown) else statement.settings[0].value


@cache
def default_of(name: str) -> Any:
    """The default statement of that name; no definition of the recipe changes its meaning."""
    statement = default_statement(name)
    found = own.read("statement", name)
    assert found is not None
    card = replace(found, name=found.bare_name)  # as it is written: `split`, not `data.split`
    settings = Binder(Scope()).bind_arguments(card, statement.arguments, statement.name.span)
    assert not isinstance(settings, Unknown), f"the default of `{name}` does not fit its card"
    return Invocation(card, settings, Default(""))
