"""The phases of a recipe: what stands at the top and what stands in each, put together.

Whether what is put together contradicts itself is left to the rules.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leaven.binding.scope import Scope
from leaven.binding.statements import Statements, value_of
from leaven.catalog.selectors import Selection, Word, matching
from leaven.catalog.statement_keys import BodyStatement
from leaven.catalog.values import Default, Invocation, Quantity, Setting, Unknown, Written
from leaven.language import syntax
from leaven.language.diagnostics import Spot
from leaven.language.source import SourceKind
from leaven.messages.options import option_for
from leaven.recipe.adapters import is_adapter, resolve_adapter
from leaven.recipe.freezing import resolve_freezing
from leaven.recipe.pruning import resolve_pruning
from leaven.recipe.recipe import (
    Adapter,
    AnyTechnique,
    Freeze,
    Group,
    Optimizer,
    Override,
    Phase,
    Reinit,
    Technique,
    Unfreeze,
)
from leaven.statements.contexts import (
    Recognised,
    by_name,
    changes_model,
    is_allowed_in_phase,
    is_technique,
    phase_statements,
    recognise,
)


class PhaseReader:
    """Reads the phases of one recipe. `known` holds the statements at the top by identity, `written` all of them."""

    def __init__(
        self, statements: Statements, known: Mapping[int, Recognised], written: Sequence[BodyStatement], scope: Scope
    ) -> None:
        self.statements = statements
        self.known = known
        self.written = written
        self.scope = scope
        self.techniques: dict[int, AnyTechnique | Unknown] = {}
        self.adapters: list[Adapter] = []  # of the phases read so far: they stay

    def read(self, placed: list[Recognised], train: Any) -> tuple[Any, ...]:
        written = [one for one in placed if one.card.name == "phase"]
        outside = [one for one in placed if is_allowed_in_phase(one.card) and one.card.name != "phase"]
        for one in outside:  # what no phase uses is still checked
            self.statements.bound(one)
        shared = [one.statement for one in outside]
        if not written:
            epochs = train.setting("epochs") if isinstance(train, Invocation) else None
            if epochs is None:
                return (train,)
            origin = Default("one phase with everything")
            return (self._phase("train", epochs, shared, origin, keeps_optimizer=False, precision=None),)
        self._refuse_epochs(train, written)
        later = [statement for statement in shared if not changes_model(statement)]
        return tuple(self._written_phase(one, later if at else shared) for at, one in enumerate(written))

    def _refuse_epochs(self, train: Any, written: list[Recognised]) -> None:
        epochs = train.setting("epochs") if isinstance(train, Invocation) else None
        if epochs is None or not isinstance(epochs.origin, Written):
            return
        place, fix = epochs.origin.span, "with phases, each phase has its own `epochs`"
        if place.source.kind is SourceKind.OPTION:
            fix = f"write `{option_for('train', 'epochs', place.text, self.written)}`"
        self.scope.report(
            "epochs-and-phases",
            "`train` gives a number of epochs, and so do the phases",
            Spot(place, "remove this"),
            Spot(written[0].statement.name.span, "the phases say how long they last"),
            fix=fix,
        )

    def _written_phase(self, placed: Recognised, shared: list[syntax.Statement]) -> Any:
        header = self.statements.bound(placed)
        block = placed.statement.block.statements if placed.statement.block else ()
        statements = phase_statements(shared, block, self.scope.diagnostics)
        if isinstance(header, Unknown):
            for one in recognise(statements, "phase", self.scope, self.known):
                self.statements.bound(one)
            return header
        return self._phase(
            header.value("name"),
            header.setting("epochs"),
            statements,
            header.origin,
            keeps_optimizer=header.value("keep") == "optimizer",
            precision=header.value("precision"),
        )

    def _phase(
        self,
        name: str,
        epochs: Setting,
        statements: Iterable[BodyStatement],
        origin: Written | Default,
        *,
        keeps_optimizer: bool,
        precision: str | None,
    ) -> Any:
        placed = recognise(statements, "phase", self.scope, self.known)
        for one in placed:
            self.statements.bound(one)
        inside = by_name(placed)
        loss = value_of(self.statements.only(inside, "loss"))
        schedule = value_of(self.statements.only(inside, "schedule"))
        optimizer = self._optimizer(inside)
        early_stop = self.statements.bound(inside["early_stop"][-1]) if "early_stop" in inside else None
        techniques: Any = tuple(self._technique(one) for one in placed if is_technique(one.card))
        overrides = tuple(self._override(one) for one in inside.get("override", ()))
        for part in (loss, schedule, optimizer, early_stop, *techniques, *overrides):
            if isinstance(part, Unknown):
                return part
        layers = self.scope.layers
        calls = [technique.invocation for technique in techniques if isinstance(technique, Technique)]
        self.adapters += (resolve_adapter(t.invocation, layers) for t in techniques if is_adapter(t))
        return Phase(
            name,
            epochs,
            techniques,
            loss,
            optimizer,
            schedule,
            early_stop,
            overrides,
            keeps_optimizer,
            precision,
            origin,
            freezing=resolve_freezing(techniques, self.adapters, layers),
            adapters=tuple(self.adapters),
            prunings=tuple(filter(None, map(resolve_pruning, calls))),
        )

    def _technique(self, placed: Recognised) -> AnyTechnique | Unknown:
        """The technique that a statement names, made once, however many phases it holds for."""
        found = self.techniques.get(id(placed.statement))
        if found is None:
            found = self.techniques[id(placed.statement)] = self._new_technique(placed)
        return found

    def _new_technique(self, placed: Recognised) -> AnyTechnique | Unknown:
        call = self.statements.bound(placed)
        if isinstance(call, Unknown):
            return call
        match placed.card.name:
            case "freeze":
                return Freeze(call.value("layers"), call.value("norms"), call.origin)
            case "unfreeze":
                return Unfreeze(call.value("layers"), _later(call["at"]), call.origin)
            case "reinit":
                return Reinit(call.value("layers"), call.value("how"), call.origin)
        return Technique(self._with_default_layers(call))

    def _with_default_layers(self, call: Invocation) -> Invocation:
        """A technique with the layers that it is for where none are named."""
        word = call.card.technique.default_layers
        layers = self.scope.layers

        def resolved(setting: Setting) -> Setting:
            chosen = Word(word) if word and setting.name == "on" and setting.value is None else setting.value
            if not isinstance(chosen, Word):
                return setting
            return replace(setting, value=Selection(chosen, matching(chosen, layers) if layers is not None else None))

        return replace(call, settings=tuple(map(resolved, call.settings)))

    def _override(self, placed: Recognised) -> Any:
        call = self.statements.bound(placed)
        return call if isinstance(call, Unknown) else Override(call.value("hook"), call.value("function"), call.origin)

    def _optimizer(self, inside: Mapping[str, list[Recognised]]) -> Any:
        call = value_of(self.statements.only(inside, "optimizer"))
        if isinstance(call, Unknown) or "optimizer" not in inside:
            return call if isinstance(call, Unknown) else Optimizer(call)
        block = inside["optimizer"][-1].statement.block
        groups = [
            self._group(one, call) for one in recognise(block.statements if block else (), "optimizer", self.scope)
        ]
        return next((group for group in groups if isinstance(group, Unknown)), Optimizer(call, tuple(groups)))

    def _group(self, placed: Recognised, optimizer: Invocation) -> Any:
        """A group takes whatever the optimizer itself takes."""
        theirs = (replace(p, required=False, positional=False) for p in optimizer.card.parameters)
        card = replace(placed.card, open_ended=optimizer.card.open_ended)
        statement = placed.statement
        bound = self.statements.binder.bind_arguments(
            card, statement.arguments, statement.name.span, [*card.parameters, *theirs]
        )
        if isinstance(bound, Unknown):
            return bound
        own_settings = tuple(setting for setting in bound[1:] if isinstance(setting.origin, Written))
        return Group(bound[0].value, own_settings, Written(statement.span))


def _later(at: Setting) -> Setting | None:
    """When layers join, unless they move from the beginning."""
    return None if at.value is None or at.value == Quantity(0, "epochs") else at
