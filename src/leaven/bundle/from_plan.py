"""How a model was built, from the plan of its program, where that was not edited.

The plan's values become those that the program had: the arguments of its function that builds the model are known.
"""

import argparse
import inspect
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from leaven.bundle.archive import MANIFEST, read_archive
from leaven.bundle.building import (
    BuiltBy,
    BuiltFirst,
    Changed,
    Components,
    Own,
    Timm,
    Torchvision,
    Transformers,
    component,
    read_builder,
)
from leaven.bundle.manifest import read_manifest
from leaven.bundle.over import Over
from leaven.plan.plan import Chain, FileWeights, HubWeights, Plan, StarterWeights
from leaven.plan.recorded_plan import plan_of_program
from leaven.plan.values import Argument, ArgValue, Calculation, Call, Entries, Negative, Value, Variable
from leaven.runtime.failures import USER_FILE, Failure
from leaven.runtime.model.builder import Built
from leaven.runtime.model.text import configuration_of

_BACKBONE = ("weights_backbone", "trainable_backbone_layers")  # what only matters with published weights
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


class _Unknown(Exception):
    """The plan does not say what a bundle has to know."""


def planned_builder(model: nn.Module, known: Built) -> BuiltFirst | None:
    """How a bundle builds the model of an unedited program; None where it has to call the program's function."""
    plan = _plan(known)
    try:
        return _builder(plan, _Values(plan, known.arguments), model, known) if plan is not None else None
    except (_Unknown, Failure):  # a bundle can't hold such arguments
        return None


def planned_over(known: Built) -> Over | None:
    """Where the weights are from that a model began with."""
    plan = _plan(known)
    if plan is None:
        return None
    made, values = plan.model, _Values(plan, known.arguments)
    new = made.new or ((made.replaced_head,) if made.replaced_head is not None else ())
    match made.weights:
        case StarterWeights(package):
            return Over(package, new=new)
        case FileWeights(file):
            return Over(file=values.of(file), new=new)
        case HubWeights(tag) if made.by != "transformers":
            return Over(hub=tag or "DEFAULT", new=new)
        case HubWeights():
            assert isinstance(made.source, Call)
            place = str(values.of(made.source.arguments[0].value))
            return Over(file=place, new=new) if os.path.isdir(place) else Over(hub=place, new=new)
    return None


def _plan(known: Built) -> Plan | None:
    return plan_of_program(Path(known.function.__code__.co_filename)) if known.function is not None else None


class _Values:
    """The values of a plan in a program whose function that builds the model got certain arguments."""

    def __init__(self, plan: Plan, given: Mapping[str, Any]) -> None:
        self._variables = {**given, "outputs": given.get(plan.task.outputs)}
        self._args = given.get("args", argparse.Namespace())

    def of(self, value: Value) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case tuple():
                return [self.of(each) for each in value]
            case Entries(items):
                return {name: self.of(each) for name, each in items}
            case Negative(inner):
                return -self.of(inner)
            case Calculation(sign, left, right) if sign in _OPERATORS:
                return _OPERATORS[sign](self.of(left), self.of(right))
            case Variable(name) if self._variables.get(name) is not None:
                return self._variables[name]
            case ArgValue(name):
                for key in (name, f"{name}_"):  # as programs name an `arg` that is a keyword of Python
                    if hasattr(self._args, key):
                        return getattr(self._args, key)
        raise _Unknown

    @property
    def outputs(self) -> int:
        return int(self.of(Variable("outputs")))

    def named(self, arguments: tuple[Argument, ...]) -> dict[str, Any]:
        return {each.name: self.of(each.value) for each in arguments if each.name}


def _builder(plan: Plan, values: _Values, model: nn.Module, known: Built) -> BuiltFirst:
    made = plan.model
    head = (made.replaced_head, values.outputs) if made.replaced_head is not None else None
    fitted = (plan.task.name, values.outputs) if made.fitted_head is not None else None
    if isinstance(made.source, Chain):
        return Components([_component(call, values) for call in made.source.components])
    arguments = values.named(made.source.arguments)
    match made.by:
        case "timm":
            arguments.pop("pretrained", None)
            return Timm(made.name, head=head, fitted=fitted, arguments=arguments)
        case "torchvision":
            arguments = {name: value for name, value in arguments.items() if name not in ("weights", *_BACKBONE)}
            if getattr(model, "aux_classifier", None) is not None:
                arguments["aux_loss"] = True  # which published weights bring along
            if made.removes_auxiliary_heads:
                arguments["aux_logits"] = False
            return Torchvision(made.name, head=head, fitted=fitted, arguments=arguments)
        case "transformers":
            pooling = arguments.get("pooling", "")
            return Transformers(type(model).__name__, configuration_of(model), pooling, head)
        case "user":
            alias, _, name = made.source.target.partition(".")
            module = next(each for each in plan.user_modules if each.alias == alias)
            imported = known.function.__globals__.get(alias) if known.function is not None else None
            # where it was found: user code may have changed the working directory since then
            file = getattr(imported, USER_FILE, None) or os.path.abspath(module.target)
            return Own(file if module.is_file else module.target, name, arguments, head)
        case "bundle":
            file = values.of(made.source.arguments[0].value)
            built_by = read_manifest(read_archive(Path(file))[MANIFEST], file).built_by
            return _with_head(read_builder(built_by), head, fitted)
    raise _Unknown


def _component(call: Call, values: _Values) -> tuple[str, dict[str, Any]]:
    if call.is_user:
        raise _Unknown
    given = [values.of(each.value) for each in call.arguments if not each.name]
    bound = inspect.signature(component(call.name)).bind(*given, **values.named(call.arguments))
    return call.name, dict(bound.arguments)


def _with_head(builder: BuiltBy, head: tuple[str, int] | None, fitted: tuple[str, int] | None) -> BuiltFirst:
    """How the model in a bundle is built, with another head, where that runs no code."""
    if isinstance(builder, Changed | Own) or fitted is not None:
        raise _Unknown
    if head is not None:
        if isinstance(builder, Components):
            raise _Unknown
        builder.head = head
    return builder
