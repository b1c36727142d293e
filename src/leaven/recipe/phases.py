"""The phases of a recipe: the statements at the top together with those of each phase.

Whether they contradict each other is left to the rules.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

from leaven.binding.scope import Scope
from leaven.binding.statements import Statements, bind_statement
from leaven.catalog.selectors import Selection, Word, matching
from leaven.catalog.statement_keys import BodyStatement
from leaven.catalog.values import Default, Invocation, Quantity, Setting, Written, is_written
from leaven.language import syntax
from leaven.language.source import SourceKind, Span
from leaven.messages import statements as messages
from leaven.messages import training
from leaven.messages.options import option_for
from leaven.recipe.adapters import is_adapter, resolve_adapter
from leaven.recipe.default_training import Start, default_freezing, with_default_rate
from leaven.recipe.freezing import resolve_freezing
from leaven.recipe.recipe import (
    Adapter,
    AnyTechnique,
    Freeze,
    Group,
    Optimizer,
    Override,
    Phase,
    Pruning,
    Reinit,
    Technique,
    Unfreeze,
    fixed_statements,
    solver_among,
)
from leaven.statements.contexts import Recognised, by_name, changes_model, phase_statements, recognise

T = TypeVar("T")
# statements about training step by step
_OF_THE_LOOP = ("optimizer", "schedule", *fixed_statements(Phase), "override")


@dataclass
class PhaseReader:
    """Reads the phases of one recipe. `known` holds the statements at the top by identity, `written` all of them."""

    statements: Statements
    known: Mapping[int, Recognised]
    written: Sequence[BodyStatement]
    scope: Scope
    start: Start  # of the phase that is read next
    techniques: dict[int, AnyTechnique | None] = field(default_factory=dict)
    adapters: list[Adapter] = field(default_factory=list)  # of the phases read so far: they stay

    def read(self, placed: Sequence[Recognised], train: Invocation | None) -> tuple[Phase | None, ...]:
        """The phases in their order, None for one with an error; without any, the training is one phase."""
        written = [one for one in placed if one.card.name == "phase"]
        outside = [one for one in placed if one.card.statement.in_phase and one.card.name != "phase"]
        shared = [one.statement for one in outside]
        if not written:
            if train is None:
                return (None,)
            origin = Default("one phase with everything")
            return (self._phase("train", train["epochs"], shared, origin, own=shared),)
        place = train["epochs"].span if train is not None else None
        if place is not None:
            is_option = place.source.kind is SourceKind.OPTION
            option = option_for("train", "epochs", place.text, self.written) if is_option else ""
            self.scope.add(messages.epochs_and_phases(place, written[0].statement.name.span, option))
        later = [statement for statement in shared if not changes_model(statement)]
        return tuple(self._written_phase(one, later if at else shared) for at, one in enumerate(written))

    def _written_phase(self, placed: Recognised, shared: list[syntax.Statement]) -> Phase | None:
        header, block = self.statements.bound(placed), placed.statement.inner
        statements = phase_statements(shared, block, self.scope.diagnostics)
        if header is None:
            for inner in recognise(statements, "phase", self.scope, self.known):
                self.statements.bound(inner)
            return None
        return self._phase(
            header.value("name"),
            header["epochs"],
            statements,
            header.origin,
            own=block,
            named=placed.statement.name.span,
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
        own: Iterable[syntax.AnyStatement],
        named: Span | None = None,
        keeps_optimizer: bool = False,
        precision: str | None = None,
    ) -> Phase | None:
        """`own` are the statements that are for this phase alone, `named` is where it says `phase`."""
        placed = recognise(statements, "phase", self.scope, self.known)
        inside = by_name(placed)
        read_techniques = [self._technique(one) for one in placed if one.card.statement.is_technique]
        solver = solver_among(filter(None, read_techniques))
        if solver is not None:
            inside, epochs = self._without_loop(inside, epochs, solver, own)
        for one in chain.from_iterable(inside.values()):
            self.statements.bound(one)
        if solver is None and epochs.value is None and named is not None:
            self.scope.add(messages.phase_without_epochs(named))
            return None
        loss, schedule = self.statements.call(inside, "loss"), self.statements.call(inside, "schedule")
        optimizer = self._optimizer(inside)
        fixed = self._fixed(inside)
        techniques: tuple[AnyTechnique, ...] | None = _complete(read_techniques)
        calls = _complete(map(self.statements.bound, inside.get("override", ())))
        if loss is None or schedule is None or optimizer is None or techniques is None:
            return None
        if calls is None or fixed is None:
            return None
        overrides = tuple(Override(each.value("hook"), each.value("function"), each.origin) for each in calls)
        layers = self.scope.layers
        others = [technique for technique in techniques if isinstance(technique, Technique)]
        self.adapters += (resolve_adapter(one.invocation, layers) for one in others if is_adapter(one))
        prunings = tuple(filter(None, map(_pruning, others)))
        self.start = self.start.changed_by(techniques, bool(self.adapters), bool(prunings))
        techniques += default_freezing(techniques, optimizer.groups, self.start)
        freezing = resolve_freezing(techniques, self.adapters, layers)
        optimizer = with_default_rate(optimizer, self.start, freezing)
        loop = (loss, optimizer, schedule, overrides, keeps_optimizer, precision)
        phase = Phase(name, epochs, techniques, *loop, origin, freezing, tuple(self.adapters), prunings, **fixed)
        if phase.trains and freezing is not None:
            # what it trained is no longer new
            new = tuple(each for each in self.start.new if (each.parameters or set()) <= freezing.frozen)
            self.start = replace(self.start, new=new)
        return phase

    def _fixed(self, inside: Mapping[str, list[Recognised]]) -> dict[str, Any] | None:
        """The fixed statements of a phase, each None where it is not written; None if one has an error."""
        kinds = fixed_statements(Phase)
        bound = {name: self.statements.bound(inside[name][-1]) for name in kinds if name in inside}
        written = {name: kinds[name].read(statement) for name, statement in bound.items() if statement is not None}
        return {**dict.fromkeys(kinds), **written} if len(written) == len(bound) else None

    def _without_loop(
        self,
        inside: dict[str, list[Recognised]],
        epochs: Setting,
        solver: Invocation,
        own: Iterable[syntax.AnyStatement],
    ) -> tuple[dict[str, list[Recognised]], Setting]:
        """The statements of a phase whose head is solved, without those that only a training loop needs, and its one
        epoch. What is written for this phase and has no effect is reported."""
        if is_written(epochs.origin):
            self.scope.add(training.solved_without_loop(epochs, "epochs", solver))
        ours = {id(statement) for statement in own}
        for name in _OF_THE_LOOP:
            for one in inside.get(name, ()):
                if id(one.statement) in ours or name == "override":
                    self.scope.add(training.solved_without_loop(one.statement.name.span, name, solver))
        left = {name: placed for name, placed in inside.items() if name not in _OF_THE_LOOP}
        return left, Setting("epochs", Quantity(1, "epochs"), Default("the head is solved at once"))

    def _technique(self, placed: Recognised) -> AnyTechnique | None:
        """The technique that a statement names, built once, however many phases it applies to."""
        if id(placed.statement) not in self.techniques:
            self.techniques[id(placed.statement)] = self._new_technique(placed)
        return self.techniques[id(placed.statement)]

    def _new_technique(self, placed: Recognised) -> AnyTechnique | None:
        call = self.statements.bound(placed)
        if call is None:
            return None
        match placed.card.name:
            case "freeze":
                return Freeze(call.value("layers"), call.value("norms"), call.origin)
            case "unfreeze":
                at = call["at"]
                is_at_once = at.value is None or at.value == Quantity(0, "epochs")
                return Unfreeze(call.value("layers"), None if is_at_once else at, call.origin)
            case "reinit":
                return Reinit(call.value("layers"), call.value("method"), call.origin)
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

    def _optimizer(self, inside: Mapping[str, list[Recognised]]) -> Optimizer | None:
        call = self.statements.call(inside, "optimizer")
        if call is None:
            return None
        if "optimizer" not in inside:
            return Optimizer(call)
        statements = recognise(inside["optimizer"][-1].statement.inner, "optimizer", self.scope)
        groups = _complete(self._group(one, call) for one in statements)
        return None if groups is None else Optimizer(call, groups)

    def _group(self, placed: Recognised, optimizer: Invocation) -> Group | None:
        """A group takes whatever the optimizer itself takes."""
        theirs = (replace(p, required=False, positional=False) for p in optimizer.card.parameters)
        card = replace(placed.card, open_ended=optimizer.card.open_ended)
        bound = bind_statement(placed.statement, card, self.scope, [*card.parameters, *theirs])
        if bound is None:
            return None
        layers, *others = bound.settings
        return Group(layers.value, tuple(s for s in others if isinstance(s.origin, Written)), bound.origin)


def _pruning(technique: Technique) -> Pruning | None:
    """A technique that prunes, with the parameters it may take from; None for any other technique."""
    call, method = technique.invocation, technique.invocation.value("method")
    if not isinstance(method, Invocation) or method.card.kind != "pruning":
        return None
    return Pruning(call, call.value("on").parameters, method.card.pruning.shrinks_model)


def _complete(parts: Iterable[T | None]) -> tuple[T, ...] | None:
    """All parts, or None if one of them has an error."""
    read = tuple(parts)
    complete = tuple(part for part in read if part is not None)
    return complete if len(complete) == len(read) else None
