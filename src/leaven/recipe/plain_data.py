"""A recipe as plain data for programs: every call has its card, its arguments and where each comes from."""

from typing import Any

from leaven.catalog.selectors import Selection
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation
from leaven.recipe.recipe import Data, Fixed, KeepHead, Phase, Recipe, Transforms, fixed_statements
from leaven.recipe.show import selector, technique_origin, technique_text


def to_json(recipe: Recipe) -> dict[str, Any]:
    """The recipe as what JSON can hold."""
    return {
        "name": recipe.name,
        "imports": [{"as": module.alias, "target": module.target} for module in recipe.modules],
        "args": [_fields(arg, "name", "type", "choices", "value", "help") for arg in recipe.args],
        "model": {
            "source": _json(recipe.model.source),
            "pretrained": recipe.model.pretrained,
            "weights": _json(recipe.model.weights),
            "head": "keep" if isinstance(recipe.model.head, KeepHead) else recipe.model.head.path or "new",
            "from": str(recipe.model.origin),
        },
        "data": {
            "source": _json(recipe.data.source),
            "task": recipe.data.task.name,
            "outputs": recipe.data.outputs,
            **_fields(recipe.data, *fixed_statements(Data), "train", "eval", "sampler", "tokenize"),
        },
        **_fields(recipe, *fixed_statements(Recipe), "metrics", "logs", "output", "sweeps"),
        "phases": [_phase_json(phase) for phase in recipe.phases],
    }


def _phase_json(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "epochs": _json(phase.epochs.value),
        "keep": "optimizer" if phase.keeps_optimizer else None,
        "precision": phase.precision,
        "loss": _json(phase.loss),
        "optimizer": _json(phase.optimizer.invocation) if phase.solver is None else None,
        "groups": [
            {"layers": selector(group.layers.selector), "settings": {s.name: _json(s.value) for s in group.settings}}
            for group in phase.optimizer.groups
        ],
        "schedule": _json(phase.schedule) if phase.solver is None else None,
        "techniques": [
            {"text": technique_text(technique), "from": technique_origin(technique)} for technique in phase.techniques
        ],
        **_fields(phase, *fixed_statements(Phase)),
        "overrides": [{"hook": o.hook, "function": value_text(o.function)} for o in phase.overrides],
        "from": str(phase.origin),
    }


def _fields(item: Any, *names: str) -> dict[str, Any]:
    return {name: _json(getattr(item, name)) for name in names}


def _json(item: Any) -> Any:
    match item:
        case None | bool() | int() | float() | str():
            return item
        case Invocation():
            arguments = {
                setting.name: {"value": _json(setting.value), "from": str(setting.origin)} for setting in item.settings
            }
            return {"card": item.card.name, "kind": item.card.kind, "arguments": arguments, "from": str(item.origin)}
        case Fixed():
            return _json(item.statement)
        case Transforms():
            return {"transforms": _json(item.stages), "from": str(item.origin)}
        case tuple() | list():
            return [_json(part) for part in item]
        case Selection():
            return selector(item.selector)
    return value_text(item)
