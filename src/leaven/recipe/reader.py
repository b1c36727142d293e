"""Reads a recipe: from statements to resolved parts.

It reads the statements in the order in which they depend on each other: names, data, model, then all that selects
layers of the model. Every independent error is reported once; only a recipe without errors is built.
"""

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from leaven.binding import names
from leaven.binding.scope import Scope
from leaven.binding.scores import measured_scores
from leaven.binding.statements import Statements, call_in, default_of
from leaven.catalog import library, own
from leaven.catalog.layers import Layers
from leaven.catalog.values import Default, FilePath, Invocation, Quantity, Setting, Written
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, has_errors, in_order
from leaven.language.record import Record
from leaven.language.source import Source, SourceKind
from leaven.messages import inputs as input_messages
from leaven.messages import statements as messages
from leaven.messages.files import output_is_a_file
from leaven.recipe import default_transforms
from leaven.recipe.data import DataFacts, describe_data
from leaven.recipe.default_training import FEW_SAMPLES, default_batch, default_epochs, start_of
from leaven.recipe.model_facts import ModelFacts, layers_at
from leaven.recipe.model_statement import read_model
from leaven.recipe.phases import PhaseReader
from leaven.recipe.recipe import (
    Checkpoint,
    Data,
    Model,
    NewHead,
    OnBadFile,
    Phase,
    Recipe,
    Split,
    Train,
    Transforms,
    Watch,
    Workers,
)
from leaven.recipe.sample_counts import sample_counts
from leaven.recipe.sweeps import is_given, read_sweep, unused
from leaven.statements import options
from leaven.statements.assemble import Assembled, assemble
from leaven.statements.contexts import Recognised, by_name, recognise
from leaven.statements.options import Options
from leaven.statements.overrides import replace_overridden

NEEDED = ("torch", "torchvision")  # the defaults are made of what these offer


def read_foundation(source: Source) -> "Foundation":
    """The foundation of a recipe that may have nothing but a model."""
    return open_reader(source, Options(), run_code=False, requires_args=False).read_model_and_data(require_data=False)


def _fitted(layers: Layers, model: Model, data: DataFacts) -> Layers:
    """The layers with a head for the data, where the model gets a new one, and was not asked for with it."""
    if data.task.traits.extra_outputs:
        return layers
    return layers.fitted(data.outputs) if isinstance(model.head, NewHead) and data.outputs is not None else layers


def open_reader(source: Source, given: Options, run_code: bool, requires_args: bool) -> "RecipeReader":
    """A reader for a recipe: assembled, with its options, its names known."""
    assembled = assemble(source)
    options.apply(given, assembled)
    assembled.statements = replace_overridden(assembled.statements)
    return RecipeReader(source, assembled, names.open_scope(assembled, given, requires_args), run_code)


class Draft(Record):
    """The parts that the rules check. Those with errors are left out, so that the others are still checked."""

    model: Model
    model_facts: ModelFacts
    data: Data
    data_facts: DataFacts
    phases: tuple[Phase, ...]
    metrics: tuple[Invocation, ...]
    train: Train | None


class Foundation(Record):
    """The foundation of all else: the statements of a recipe, its data, and its model with the layers."""

    placed: Sequence[Recognised] = ()
    top: Mapping[str, list[Recognised]] = field(default_factory=dict)
    data_call: Invocation | None = None
    data_facts: DataFacts = field(default_factory=DataFacts)
    model: Model | None = None
    model_facts: ModelFacts = ModelFacts("the model")
    diagnostics: tuple[Diagnostic, ...] = ()  # so far

    def layers_at(self, size: tuple[int, int] | None) -> Layers | None:
        """The layers of the model, with shapes and costs for images of the size, where it is known."""
        model, layers = self.model, self.model_facts.layers
        if model is None or layers is None or size is None or layers.trial_size == size:
            return layers
        answer = layers_at(size, model, self.model_facts, self.data_facts)
        return _fitted(answer, model, self.data_facts) if answer is not None else layers

    @property
    def new_outputs(self) -> int | None:
        """How many outputs the data gives a new head; None where the head is kept, or that is not known."""
        is_fitted = self.model is not None and self.model.head == NewHead(None)
        return self.data_facts.outputs if is_fitted else None


