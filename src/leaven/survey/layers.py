"""Builds a model without weights and lists its layers: `python -m leaven.survey.layers`.

Reads a request as JSON from stdin and writes the answer as JSON to stdout. Models are built on torch's meta device,
where tensors have shapes and no values, so that even the largest takes no memory; nothing is downloaded. Which layers
are head, stem and stages is decided in `model_parts.py`.

A request says what to build in one of four ways:

    {"target": "timm.create_model", "timm_name": "resnet18", "arguments": {"in_chans": 1}}     with "fitted", a function
        that gives it another head
    {"pipeline": [["leaven.components.conv.Conv", {"channels": 32}], …], "channels": 3, "input_size": [32, 32]}
    {"file": "/path/mine.py", "name": "Net", "arguments": {}}        which runs the user's code
    {"text_config": {"model_type": "bert", …}, "pooling": "mean"}    a model of transformers by its configuration
"""

import contextlib
import functools
import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from leaven.formats.python_modules import load_module
from leaven.runtime.model.text import head_of
from leaven.survey import model_parts, transformers_models

_TRIAL_SECONDS = 60.0  # long enough for a busy machine to give the same answer
_USUAL_SIZE = (224, 224)
_SOME_CLASSES = 10
_SAMPLES = 2  # in a trial; batch norm needs more than one

_Shape = tuple[int, ...]
_Use = tuple[str, str, _Shape]  # a component, its arguments, and the shape that it takes: alike wherever it is


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The layers of the requested model, or why it can't be built."""
    try:
        model = build(request)
        weights = {path: (*m.parameters(recurse=False), *m.buffers(recurse=False)) for path, m in model.named_modules()}
        if lazy := [path for path, own in weights.items() if any(map(nn.parameter.is_lazy, own))]:
            return {"lazy": [[path, type(model.get_submodule(path)).__name__] for path in lazy]}
        return describe(_with_a_head(model, request), request)
    except (Exception, SystemExit) as error:
        return {"error": message(error)}


