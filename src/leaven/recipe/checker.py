"""The checker, the only builder of a `Recipe`.

It reads the statements in the order in which they depend on each other: names, data, model, then all that chooses
layers of the model. What it finds wrong it reports, every independent mistake once; only a recipe without errors is
built.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from leaven.catalog import library, lookup, own
from leaven.catalog.layers import Layers
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, has_errors, in_order
from leaven.language.source import Source, SourceKind
from leaven.recipe import conflicts, fitting, names, options
from leaven.recipe.assemble import Assembled, Plain, assemble
from leaven.recipe.data import DataFacts, describe_data
from leaven.recipe.defaults import default_statement
from leaven.recipe.modelling import read_model
from leaven.recipe.models import ModelFacts
from leaven.recipe.options import Options
from leaven.recipe.placing import Placed, by_name, compose, is_technique, may_stand_in_phase, place, prepares, steps_of
from leaven.recipe.recipe import (
    AnyTechnique,
    Data,
    Default,
    FilePath,
    Freeze,
    Group,
    Invocation,
    Model,
    Optimizer,
    Override,
    Phase,
    Recipe,
    Reinit,
    Setting,
    Steps,
    Technique,
    Unfreeze,
    Written,
)
from leaven.recipe.resolve import Resolver
from leaven.recipe.scope import UNKNOWN, Scope, Unknown

NEEDED = ("torch", "torchvision")  # the defaults are made of what these offer


@dataclass(frozen=True, slots=True)
class Checked:
    """A recipe, or None where there are errors, and everything there is to say about it."""

    recipe: Recipe | None
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[Source, ...] = ()


def check(
    source: Source, given: Options | None = None, *, run_code: bool = False, requires_args: bool = False
) -> Checked:
    """The recipe that a source holds, checked as far as possible without running anything of the user's."""
    given = given or Options()
    with _collector_at_rest():
        checker = _open(source, given, run_code, requires_args)
        recipe = checker.run()
        if recipe is not None and given == Options(given.args):  # other options may have put aside what uses a name
            names.unused(checker.scope, checker.assembled, source)
        diagnostics = in_order(checker.scope.diagnostics)
        return Checked(None if has_errors(diagnostics) else recipe, diagnostics, tuple(checker.assembled.sources))


def model_layers(
    source: Source, given: Options | None = None, *, run_code: bool = False
) -> tuple[str, Layers | None, tuple[Diagnostic, ...]]:
    """The name and layers of a recipe's model, and what is wrong with the recipe as far as it was read for that."""
    checker = _open(source, given or Options(), run_code, requires_args=False)
    checker.read_model_and_data(require_data=False)
    scope = checker.scope
    return scope.model_name, scope.layers, in_order(scope.diagnostics)


def _open(source: Source, given: Options, run_code: bool, requires_args: bool) -> "_Checker":
    """A checker for a recipe that is assembled, with its options, and whose names are known."""
    assembled = assemble(source)
    options.apply(given, assembled)
    return _Checker(source, assembled, names.open_scope(assembled, given, requires_args), run_code)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Python does not look for circles of garbage: a check makes none, and looking grows faster than the recipe."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Foundation(NamedTuple):
    placed: list[Placed]
    top: Mapping[str, list[Placed]]
    data_call: Any
    data_facts: DataFacts
    model: Model | Unknown | None
    model_facts: ModelFacts