class RecipeReader:
    """Reads one recipe. Errors are collected in its scope."""

    def __init__(self, source: Source, assembled: Assembled, scope: Scope, run_code: bool) -> None:
        self.source = source
        self.assembled = assembled
        self.scope = scope
        self.run_code = run_code
        self.statements = Statements(scope)
        self.known: dict[int, Recognised] = {}  # the statements at the top, by identity
        self.foundation = Foundation()  # until it is read

    def read_model_and_data(self, *, require_data: bool = True) -> Foundation:
        placed = recognise(self.assembled.statements, "recipe", self.scope)
        top = by_name(placed)
        self.known = {id(one.statement): one for one in placed}
        self._require(top if require_data else {**top, "data": []})
        data_call, data_facts = self._data_source(top)
        self.scope.outputs, self.scope.channels = data_facts.outputs, data_facts.channels
        self.scope.has_classes = data_facts.task.has_classes
        model, model_facts = self._model(top, data_facts)
        if isinstance(model, Model) and model_facts.layers is not None:
            layers = _fitted(model_facts.layers, model, data_facts)
            model, model_facts = replace(model, layers=layers), replace(model_facts, layers=layers)
        self.scope.layers, self.scope.model_name = model_facts.layers, model_facts.name
        diagnostics = in_order(self.scope.diagnostics)
        return Foundation(placed, top, data_call, data_facts, model, model_facts, diagnostics)

    def read(self) -> tuple[Draft | None, Recipe | None]:
        """The draft for the rules, where model and data are sound; and the recipe, where nothing is wrong so far."""
        if not self.assembled.statements and not has_errors(self.scope.diagnostics):
            self.scope.add(messages.empty_recipe(self.source))
            return None, None
        absent = library.installed().absent()
        if missing := [messages.missing_library(name, absent[name]) for name in NEEDED if name in absent]:
            self.scope.diagnostics += missing  # without them, no name could be looked up
            return None, None
        found = self.foundation = self.read_model_and_data()
        placed, top, model, data_facts = found.placed, found.top, found.model, found.data_facts
        task = data_facts.task
        if task.is_known:
            self.statements.defaults = {"loss": task.traits.loss, "metrics": task.traits.metrics}
        train = self.statements.only(top, "train")
        metrics = self.statements.listed(top, "metrics")
        if metrics is not None:
            self.scope.measured = [*measured_scores(metrics), *(["loss"] if task.traits.has_eval_loss else [])]
        has_weights = model is not None and model.has_weights
        data = self._data(top, found.data_call, data_facts, found.model_facts, has_weights=has_weights)
        samples = data.samples[0] if data is not None and data.samples is not None else None
        if train is not None:
            train = default_batch(default_epochs(train, samples, task.input), task)
        batch = train.value("batch") if train is not None and task.traits.batch is not None else None
        start = start_of(model, samples, task.input, batch if isinstance(batch, int) else None)
        reader = PhaseReader(self.statements, self.known, self.assembled.statements, self.scope, start)
        phases = reader.read(placed, train)
        read = [read_sweep(one, self.statements, self.scope) for one in top.get("sweep", ())]
        # a value on the command line takes the place of a sweep
        sweeps = tuple(sweep for sweep in read if sweep is not None and not is_given(sweep, self.scope))
        checkpoint, watch = (self.statements.only(top, name) for name in ("checkpoint", "watch"))
        logs, output = self._logs(top), self._output(top)
        used = frozenset(self.scope.used)
        for one in placed:  # also what no phase reads, as each has another, or solves its head, may have errors
            if one.card.statement.in_phase:
                self.statements.bound(one)
        if not has_errors(self.scope.diagnostics):  # what an error left out may use the `arg`
            self.scope.diagnostics += unused(sweeps, used)
            self.scope.used.update(sweep.value("name") for sweep in sweeps)
        draft = None
        sound = tuple(filter(None, phases))
        if model is not None and data is not None:
            settings = None if train is None else Train.read(train.without_setting("epochs"))  # the phases have it
            draft = Draft(model, found.model_facts, data, data_facts, sound, metrics or (), settings)
        if has_errors(self.scope.diagnostics):
            return draft, None
        if (
            draft is None
            or draft.train is None
            or metrics is None
            or checkpoint is None
            or watch is None
            or logs is None
            or output is None
        ):
            raise AssertionError("a part of the recipe is missing, and nothing was reported")
        recipe = Recipe(
            name=self._name(),
            modules=tuple(imported.module for imported in self.scope.modules.values()),
            args=tuple(self.scope.args.values()),
            model=draft.model,
            data=draft.data,
            metrics=metrics,
            phases=draft.phases,
            train=draft.train,
            checkpoint=Checkpoint.read(checkpoint),
            watch=Watch.read(watch),
            logs=logs,
            output=output.value,
            output_origin=output.origin,
            sweeps=sweeps,
            summary=self.assembled.summary,
        )
        return draft, recipe

    def _name(self) -> str:
        """The recipe's name; one from standard input has none of its own."""
        return "recipe" if self.source.kind is SourceKind.INPUT else Path(self.source.name).stem

    # -- which statements there are

    def _require(self, top: Mapping[str, list[Recognised]]) -> None:
        written = self.assembled.statements
        broken = {s.name.path for s in written if isinstance(s, syntax.Broken) and s.name}
        lost = [s for s in written if id(s) not in self.known and (s.name is None or s.name.path not in broken)]
        if any(s.name is None or "." not in s.name.path for s in lost):
            return  # one of the statements that could not be understood may be it
        for card in own.cards("statement"):
            if card.statement.required and card.name not in top and card.name not in broken:
                self.scope.add(messages.missing(card.name, card.statement.example, self.source))

    def _logs(self, top: Mapping[str, list[Recognised]]) -> tuple[Invocation, ...] | None:
        """Where scores are logged; each place may be given once, in one statement or in several."""
        logs = self.statements.listed(top, "log")
        first: dict[str, Invocation] = {}
        for log in logs or ():
            earlier = first.setdefault(log.card.name, log)
            if earlier is not log and isinstance(log.origin, Written) and isinstance(earlier.origin, Written):
                self.scope.add(messages.repeated_log(log.card.bare_name, log.origin.span, earlier.origin.span))
        return logs

    def _output(self, top: Mapping[str, list[Recognised]]) -> Setting | None:
        """The folder that runs are written to; a file can't become one."""
        if not top.get("output"):
            folder = f"runs/{self._name()}"
            return Setting("path", FilePath(folder, self.source.folder / folder), Default(""))
        statement = self.statements.bound(top["output"][-1])
        if statement is None:
            return None
        path = statement.settings[0].value
        if isinstance(path, FilePath) and os.path.isfile(path.place):
            self.scope.add(output_is_a_file(path))
        return statement.settings[0]

    # -- model and data

    def _data_source(self, top: Mapping[str, list[Recognised]]) -> tuple[Invocation | None, DataFacts]:
        statement = self.statements.bound(top["data"][-1]) if top.get("data") else None
        call = call_in(statement)
        if statement is None or call is None:
            return None, DataFacts(is_known=False)
        skips_bad = self._skips_bad_files(top["data"][-1].statement)
        return call, describe_data(call, statement.setting("task"), self.scope, skips_bad=skips_bad)

    def _skips_bad_files(self, data: syntax.Statement) -> bool:
        """Whether the block of the data says so; what is wrong with it is reported when the block is read."""
        for inner in data.inner:
            if isinstance(inner, syntax.Statement) and inner.name.path == "on_bad_file" and inner.arguments:
                value = inner.arguments[0].value
                return isinstance(value, syntax.Name) and value.path == "skip"
        return False

    def _data(
        self,
        top: Mapping[str, list[Recognised]],
        call: Invocation | None,
        facts: DataFacts,
        model: ModelFacts,
        *,
        has_weights: bool,
    ) -> Data | None:
        if not top.get("data"):
            return None
        recognised = recognise(top["data"][-1].statement.inner, "data", self.scope)
        placed = {statement.card.bare_name: statement for statement in recognised}
        inside = {name: self.statements.bound(one) for name, one in placed.items()}
        written = {name: statement for name, statement in inside.items() if statement is not None}
        if "split" in written:
            settings = [each for each in written["split"].settings if isinstance(each.origin, Written)]
            shares = [each.value for each in settings if isinstance(each.value, Quantity) and each.value.unit == "%"]
            if (total := sum(share.amount for share in shares)) > 100:
                self.scope.add(input_messages.split_above_all(written["split"], total))
        if call is None or len(written) < len(inside):
            return None
        pipelines = {name: written[name] for name in ("train", "eval") if name in written}
        transforms = {name: Transforms(one.settings[0].value, one.origin) for name, one in pipelines.items()}
        if "size" in written:
            model = default_transforms.with_size(model, written["size"], transforms.values(), self.scope)
        split = written.get("split") or default_transforms.default_split(default_of("data.split"), facts)
        samples = sample_counts(split, facts.counts)
        few = samples[0] if has_weights and samples is not None and samples[0] < FEW_SAMPLES else None
        train, eval = default_transforms.fill_in(transforms.get("train"), transforms.get("eval"), facts, model, few)
        others = [written.get(name, default_of(f"data.{name}")) for name in ("sampler", "workers", "on_bad_file")]
        tokenize = written.get("tokenize", default_of("data.tokenize") if facts.task.is_for_texts else None)
        sampler, workers, on_bad_file = call_in(others[0]), Workers.read(others[1]), OnBadFile.read(others[2])
        assert sampler is not None
        known = (facts.task, facts.target, facts.outputs, facts.channels, facts.size, facts.splits, samples)
        return Data(call, Split.read(split), train, eval, tokenize, sampler, workers, on_bad_file, *known)

    def _model(self, top: Mapping[str, list[Recognised]], data: DataFacts) -> tuple[Model | None, ModelFacts]:
        if not top.get("model"):
            return None, ModelFacts("the model")
        self.statements.refuse_block(top["model"][-1])
        return read_model(top["model"][-1], data, self.scope, self.run_code)
