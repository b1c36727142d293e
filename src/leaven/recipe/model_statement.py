"""The `model` statement: a call or a pipeline, and what Leaven's own arguments say about weights and head."""

from collections.abc import Sequence
from dataclasses import replace

from leaven.binding.scope import Scope
from leaven.binding.statements import bind_statement
from leaven.binding.values import MODEL_PARAMETERS, Binder, is_changed_let
from leaven.catalog import lookup, own
from leaven.catalog.values import Invocation, Origin, Setting, Unknown
from leaven.formats.class_names import published_set
from leaven.language import syntax
from leaven.recipe.data import DataFacts
from leaven.recipe.model_facts import ModelFacts, describe_model
from leaven.recipe.recipe import KeepHead, Model, NewHead
from leaven.recipe.task import Task
from leaven.statements.contexts import Recognised

_OWN = frozenset(parameter.name for parameter in MODEL_PARAMETERS)


def read_model(placed: Recognised, data: DataFacts, scope: Scope, run_code: bool) -> tuple[Model | None, ModelFacts]:
    """The model that a statement names, and what is known about it."""
    statement = _bound(placed.statement, scope)
    if statement is None:
        return None, _facts_in_spite_of_errors(placed, data, scope, run_code)
    model, chosen = _model(statement)
    return model, describe_model(model, chosen, data, scope, run_code)


def _bound(statement: syntax.Statement, scope: Scope) -> Invocation | None:
    """The bound statement; a pipeline has Leaven's arguments outside of a call: `model a -> b, weights="…"`."""
    card = own.read("statement", "model")
    assert card is not None
    statement = _outside_of_let(statement, scope)
    is_pipeline = bool(statement.arguments) and _is_pipeline(statement.arguments[0].value, Binder(scope))
    return bind_statement(statement, card, scope, (*card.parameters, *MODEL_PARAMETERS) if is_pipeline else None)


def _is_pipeline(value: syntax.Value, binder: Binder) -> bool:
    """Whether a value is a pipeline of components, itself or through `let`s."""
    seen: set[str] = set()  # `let stem = stem` leads back to itself
    while isinstance(value, syntax.Name) and value.path in binder.scope.lets and value.path not in seen:
        seen.add(value.path)
        value = binder.scope.lets[value.path].value
    match value:
        case syntax.Name(path=path) | syntax.Call(name=syntax.Name(path=path)):
            return binder.is_component(path)
    return True


def _outside_of_let(statement: syntax.Statement, scope: Scope) -> syntax.Statement:
    """The statement with the arguments that `change` gives a pipeline named by a `let`: a pipeline has none itself."""
    first = statement.arguments[0] if statement.arguments else None
    if first is None or not isinstance(first.value, syntax.Call) or not is_changed_let(first.value, scope):
        return statement
    if not _is_pipeline(first.value.name, Binder(scope)):
        return statement
    arguments = (replace(first, value=first.value.name), *first.value.arguments, *statement.arguments[1:])
    return replace(statement, arguments=arguments)


def _model(statement: Invocation) -> tuple[Model, Invocation]:
    """The model, and the call or statement in which its weights and head were chosen."""
    source = statement.settings[0].value
    chosen = source if isinstance(source, Invocation) else statement
    return _chosen(source, chosen, statement.origin), chosen


def is_model(setting: Setting, call: Invocation) -> bool:
    """Whether an argument of a technique is a model, as a teacher is."""
    if not isinstance(setting.value, Invocation):
        return False
    parameter = call.card.parameter(setting.name)
    return setting.value.card.kind == "model" or (parameter is not None and "model" in parameter.types)


def as_model(call: Invocation) -> Model:
    """The model that a call names outside of the `model` statement: a teacher."""
    return _chosen(call, call, call.origin)


def _chosen(source: Invocation | tuple[Invocation, ...], chosen: Invocation, origin: Origin) -> Model:
    if isinstance(source, Invocation):
        source = replace(source, settings=tuple(s for s in source.settings if s.name not in _OWN))
    head = chosen.value("head")
    return Model(
        source=source,
        pretrained=bool(chosen.value("pretrained")),
        weights=chosen.value("weights"),
        head=KeepHead() if head == "keep" else NewHead(None if head == "new" else head),
        origin=origin,
        chosen_weights=chosen.setting("weights" if chosen.value("weights") is not None else "pretrained"),
    )


def kept_classes(model: Model, task: Task) -> str | None:
    """The set of classes that the kept head of a published classifier was trained on: `imagenet-1k`."""
    is_published = model.pretrained and model.weights is None
    if not is_published or not isinstance(model.head, KeepHead) or not task.is_for_images:
        return None
    return published_set(model.traits.classes) if task.has_one_class else None


def keeps_labels(model: Model, task: Task) -> bool:
    """Whether the kept head of a text model has classes, whose names its configuration tells."""
    is_published = model.pretrained and model.traits.loads == "transformers"
    return is_published and isinstance(model.head, KeepHead) and task.has_one_class


def _facts_in_spite_of_errors(placed: Recognised, data: DataFacts, scope: Scope, run_code: bool) -> ModelFacts:
    """The facts of a model whose `pretrained`, `weights` or `head` is wrong: its layers do not depend on them."""
    statement = placed.statement
    call = statement.arguments[0].value if statement.arguments else None
    if not isinstance(call, syntax.Call):
        return ModelFacts("the model")
    trial = scope.trial()
    card = Binder(trial).card(call.name, "model")
    takes = () if isinstance(card, Unknown) else tuple(parameter.name for parameter in card.parameters)
    kept = tuple(a for a in call.arguments if a.keyword is None or not _is_own(a.keyword.path, takes))
    argument = replace(statement.arguments[0], value=replace(call, arguments=kept))
    bound = _bound(replace(statement, arguments=(argument,), block=None), trial)
    if bound is None:
        return ModelFacts("the model")
    model, chosen = _model(bound)
    return describe_model(model, chosen, data, trial, run_code)


def _is_own(keyword: str, takes: Sequence[str]) -> bool:
    """Whether an argument of a model is Leaven's own, perhaps misspelt."""
    if keyword in takes and keyword not in _OWN:
        return False
    return not _OWN.isdisjoint(lookup.nearest(keyword, (*takes, *_OWN), limit=1))