class _Checker:
    def __init__(self, source: Source, assembled: Assembled, scope: Scope, run_code: bool) -> None:
        self.source = source
        self.assembled = assembled
        self.scope = scope
        self.run_code = run_code
        self.resolver = Resolver(scope)
        # By identity, for equal statements may stand in two places; each is kept, so that its id stays its own.
        self.bound: dict[int, tuple[syntax.Statement, Invocation | Unknown]] = {}

    def read_model_and_data(self, *, require_data: bool = True) -> "_Foundation":
        """What all else depends on: which statements there are, the data, and the model with its layers."""
        placed = place(self.assembled.statements, "recipe", self.scope)
        top = by_name(placed)
        self._require(top if require_data else {**top, "data": []})
        data_call, data_facts = self._data_source(top)
        self.scope.classes, self.scope.channels = data_facts.classes, data_facts.channels
        model, model_facts = self._model(top, data_facts)
        self.scope.layers, self.scope.model_name = model_facts.layers, model_facts.name
        return _Foundation(placed, top, data_call, data_facts, model, model_facts)

    def run(self) -> Recipe | None:
        if self._is_empty() or self._lacks_libraries():
            return None
        placed, top, data_call, data_facts, model, model_facts = self.read_model_and_data()
        train = self._only(top, "train")
        metrics = self._listed(top, "metrics")
        if not isinstance(metrics, Unknown):
            self.scope.measured = [*(metric_label(metric) for metric in metrics), "loss"]
        phases = self._phases(placed, train, bool(top.get("train")))
        data = self._data(top, data_call, data_facts, model_facts)
        sweeps = tuple(self._statement(one) for one in top.get("sweep", ()))
        self._check_sweeps(sweeps)
        checkpoint = self._only(top, "checkpoint")
        logs, output = self._logs(top), self._output(top)
        if isinstance(model, Model) and isinstance(data, Data):
            fitting.check_fit(model, model_facts, data, data_facts, self.scope)
            conflicts.check_phases(
                [p for p in phases if isinstance(p, Phase)], model, model_facts, data_facts, self.scope
            )
        if has_errors(self.scope.diagnostics):
            return None
        assert isinstance(model, Model)  # what is missing or wrong has been reported
        return Recipe(
            name=self._name(),
            modules=tuple(imported.module for imported in self.scope.modules.values()),
            args=tuple(self.scope.args.values()),
            model=model,
            data=data,
            metrics=metrics,
            phases=phases,
            train=replace(train, settings=tuple(s for s in train.settings if s.name != "epochs")),  # the phases have it
            checkpoint=checkpoint,
            logs=logs,
            output=output.value,
            output_origin=output.origin,
            sweeps=sweeps,
        )

    def _name(self) -> str:
        """The recipe's name; one from standard input has none of its own."""
        return "recipe" if self.source.kind is SourceKind.INPUT else Path(self.source.name).stem

    # -- which statements there are

    def _lacks_libraries(self) -> bool:
        """Whether the libraries that every recipe stands on can't be used: then no name could be looked up."""
        absent = library.absent()
        for name in NEEDED:
            if name in absent:
                self.scope.report(
                    "missing-library",
                    f"{name} can't be used: {absent[name]}",
                    fix=f'`python -c "import {name}"` shows the whole error; '
                    f"`pip install --force-reinstall {name}` often mends it",
                )
        return any(name in absent for name in NEEDED)

    def _is_empty(self) -> bool:
        if self.assembled.statements or has_errors(self.scope.diagnostics):
            return False
        self.scope.report(
            "empty-recipe",
            f"`{self.source.name}` holds no statement",
            Spot(self.source.span(0, 0), "a recipe has a `model` and `data`"),
            fix="`leaven new` writes a first recipe; three lines are enough: `model …`, `data …`, `train …`",
        )
        return True

    def _require(self, top: Mapping[str, list[Placed]]) -> None:
        broken = {s.name.path for s in self.assembled.statements if isinstance(s, syntax.Broken) and s.name}
        nameless = any(isinstance(s, syntax.Broken) and s.name is None for s in self.assembled.statements)
        for name in own.names("statement"):
            card = own.read("statement", name)
            assert card is not None
            if not card.facts.get("required") or name in top or name in broken or nameless:
                continue
            if any(report.id == "unknown-statement" for report in self.scope.diagnostics):
                continue  # one of the statements with an unknown name may be it
            end = len(self.source.text.rstrip())
            self.scope.report(
                "missing-statement",
                f"the recipe has no `{name}`",
                Spot(self.source.span(end, end), f"`{name} …` is missing"),
                fix=f"add a line such as `{card.facts['example']}`",
            )

    # -- one statement

    def _statement(self, placed: Placed) -> Any:
        """The statement's arguments bound to its card, once, however many phases it holds for."""
        statement = placed.statement
        if id(statement) not in self.bound:
            self.bound[id(statement)] = (statement, self._bind(placed))
        return self.bound[id(statement)][1]

    def _bind(self, placed: Placed) -> Invocation | Unknown:
        statement = placed.statement
        if self._refuse_block(placed) and not statement.arguments:
            return UNKNOWN  # what stands in the block was meant to be the argument
        settings = self.resolver.bind(placed.card, statement.arguments, statement.name.span)
        return settings if isinstance(settings, Unknown) else Invocation(placed.card, settings, Written(statement.span))

    def _refuse_block(self, placed: Placed) -> bool:
        """Whether a statement has a block that it does not take."""
        block = placed.statement.block
        if block is None or placed.card.facts.get("block"):
            return False
        fix = "write its statements on lines of their own" if block.statements else "remove it"
        if placed.card.parameters and placed.card.parameters[0].types == ("transforms",):
            fix = "join the steps with `->`: " + steps_of(placed.statement)
        self.scope.report(
            "unexpected-block",
            f"`{placed.statement.name.path}` takes no block",
            Spot(block.span, "can't stand here"),
            fix=fix,
        )
        return True

    def _only(self, top: Mapping[str, list[Placed]], name: str) -> Any:
        """The one statement of that name, or its default."""
        if top.get(name):
            return self._statement(top[name][-1])
        return default_of(name)

    def _value(self, statement: Any) -> Any:
        """What a statement with one value says: the loss of a `loss` statement."""
        return statement if isinstance(statement, Unknown) else statement.settings[0].value

    def _listed(self, top: Mapping[str, list[Placed]], name: str) -> Any:
        """What all statements of that name list."""
        statements = [self._statement(one) for one in top.get(name, ())] or [default_of(name)]
        if any(isinstance(statement, Unknown) for statement in statements):
            return next(statement for statement in statements if isinstance(statement, Unknown))
        return tuple(value for statement in statements for value in self._value(statement))

    def _logs(self, top: Mapping[str, list[Placed]]) -> Any:
        """Where scores are written; no place stands twice, in one statement as little as in two."""
        logs = self._listed(top, "log")
        first: dict[str, Invocation] = {}
        for log in () if isinstance(logs, Unknown) else logs:
            earlier = first.setdefault(log.card.name, log)
            if earlier is not log and isinstance(log.origin, Written) and isinstance(earlier.origin, Written):
                self.scope.report(
                    "repeated-statement",
                    f"`{log.card.bare_name}` is logged to twice",
                    Spot(log.origin.span, "again here"),
                    Spot(earlier.origin.span, "first here"),
                    fix="remove one of them",
                )
        return logs

    def _output(self, top: Mapping[str, list[Placed]]) -> Any:
        if top.get("output"):
            statement = self._statement(top["output"][-1])
            return statement if isinstance(statement, Unknown) else statement.settings[0]
        folder = f"runs/{self._name()}"
        return Setting("path", FilePath(folder, Path(folder)), Default(""))

    # -- model and data

    def _data_source(self, top: Mapping[str, list[Placed]]) -> tuple[Any, DataFacts]:
        if not top.get("data"):
            return None, DataFacts("image-classification")
        call = self._value(self._statement(top["data"][-1]))
        if not isinstance(call, Invocation):
            return call, DataFacts("image-classification")
        return call, describe_data(call, self.scope)

    def _data(self, top: Mapping[str, list[Placed]], call: Any, facts: DataFacts, model: ModelFacts) -> Any:
        if not top.get("data"):
            return None
        block = top["data"][-1].statement.block
        inside = {p.card.bare_name: p for p in place(block.statements if block else (), "data", self.scope)}

        def part(name: str) -> Any:
            return self._statement(inside[name]) if name in inside else default_of(f"data.{name}")

        written = {name: self._statement(inside[name]) for name in ("train", "eval", "tokenize") if name in inside}
        parts = [part(name) for name in ("split", "sampler", "workers", "on_bad_file")]
        if isinstance(parts[0], Invocation) and "split" in inside:
            fitting.check_split(parts[0], self.scope)
        if not isinstance(call, Invocation) or any(isinstance(p, Unknown) for p in (*written.values(), *parts)):
            return (
                call
                if isinstance(call, Unknown)
                else next((p for p in (*written.values(), *parts) if isinstance(p, Unknown)), None)
            )
        split, sampler, workers, on_bad_file = parts
        if "split" not in inside:
            split = fitting.default_split(split, facts)
        steps = {
            name: Steps(self._value(written[name]), written[name].origin)
            for name in ("train", "eval")
            if name in written
        }
        train, eval = fitting.fill_steps(steps.get("train"), steps.get("eval"), facts, model)
        tokenize = written.get("tokenize")
        if tokenize is None and facts.task == "text-classification":
            tokenize = default_of("data.tokenize")
        return Data(call, split, train, eval, self._value(sampler), workers, on_bad_file, tokenize, facts.classes)

    def _model(self, top: Mapping[str, list[Placed]], data: DataFacts) -> tuple[Model | Unknown | None, ModelFacts]:
        if not top.get("model"):
            return None, ModelFacts("the model")
        self._refuse_block(top["model"][-1])
        return read_model(top["model"][-1], data, self.scope, self.run_code)

    # -- phases

    def _phases(self, placed: list[Placed], train: Any, train_is_written: bool) -> tuple[Any, ...]:
        written = [one for one in placed if one.card.name == "phase"]
        outside = [one for one in placed if may_stand_in_phase(one.card) and one.card.name != "phase"]
        for one in outside:  # what no phase uses is still checked
            self._statement(one)
        shared = [one.statement for one in outside]
        if not written:
            epochs = train.setting("epochs") if isinstance(train, Invocation) else None
            if epochs is None:
                return (train,)
            origin = train.origin if train_is_written else Default("one phase with everything")
            return (self._phase("train", epochs, shared, origin, keeps_optimizer=False),)
        self._refuse_epochs(train, written)
        return tuple(self._written_phase(one, shared, at == 0) for at, one in enumerate(written))

    def _refuse_epochs(self, train: Any, written: list[Placed]) -> None:
        epochs = train.setting("epochs") if isinstance(train, Invocation) else None
        if epochs is not None and isinstance(epochs.origin, Written):
            self.scope.report(
                "epochs-and-phases",
                "`train` gives a number of epochs, and so do the phases",
                Spot(epochs.origin.span, "remove this"),
                Spot(written[0].statement.name.span, "the phases say how long they last"),
                fix="with phases, each phase has its own `epochs`",
            )

    def _written_phase(self, placed: Placed, shared: list[syntax.Statement], is_first: bool) -> Any:
        header = self._statement(placed)
        block = placed.statement.block.statements if placed.statement.block else ()
        base = [s for s in shared if is_first or not prepares(s)]
        statements = compose(base, block, self.scope.diagnostics)
        if isinstance(header, Unknown):
            for one in place(statements, "phase", self.scope):
                self._statement(one)
            return header
        return self._phase(
            header.value("name"),
            header.setting("epochs"),
            statements,
            header.origin,
            keeps_optimizer=header.value("keep") == "optimizer",
        )

    def _phase(
        self,
        name: str,
        epochs: Setting,
        statements: Iterable[Plain],
        origin: Written | Default,
        *,
        keeps_optimizer: bool,
    ) -> Any:
        placed = place(statements, "phase", self.scope)
        for one in placed:
            self._statement(one)
        inside = by_name(placed)
        loss = self._value(self._only(inside, "loss"))
        schedule = self._value(self._only(inside, "schedule"))
        optimizer = self._optimizer(inside)
        early_stop = self._statement(inside["early_stop"][-1]) if "early_stop" in inside else None
        techniques: Any = tuple(self._technique(one) for one in placed if is_technique(one.card))
        overrides = tuple(self._override(one) for one in inside.get("override", ()))
        for part in (loss, schedule, optimizer, early_stop, *techniques, *overrides):
            if isinstance(part, Unknown):
                return part
        return Phase(
            name, epochs, techniques, loss, optimizer, schedule, early_stop, overrides, keeps_optimizer, origin
        )

    def _technique(self, placed: Placed) -> AnyTechnique | Unknown:
        call = self._statement(placed)
        if isinstance(call, Unknown):
            return call
        match placed.card.name:
            case "freeze":
                return Freeze(call.value("layers"), call.value("norms"), call.origin)
            case "unfreeze":
                return Unfreeze(call.value("layers"), call.value("at"), call.origin)
            case "reinit":
                return Reinit(call.value("layers"), call.value("how"), call.origin)
        return Technique(call)

    def _override(self, placed: Placed) -> Any:
        call = self._statement(placed)
        return call if isinstance(call, Unknown) else Override(call.value("hook"), call.value("function"), call.origin)

    def _optimizer(self, inside: Mapping[str, list[Placed]]) -> Any:
        call = self._value(self._only(inside, "optimizer"))
        if isinstance(call, Unknown) or "optimizer" not in inside:
            return call if isinstance(call, Unknown) else Optimizer(call)
        block = inside["optimizer"][-1].statement.block
        groups = [self._group(one, call) for one in place(block.statements if block else (), "optimizer", self.scope)]
        return next((group for group in groups if isinstance(group, Unknown)), Optimizer(call, tuple(groups)))

    def _group(self, placed: Placed, optimizer: Invocation) -> Any:
        """A group takes whatever the optimizer itself takes."""
        theirs = (replace(p, required=False, positional=False) for p in optimizer.card.parameters)
        card = replace(placed.card, open_ended=optimizer.card.open_ended)
        statement = placed.statement
        bound = self.resolver.bind(card, statement.arguments, statement.name.span, [*card.parameters, *theirs])
        if isinstance(bound, Unknown):
            return bound
        own_settings = tuple(setting for setting in bound[1:] if isinstance(setting.origin, Written))
        return Group(bound[0].value, own_settings, Written(statement.span))

    def _check_sweeps(self, sweeps: Iterable[Any]) -> None:
        for sweep in sweeps:
            if isinstance(sweep, Unknown):
                continue
            setting = sweep.setting("name")
            if setting.value in self.scope.args or not isinstance(setting.origin, Written):
                self.scope.used.add(setting.value)
                continue
            near = lookup.nearest(setting.value, self.scope.args)
            self.scope.report(
                "unknown-name",
                f"the recipe has no `arg {setting.value}` to try values of",
                Spot(setting.origin.span, "not an `arg`"),
                fix=Fix(f"did you mean `{near[0]}`?", Edit(setting.origin.span, near[0]))
                if near
                else f"declare it: `arg {setting.value}: float = …`",
            )


def metric_label(metric: Invocation) -> str:
    """The name under which a metric is recorded: `accuracy`, `accuracy_top5`."""
    top = metric.value("top")
    name = metric.card.bare_name.lower() if metric.card.kind == "metric" else metric.card.bare_name
    return f"{name}_top{top}" if isinstance(top, int) and top > 1 else name


@cache
def default_of(name: str) -> Any:
    """What holds where a recipe has no statement of that name; no word of the recipe changes its meaning."""
    statement = default_statement(name)
    found = own.read("statement", name)
    assert found is not None
    card = replace(found, name=found.bare_name)  # as it is called where it stands: `split`, not `data.split`
    settings = Resolver(Scope()).bind(card, statement.arguments, statement.name.span)
    assert not isinstance(settings, Unknown), f"the default of `{name}` does not fit its card"
    return Invocation(card, settings, Default(""))