def message(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    named = "" if isinstance(error, TypeError | ValueError) and lines[0] else f"{type(error).__name__}: "
    return (named + lines[0]).rstrip(": ")


def _with_a_head(model: nn.Module, request: dict[str, Any]) -> nn.Module:
    """A timm model that was published without a head gets one, as it will for the data's classes."""
    if getattr(model, "num_classes", None) != 0 or not request.get("timm_name") or request.get("fitted"):
        return model
    fitted = build(request, num_classes=_SOME_CLASSES)
    return fitted if model_parts.head(fitted) else model


# -- building


def build(request: dict[str, Any], **changes: Any) -> nn.Module:
    """The requested model, on the meta device where it can be built there: its constructor may need values that it has
    computed, or those of its weights."""
    for place in (torch.device("meta"), _weights_on_meta()):
        try:
            with place:
                return _fitted(_build(request, changes).to("meta"), request)
        except (RuntimeError, NotImplementedError) as error:
            if "meta" not in str(error):
                raise
    return _fitted(_build(request, changes).to("meta"), request)


def _fitted(model: nn.Module, request: dict[str, Any]) -> nn.Module:
    """The model with the head that its task gives it."""
    if request.get("fitted"):
        _imported(request["fitted"])(model, _SOME_CLASSES)
    return model


@contextlib.contextmanager
def _weights_on_meta() -> Iterator[None]:
    """Moves each parameter to meta as soon as it is registered, so that a large model takes the memory of one layer."""
    register = nn.Module.register_parameter

    def move(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
        if weight is not None and not nn.parameter.is_lazy(weight):
            weight = nn.Parameter(weight.to("meta"), weight.requires_grad)
        register(module, name, weight)

    nn.Module.register_parameter = move  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def _build(request: dict[str, Any], changes: dict[str, Any]) -> nn.Module:
    arguments = {**request.get("arguments", {}), **changes}
    if "pipeline" in request:
        return _pipeline(request)
    if "text_config" in request:
        return transformers_models.build(request)
    if "file" in request:
        path = Path(request["file"])
        sys.path.append(str(path.parent))  # files beside it can be imported as in the user's own program
        model = attrgetter(request["name"])(load_module(path, path.stem.replace(".", "_")))
        if not isinstance(model, nn.Module):
            model = model(**arguments)
    elif request["target"] == "timm.create_model":
        import timm

        model = timm.create_model(request["timm_name"], pretrained=False, **arguments)
    else:
        constructor = _imported(request["target"])
        without_weights = {name: None for name in ("weights", "weights_backbone") if name in _parameters(constructor)}
        model = constructor(**without_weights, **arguments)
    if not isinstance(model, nn.Module):
        raise TypeError(f"it returns {type(model).__name__}, not a torch.nn.Module")
    return model


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


@functools.cache
def _parameters(constructor: Any) -> frozenset[str]:
    return frozenset(inspect.signature(constructor).parameters)


def _pipeline(request: dict[str, Any]) -> nn.Module:
    """A sequence of components; each that takes `in_channels` gets those of the output before it."""
    height, width = request.get("input_size") or (32, 32)
    shape: _Shape = (_SAMPLES, request.get("channels", 3), height, width)
    stages = []
    shape_after: dict[_Use, _Shape] = {}
    for target, arguments in request["pipeline"]:
        constructor = _imported(target)
        takes_channels = "in_channels" in _parameters(constructor)
        stage = constructor(**({"in_channels": shape[1]} if takes_channels else {}), **arguments)
        use = (target, json.dumps(arguments), shape)
        if use not in shape_after:
            with torch.no_grad():
                shape_after[use] = tuple(stage.eval()(torch.zeros(shape)).shape)
        shape = shape_after[use]
        stages.append(stage)
    return nn.Sequential(*stages)


# -- describing


def describe(model: nn.Module, request: dict[str, Any]) -> dict[str, Any]:
    """The answer about a model: the fields of `leaven.catalog.layers.Layers`."""
    trial = _trial(model, request)
    order, output = trial.order, trial.shapes.get("", [])
    modules = dict(model.named_modules())
    position = {path: number for number, path in enumerate(modules)}
    owned = [(name, parameter, name.rpartition(".")[0]) for name, parameter in model.named_parameters()]
    parameters = [(name, p.numel(), list(p.shape), type(modules[owner]).__name__, owner) for name, p, owner in owned]
    if order:
        parameters.sort(key=lambda entry: (order[entry[4]], position[entry[4]]))
    arguments = request.get("arguments", {})
    head, stem, stages = _parts(model, request)
    return {
        "parameters": parameters,
        "modules": [[path, type(it).__name__, model_parts.is_plain(it)] for path, it in modules.items() if path],
        "head": head,
        "stem": stem,
        "stages": stages,
        "is_forward_order": bool(order),
        "input_channels": model_parts.input_channels(model, arguments),
        "classes": output[1] if output and len(output) == 2 else model_parts.classes(model, head),
        "fixed_input_size": model_parts.fixed_input_size(model, arguments),
        "shapes": {path: shape[1:] for path, shape in trial.shapes.items()},
        "flops": {path: count for path, count in trial.flops.items() if path},
        "trial_size": trial.size,
    }


class Trial(NamedTuple):
    """The results of a forward pass on the meta device; empty where it fails."""

    order: Mapping[str, int] = {}  # when each module is first called
    shapes: Mapping[str, list[int]] = {}  # of each module's output, the model's own under ""
    flops: Mapping[str, int] = {}  # for one sample
    size: list[int] | None = None  # of that sample


def _trial(model: nn.Module, request: dict[str, Any]) -> Trial:
    parameter = next(model.parameters(), None)
    if parameter is None or not parameter.is_meta:
        return Trial()
    deadline = time.monotonic() + _TRIAL_SECONDS
    try:
        if "text_config" in request:
            return _forward(model, transformers_models.inputs(_SAMPLES), deadline)
        arguments = request.get("arguments", {})
        channels = model_parts.input_channels(model, arguments) or request.get("channels") or 3
        size = request.get("input_size") or model_parts.usual_size(model, arguments) or _USUAL_SIZE
        shape = (_SAMPLES, channels, *size)
        if isinstance(model, nn.Sequential) and "pipeline" in request:
            return _stage_by_stage(model, request["pipeline"], shape, deadline)
        return _forward(model, torch.zeros(shape, device="meta"), deadline)
    except Exception:
        return Trial()


def _stage_by_stage(model: nn.Sequential, written: list[Any], shape: _Shape, deadline: float) -> Trial:
    """A trial of a pipeline, which may have thousands of stages: those that are alike are tried once."""
    order: dict[str, int] = {"": 0}
    shapes: dict[str, list[int]] = {"": []}
    flops: dict[str, int] = {}
    tried: dict[_Use, Trial] = {}
    size, called = list(shape[2:]), 1
    for (number, stage), (target, arguments) in zip(model.named_children(), written, strict=True):
        use = (target, json.dumps(arguments), shape)
        if use not in tried:
            tried[use] = _forward(stage, torch.zeros(shape, device="meta"), deadline)
        trial = tried[use]
        order |= {_path(number, path): called + at for path, at in trial.order.items()}
        shapes |= {_path(number, path): list(output) for path, output in trial.shapes.items()}
        flops |= {_path(number, path): count for path, count in trial.flops.items()}
        shape = tuple(trial.shapes[""])
        called += max(trial.order.values()) + 1
    shapes[""] = list(shape)
    return Trial(order, shapes, flops, size)


def _path(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if inner else outer


def _forward(model: nn.Module, inputs: Any, deadline: float) -> Trial:
    """The results of one forward pass; raises what the model raises."""
    called: dict[nn.Module, int] = {}
    outputs: dict[nn.Module, list[int]] = {}

    def record_call(module: nn.Module, *_: object) -> None:
        called.setdefault(module, len(called))
        if time.monotonic() > deadline:
            raise TimeoutError

    def record_output(module: nn.Module, _: object, result: object) -> None:
        if isinstance(result, Tensor):
            outputs.setdefault(module, list(result.shape))

    hooks = [module.register_forward_pre_hook(record_call) for module in model.modules()]
    hooks += [module.register_forward_hook(record_output) for module in model.modules()]
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter:
            model.eval()(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    order: dict[str, int] = {}
    latest = 0
    for path, module in model.named_modules():
        # One that is never called (an auxiliary head, a module whose weights are used directly) follows the last.
        latest = called.get(module, latest)
        order[path] = latest
    shapes = {path: outputs[module] for path, module in model.named_modules() if module in outputs}
    size = list(inputs.shape[2:]) if isinstance(inputs, Tensor) else None
    counts = counter.get_flop_counts()  # by paths that begin with the name of the model's class
    by_path = {path: counts.get(_path(type(model).__name__, path)) for path, _ in model.named_modules()}
    flops = {path: sum(kinds.values()) // _SAMPLES for path, kinds in by_path.items() if kinds}
    return Trial(order, shapes, flops, size)


def _parts(model: nn.Module, request: dict[str, Any]) -> tuple[list[str], list[str], list[list[str]]]:
    """The paths of the modules that are the head, which computes the task's output, the stem, and each stage."""
    if "text_config" in request:
        return head_of(model), transformers_models.stem(model), transformers_models.stages(model)
    stem = model_parts.stem(model)
    if "pipeline" in request:
        head = model_parts.last_stage(model)
        return head, stem, model_parts.pipeline_stages(model, stem, head)
    if request.get("fitted"):
        return model_parts.last_stage(model), stem, model_parts.stages(model, stem)
    head = model_parts.head(model) if "file" not in request else []
    return head or _sized_by_classes(model, request), stem, model_parts.stages(model, stem)


def _sized_by_classes(model: nn.Module, request: dict[str, Any]) -> list[str]:
    """The modules whose parameters change shape with the number of classes."""
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    for word in ("num_classes", "classes"):
        number = _SOME_CLASSES + 3
        number += request.get("arguments", {}).get(word) == number
        try:
            other = build(request, **{word: number})
        except (Exception, SystemExit):
            continue
        changed = [name for name, weight in other.named_parameters() if shapes.get(name, weight.shape) != weight.shape]
        return list(dict.fromkeys(name.rpartition(".")[0] for name in changed))
    return []


def reply(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read a request from stdin, and write the answer to stdout."""
    request = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):  # what libraries and user code print
        reply = answer(request)
    json.dump(reply, sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    reply(answer)
