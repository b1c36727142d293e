"""A recipe as canonical text or as JSON, every default filled in and where each choice comes from.

The text is a recipe again: checking it gives an equal one. Origins stand in comments.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from leaven.recipe import nouns
from leaven.recipe.recipe import (
    AnyTechnique,
    Data,
    Default,
    FitHead,
    Freeze,
    Invocation,
    Joined,
    KeepHead,
    Layer,
    Model,
    OfType,
    Optimizer,
    Origin,
    Phase,
    Recipe,
    Reinit,
    Selector,
    Setting,
    Share,
    Stages,
    Steps,
    Technique,
    Unfreeze,
    Without,
    Word,
    Written,
)

COMMENT_COLUMN = 72

Line = tuple[str, str]  # what the recipe says, and where it comes from


def to_text(recipe: Recipe) -> str:
    """The recipe as text, with origins in comments."""
    return "".join(f"{_with_comment(*line)}\n" for line in _lines(recipe))


def to_plain_text(recipe: Recipe) -> str:
    """The recipe as text alone."""
    return "".join(f"{code}\n" for code, _ in _lines(recipe))


def _with_comment(code: str, comment: str) -> str:
    return f"{code.ljust(COMMENT_COLUMN)}  # {comment}" if comment else code


def _lines(recipe: Recipe) -> Iterator[Line]:
    for module in recipe.modules:
        target = nouns.plain(module.target) if module.is_file else module.target
        yield f"import {target} as {module.alias}", ""
    for arg in recipe.args:
        choices = f"[{', '.join(nouns.plain(choice) for choice in arg.choices)}]" if arg.choices else ""
        default = "" if nouns.is_pending(arg.value) else f" = {nouns.plain(arg.value)}"
        help_text = f" {nouns.plain(arg.help)}" if arg.help else ""
        yield f"arg {arg.name}: {arg.type}{choices}{default}{help_text}", str(arg.origin)
    if recipe.modules or recipe.args:
        yield "", ""
    yield _model(recipe.model)
    yield "", ""
    yield from _data(recipe.data)
    yield "", ""
    yield f"metrics    {', '.join(call(metric) for metric in recipe.metrics)}", _origins(recipe.metrics)
    yield _statement("train     ", recipe.train)
    yield _statement("checkpoint", recipe.checkpoint)
    for log in recipe.logs:
        yield f"log        {call(log)}", _origin(log)
    yield f"output     {nouns.plain(recipe.output)}", str(recipe.output_origin)
    for sweep in recipe.sweeps:
        yield _statement("sweep     ", sweep)
    for phase in recipe.phases:
        yield "", ""
        yield from _phase(phase)


def _model(model: Model) -> Line:
    extra = []
    if model.pretrained:
        extra.append("pretrained=true")
    if model.weights is not None:
        extra.append(f"weights={nouns.plain(model.weights)}")
    match model.head:
        case KeepHead():
            extra.append("head=keep")
        case FitHead(path=None):
            extra.append("head=fit")
        case FitHead(path=path):
            extra.append(f"head={nouns.plain(path)}")
    if isinstance(model.source, tuple):
        return f"model {', '.join([_pipeline(model.source), *extra])}", str(model.origin)
    return f"model {call(model.source, extra)}", str(model.origin)


def _data(data: Data) -> Iterator[Line]:
    yield f"data {call(data.source)} {{", str(data.source.origin)
    parts: list[tuple[str, Invocation | Steps | None]] = [
        ("split", data.split),
        ("train", data.train),
        ("eval", data.eval),
        ("tokenize", data.tokenize),
    ]
    for name, part in parts:
        if isinstance(part, Steps) and part.stages:
            yield f"    {name:<11} {_pipeline(part.stages)}", _steps_origin(part)
        elif isinstance(part, Invocation):
            yield _statement(f"    {name:<11}", part)
    yield f"    sampler     {call(data.sampler)}", _origin(data.sampler)
    yield _statement("    workers    ", data.workers)
    yield _statement("    on_bad_file", data.on_bad_file)
    yield "}", ""


def _phase(phase: Phase) -> Iterator[Line]:
    keep = ", keep=optimizer" if phase.keeps_optimizer else ""
    epochs = phase.epochs.value
    long = epochs.name if nouns.is_pending(epochs) else nouns.plain(epochs.amount)
    yield f"phase {nouns.plain(phase.name)}, epochs={long}{keep} {{", str(phase.origin)
    yield f"    loss      {call(phase.loss)}", _origin(phase.loss)
    yield from _optimizer(phase.optimizer)
    yield f"    schedule  {call(phase.schedule)}", _origin(phase.schedule)
    for technique in phase.techniques:
        yield f"    {_technique(technique)}", _technique_origin(technique)
    if phase.early_stop is not None:
        yield _statement("    early_stop", phase.early_stop)
    for override in phase.overrides:
        yield f"    override {override.hook}, {nouns.plain(override.function)}", str(override.origin)
    yield "}", ""


def _optimizer(optimizer: Optimizer) -> Iterator[Line]:
    if not optimizer.groups:
        yield f"    optimizer {call(optimizer.invocation)}", _origin(optimizer.invocation)
        return
    yield f"    optimizer {call(optimizer.invocation)} {{", _origin(optimizer.invocation)
    for group in optimizer.groups:
        settings = "".join(f", {setting.name}={value(setting.value)}" for setting in group.settings)
        yield f"        group {selector(group.layers)}{settings}", str(group.origin)
    yield "    }", ""


def _technique(technique: AnyTechnique) -> str:
    match technique:
        case Freeze(layers=layers, norms=norms):
            return f"freeze {selector(layers)}, norms={norms}"
        case Unfreeze(layers=layers, at=at):
            return f"unfreeze {selector(layers)}" + (f", at={nouns.plain(at)}" if at else "")
        case Reinit(layers=layers, how=how):
            return f"reinit {selector(layers)}, how={how}"
        case Technique(invocation=invocation):
            return f"{invocation.card.name} {_arguments(invocation.settings, invocation)}".rstrip()


def _technique_origin(technique: AnyTechnique) -> str:
    return _origin(technique.invocation) if isinstance(technique, Technique) else str(technique.origin)


# -- values


def call(invocation: Invocation, extra: Iterable[str] = ()) -> str:
    """`torch.AdamW(lr=3e-4)`."""
    inside = ", ".join(part for part in (_arguments(invocation.settings, invocation), *extra) if part)
    return f"{invocation.card.name}({inside})"


def _statement(name: str, invocation: Invocation) -> Line:
    return f"{name} {_arguments(invocation.settings, invocation)}".rstrip(), _origin(invocation)


def _arguments(settings: Sequence[Setting], invocation: Invocation) -> str:
    """All settings but the defaults that say nothing, required ones without their names."""
    shown = []
    named = False
    for setting in settings:
        if isinstance(setting.origin, Default) and setting.value is None:
            named = True
            continue
        parameter = invocation.card.parameter(setting.name)
        if parameter is not None and parameter.variadic:
            shown += [value(item) for item in setting.value]
        elif parameter is not None and parameter.required and parameter.positional and not named:
            shown.append(_choice_or_value(setting.value, parameter.types))
        else:
            named = True
            types = parameter.types if parameter is not None else ()
            shown.append(f"{setting.name}={_choice_or_value(setting.value, types)}")
    return ", ".join(shown)


def _choice_or_value(item: Any, types: Sequence[str]) -> str:
    if isinstance(item, str) and {"choice", "name", "statement"} & set(types):
        return item if item.replace(".", "").replace("_", "").isalnum() else nouns.plain(item)
    return value(item)


def value(item: Any) -> str:
    """Any value as it would be written."""
    match item:
        case Invocation():
            return call(item)
        case Word() | Layer() | Stages() | Share() | OfType() | Joined() | Without():
            return selector(item)
        case tuple() if item and all(isinstance(part, Invocation) for part in item):
            return _pipeline(item)
        case tuple():
            return "[" + ", ".join(value(part) for part in item) + "]"
    return nouns.plain(item)


def _pipeline(stages: Sequence[Invocation]) -> str:
    """Stages joined by `->`; the same one several times in a row is counted."""
    shown: list[tuple[str, int]] = []
    for stage in stages:
        text = call(stage)
        if shown and shown[-1][0] == text:
            shown[-1] = (text, shown[-1][1] + 1)
        else:
            shown.append((text, 1))
    return " -> ".join(f"{text} * {times}" if times > 1 else text for text, times in shown)


def selector(item: Selector, is_right: bool = False) -> str:
    """A selector as it would be written."""
    match item:
        case Word(word):
            return word
        case Layer(pattern, _):
            return nouns.plain(pattern)
        case Stages(numbers):
            return f"stages({', '.join(map(str, numbers))})"
        case Share(end, amount):
            return f"{end}({nouns.plain(amount) if amount.unit == '%' else nouns.plain(amount.amount)})"
        case OfType(type):
            return f"type({nouns.plain(type)})"
        case Joined(left, right) | Without(left, right):
            operator = "+" if isinstance(item, Joined) else "-"
            text = f"{selector(left)} {operator} {selector(right, is_right=True)}"
            return f"({text})" if is_right else text


# -- origins


def _origin(invocation: Invocation) -> str:
    """Where a call comes from; where only some of it was written, it says so."""
    if isinstance(invocation.origin, Default):
        return str(invocation.origin)
    origins = {isinstance(setting.origin, Written) for setting in invocation.settings if setting.value is not None}
    return f"{invocation.origin}, the rest by default" if origins == {True, False} else str(invocation.origin)


def _origins(invocations: Sequence[Invocation]) -> str:
    return _origin(invocations[0]) if invocations else ""


def _steps_origin(steps: Steps) -> str:
    added = [stage for stage in steps.stages if isinstance(stage.origin, Default)]
    if isinstance(steps.origin, Default) or not added:
        return str(steps.origin)
    return f"{steps.origin}, the last {len(added)} by default" if len(added) > 1 else f"{steps.origin}, the last by default"


# -- JSON


def to_json(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain data; every call has its card, its arguments and where each comes from."""
    return {
        "name": recipe.name,
        "imports": [{"as": module.alias, "target": module.target} for module in recipe.modules],
        "args": [
            {"name": arg.name, "type": arg.type, "choices": list(arg.choices), "value": _json(arg.value), "help": arg.help}
            for arg in recipe.args
        ],
        "model": {
            "source": _json(recipe.model.source),
            "pretrained": recipe.model.pretrained,
            "weights": _json(recipe.model.weights),
            "head": "keep" if isinstance(recipe.model.head, KeepHead) else recipe.model.head.path or "fit",
            "from": _from(recipe.model.origin),
        },
        "data": {
            "source": _json(recipe.data.source),
            "classes": recipe.data.classes,
            "split": _json(recipe.data.split),
            "train": _json(recipe.data.train),
            "eval": _json(recipe.data.eval),
            "sampler": _json(recipe.data.sampler),
            "workers": _json(recipe.data.workers),
            "on_bad_file": _json(recipe.data.on_bad_file),
            "tokenize": _json(recipe.data.tokenize),
        },
        "metrics": _json(recipe.metrics),
        "train": _json(recipe.train),
        "checkpoint": _json(recipe.checkpoint),
        "logs": _json(recipe.logs),
        "output": _json(recipe.output),
        "sweeps": _json(recipe.sweeps),
        "phases": [_phase_json(phase) for phase in recipe.phases],
    }


