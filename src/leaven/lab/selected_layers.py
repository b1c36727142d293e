"""The layers of a model that exists, chosen by the selectors of recipes: `head`, `stages(1, 3)`, `blocks.*`.

Reading a selector is left to `binding/selectors.py`, and which layers are head, stem and stages to `survey`. Decides
which modules are meant: those that the selector names, else the owners of the parameters that it means.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import nn

from leaven.binding.scope import Scope
from leaven.binding.selectors import read_modules, read_selection
from leaven.catalog.layers import Layers, from_answer
from leaven.catalog.values import Unknown
from leaven.formats.layer_names import is_named
from leaven.language import syntax
from leaven.language.parser import parse_value
from leaven.language.source import Source, SourceKind
from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import NotCopied, looking_at
from leaven.survey.layers import describe

_BARE_GLOB = re.compile(r"[\w.]*[*?][\w.*?]*")  # recipes have it in quotes; a string of Python already is


def layers_of(model: nn.Module, built_by: Mapping[str, Any] | None = None) -> Layers:
    """The layers of a model; `built_by` says how a bundle builds it, from which more is known of its parts.

    The order of the forward pass is found with a copy on the meta device; without one, it is that of registration.
    """
    request = _request(built_by or {})
    try:
        with looking_at(model) as copied:
            return from_answer(describe(copied.to("meta"), request))
    except (NotCopied, NotImplementedError):
        return from_answer(describe(model, request))


def _request(built_by: Mapping[str, Any]) -> dict[str, Any]:
    """The request with which the survey would build such a model."""
    match built_by:
        case {"by": "transformers", "config": config}:
            return {"text_config": config}
        case {"by": "components", "parts": parts}:  # numbered, since their arguments would tell them apart
            return {"pipeline": [(name, {"number": number}) for number, (name, _) in enumerate(parts)]}
        case {"by": "timm", "name": name, "arguments": arguments}:
            fitted = {"fitted": built_by["fitted"]} if "fitted" in built_by else {}
            return {"target": "timm.create_model", "timm_name": name, "arguments": dict(arguments), **fitted}
        case {"by": "torchvision", "name": name, "arguments": arguments}:
            builder = import_module("torchvision.models").get_model_builder(name)
            return {"target": f"{builder.__module__}.{builder.__name__}", "arguments": dict(arguments)}
    return {}


def chosen(written: str, layers: Layers, model_name: str) -> tuple[str, ...]:
    """The paths of the modules that a selector means; a Failure for one that means none."""
    text = f'"{written}"' if _BARE_GLOB.fullmatch(written) else written
    value, problems = parse_value(Source("the selector", text, kind=SourceKind.OPTION))
    if value is None or problems:
        raise Failure(f"`{written}` can't be read: {problems[0].headline}", "give a selector: `head`, `stages(1, 3)`")
    return _named(value, layers) or _owners(value, layers, model_name)


def _named(value: syntax.Value, layers: Layers) -> tuple[str, ...]:
    """The modules that a selector names; none where a part of it names none."""
    found = read_modules(value, Scope(layers=layers), is_of_model=True)
    if isinstance(found, Unknown):
        return ()
    paths = [module.path for module in layers.modules]
    by_name = [[path for path in paths if is_named(path, name)] for name in found]
    return tuple(dict.fromkeys(path for each in by_name for path in each)) if all(by_name) else ()


def _owners(value: syntax.Value, layers: Layers, model_name: str) -> tuple[str, ...]:
    """The modules whose own parameters a selector means: `norms`, `first(3)`, `backbone`."""
    scope = Scope(layers=layers, model_name=model_name)
    selection = read_selection(value, scope)
    if isinstance(selection, Unknown) or not selection.parameters:
        headline = scope.diagnostics[0].headline if scope.diagnostics else "the selector means no layer"
        raise Failure(headline, "`leaven inspect` lists the layers")
    owners = (layer.module_path for layer in layers.parameters if layer.name in selection.parameters)
    return tuple(dict.fromkeys(owners))