def _phase_json(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "epochs": _json(phase.epochs.value),
        "keep": "optimizer" if phase.keeps_optimizer else None,
        "loss": _json(phase.loss),
        "optimizer": _json(phase.optimizer.invocation),
        "groups": [
            {"layers": selector(group.layers), "settings": {s.name: _json(s.value) for s in group.settings}}
            for group in phase.optimizer.groups
        ],
        "schedule": _json(phase.schedule),
        "techniques": [
            {"text": _technique(technique), "from": _technique_origin(technique)} for technique in phase.techniques
        ],
        "early_stop": _json(phase.early_stop),
        "overrides": [{"hook": o.hook, "function": nouns.plain(o.function)} for o in phase.overrides],
        "from": _from(phase.origin),
    }


def _json(item: Any) -> Any:
    match item:
        case None | bool() | int() | float() | str():
            return item
        case Invocation():
            arguments = {
                setting.name: {"value": _json(setting.value), "from": _from(setting.origin)} for setting in item.settings
            }
            return {"card": item.card.name, "kind": item.card.kind, "arguments": arguments, "from": _from(item.origin)}
        case Steps():
            return {"steps": _json(item.stages), "from": _from(item.origin)}
        case tuple() | list():
            return [_json(part) for part in item]
        case Word() | Layer() | Stages() | Share() | OfType() | Joined() | Without():
            return selector(item)
    return nouns.plain(item)


def _from(origin: Origin) -> str:
    return str(origin)
