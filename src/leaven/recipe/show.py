"""A recipe as text, with every default filled in and with comments that say where each choice comes from.

The text is again a recipe: checking it gives an equal one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

from leaven.catalog.selectors import Joined, Layer, OfType, Selection, Selector, Share, Stages, Without, Word
from leaven.catalog.value_text import expression_text, value_text
from leaven.catalog.values import Default, Invocation, Origin, Pending, Quantity, Setting, is_written
from leaven.formats.listing import both
from leaven.language.record import Record
from leaven.recipe.recipe import (
    AnyTechnique,
    Data,
    Fixed,
    Freeze,
    KeepHead,
    Model,
    NewHead,
    Optimizer,
    Phase,
    Recipe,
    Reinit,
    Technique,
    Transforms,
    Unfreeze,
    fixed_statements,
)
from leaven.terminal.remarks import Line, aligned, joined

WIDTH = 100
COMMENT_COLUMN = 72

_CHOICE = ("choice",)


def to_text(recipe: Recipe, width: int | None = None) -> str:
    """The recipe as text, with origins in comments; fitted to a terminal of that width, if one is given."""
    return "".join(f"{joined(line)}\n" for line in aligned(_lines(recipe), COMMENT_COLUMN, width))


def _lines(recipe: Recipe) -> Iterator[Line]:
    for module in recipe.modules:
        target = value_text(module.target) if module.is_file else module.target
        yield f"import {target} as {module.alias}", ""
    for arg in recipe.args:
        choices = f"[{', '.join(value_text(choice) for choice in arg.choices)}]" if arg.choices else ""
        default = "" if isinstance(arg.value, Pending) else f" = {value_text(arg.value)}"
        help_text = f" {value_text(arg.help)}" if arg.help else ""
        yield f"arg {arg.name}: {arg.type}{choices}{default}{help_text}", str(arg.origin)
    if recipe.modules or recipe.args:
        yield "", ""
    yield from _model(recipe.model)
    yield "", ""
    yield from _data(recipe.data)
    yield "", ""
    origins = dict.fromkeys(_origin(metric) for metric in recipe.metrics)
    yield f"metrics {', '.join(call(metric) for metric in recipe.metrics)}", "; ".join(origins)
    yield from _fixed(recipe)
    for log in recipe.logs:
        yield from _called("log", log)
    yield f"output {value_text(recipe.output)}", str(recipe.output_origin)
    for sweep in recipe.sweeps:
        yield from _statement("sweep", sweep)
    for phase in recipe.phases:
        yield "", ""
        yield from _phase(phase)


def _model(model: Model) -> Iterator[Line]:
    extra = ["pretrained=true"] if model.pretrained else []
    if model.weights is not None:
        extra.append(f"weights={value_text(model.weights)}")
    if isinstance(model.head, KeepHead):
        extra.append("head=keep")
    else:
        extra.append(f"head={'new' if model.head.path is None else value_text(model.head.path)}")
    if isinstance(model.source, tuple):
        yield from _stages("model", model.source, str(model.origin), extra)
    else:
        given = [model.chosen_weights] if model.weights is not None and model.chosen_weights is not None else []
        credit = _credit(model.source.origin, [*_shown(model.source), *given])
        yield from _called("model", _without_fitted(model), extra, credit=credit)


def _without_fitted(model: Model) -> Invocation:
    """The call that makes a model, without the number of outputs that the data gives in place of a default."""
    assert isinstance(model.source, Invocation)
    outputs = model.source.card.outputs_parameter
    if model.source.card.kind != "user" or not isinstance(model.head, NewHead) or outputs is None:
        return model.source
    given = (s for s in model.source.settings if s.name != outputs.name or not isinstance(s.origin, Default))
    return replace(model.source, settings=tuple(given))


def _data(data: Data) -> Iterator[Line]:
    yield from _called("data", data.source, ending=" {")
    for name in (each.name for each in fields(data) if each.name != "source"):
        match getattr(data, name):
            case Fixed(statement=statement):
                yield from _statement(f"    {name}", statement)
            case Transforms(stages=stages, origin=origin) if stages:
                yield from _stages(f"    {name}", stages, str(origin))
            case Invocation() as statement if statement.card.kind == "statement":
                yield from _statement(f"    {name}", statement)
            case Invocation() as called:
                yield from _called(f"    {name}", called)
    yield "}", ""


def _phase(phase: Phase) -> Iterator[Line]:
    more = ", keep=optimizer" if phase.keeps_optimizer else ""
    more += f", precision={phase.precision}" if phase.precision is not None else ""
    epochs = phase.epochs
    length = expression_text(epochs.syntax) if epochs.syntax is not None else value_text(epochs.value.amount)
    if phase.solver is None:
        yield f"phase {value_text(phase.name)}, epochs={length}{more} {{", _credit(phase.origin, [epochs])
    else:
        yield f"phase {value_text(phase.name)}{more} {{", str(phase.origin)
    yield from _called("    loss", phase.loss)
    if phase.solver is None:
        yield from _optimizer(phase.optimizer)
        yield from _called("    schedule", phase.schedule)
    for technique in phase.techniques:
        yield f"    {technique_text(technique)}", technique_origin(technique)
    yield from _fixed(phase, "    ")
    for override in phase.overrides:
        yield f"    override {override.hook}, {value_text(override.function)}", str(override.origin)
    yield "}", ""


def _fixed(part: Record, indent: str = "") -> Iterator[Line]:
    """The fixed statements of a part of the recipe, as far as it has them."""
    for name in fixed_statements(type(part)):
        if (one := getattr(part, name)) is not None:
            yield from _statement(f"{indent}{name}", one.statement)


def _optimizer(optimizer: Optimizer) -> Iterator[Line]:
    yield from _called("    optimizer", optimizer.invocation, ending=" {" if optimizer.groups else "")
    for group in optimizer.groups:
        settings = "".join(f", {setting.name}={_setting(setting, ())}" for setting in group.settings)
        yield f"        group {selector(group.layers.selector)}{settings}", _credit(group.origin, group.settings)
    if optimizer.groups:
        yield "    }", ""


def technique_text(technique: AnyTechnique) -> str:
    match technique:
        case Freeze(layers=layers, norms=norms):
            return f"freeze {selector(layers.selector)}, norms={_choice_or_value(norms, _CHOICE)}"
        case Unfreeze(layers=layers, at=at):
            return f"unfreeze {selector(layers.selector)}" + (f", at={value_text(at.value)}" if at else "")
        case Reinit(layers=layers, method=method):
            return f"reinit {selector(layers.selector)}, method={_choice_or_value(method, _CHOICE)}"
        case Technique(invocation=invocation):
            return f"{invocation.card.name} {', '.join(_arguments(invocation))}".rstrip()


def technique_origin(technique: AnyTechnique) -> str:
    return _origin(technique.invocation) if isinstance(technique, Technique) else str(technique.origin)


# -- statements over one line or several


def _called(
    name: str, invocation: Invocation, extra: Sequence[str] = (), ending: str = "", credit: str = ""
) -> Iterator[Line]:
    """A statement whose value is one call; if it is too long, each argument has a line and its own origin."""
    whole = f"{name} {call(invocation, extra)}{ending}"
    if len(whole) <= WIDTH:
        yield whole, credit or _origin(invocation)
        return
    indent = " " * (len(name) - len(name.lstrip()))
    yield f"{name} {invocation.card.name}(", str(invocation.origin)
    for text, setting in zip(_arguments(invocation), _shown(invocation), strict=True):
        yield f"{indent}    {text},", str(setting.origin)
    for text in extra:
        yield f"{indent}    {text},", ""
    yield f"{indent}){ending}", ""


def _stages(name: str, stages: Sequence[Invocation], origin: str, extra: Sequence[str] = ()) -> Iterator[Line]:
    """A statement whose value is a pipeline; if it is too long, each stage has a line and its own origin."""
    shown = _counted(stages)
    tail = "".join(f", {text}" for text in extra)
    whole = f"{name} {' -> '.join(text for text, _ in shown)}{tail}"
    origins = {str(stage.origin) for _, stage in shown}
    if len(whole) <= WIDTH and (len(origins) == 1 or len(shown) == 1):
        yield whole, origin
        return
    indent = " " * (len(name) - len(name.lstrip()) + 4)
    for at, (text, stage) in enumerate(shown):
        start = f"{name} " if at == 0 else f"{indent}-> "
        yield f"{start}{text}{tail if at == len(shown) - 1 else ''}", _origin(stage)


def _statement(name: str, invocation: Invocation) -> Iterator[Line]:
    """A statement with its own arguments, on several lines if they are too long."""
    line, indent = name, " " * (len(name) - len(name.lstrip()) + 4)
    origin = _origin(invocation)
    for at, text in enumerate(_arguments(invocation)):
        joined = f"{line} {text}" if at == 0 else f"{line}, {text}"
        if len(joined) > WIDTH and at > 0:
            yield f"{line},", origin
            line, origin = f"{indent}{text}", ""
        else:
            line = joined
    yield line, origin


# -- values


def call(invocation: Invocation, extra: Iterable[str] = ()) -> str:
    """`torch.AdamW(lr=3e-4)`."""
    return f"{invocation.card.name}({', '.join([*_arguments(invocation), *extra])})"


def _shown(invocation: Invocation) -> list[Setting]:
    """The settings worth printing: a default that says nothing, or belongs to a choice that was not made, is not."""
    conditions = [(p.name, p.only_if) for p in invocation.card.parameters if p.only_if is not None]
    idle = {name for name, only_if in conditions if not only_if.is_met_by(invocation.value(only_if.parameter))}
    if any(s.name in invocation.card.at_most_one_of and is_written(s.origin) for s in invocation.settings):
        idle |= set(invocation.card.at_most_one_of)
    silent = [s for s in invocation.settings if isinstance(s.origin, Default) and (s.value is None or s.name in idle)]
    return [s for s in invocation.settings if s not in silent]


def _arguments(invocation: Invocation) -> list[str]:
    """The settings as they would be written: required ones in their place, the others by keyword."""
    parameters = invocation.card.parameters
    is_lone = invocation.card.kind == "statement" and len(parameters) == 1  # `workers auto`
    texts: list[str] = []
    at = 0
    for setting in _shown(invocation):
        parameter = invocation.card.parameter(setting.name)
        if parameter is None:
            texts.append(f"{setting.name}={_setting(setting, ())}")
        elif parameter.variadic:
            texts.append(", ".join(value(item) for item in setting.value))
        elif parameters[at : at + 1] == (parameter,) and parameter.positional and (parameter.required or is_lone):
            texts.append(_setting(setting, parameter.types))
            at += 1
        else:
            texts.append(f"{setting.name}={_setting(setting, parameter.types)}")
    return texts


def _setting(setting: Setting, types: Sequence[str]) -> str:
    """A value; one that depends on an `arg` as written, since the value alone would hide it."""
    if setting.syntax is not None:
        return expression_text(setting.syntax)
    return _choice_or_value(setting.value, types)


def _choice_or_value(item: Any, types: Sequence[str]) -> str:
    if isinstance(item, str) and {"choice", "name", "statement"} & set(types):
        return item if item.replace(".", "").replace("_", "").isalnum() else value_text(item)
    if isinstance(item, tuple) and not {"transforms", "model"} & set(types):  # a list, also of calls, not a pipeline
        return "[" + ", ".join(value(part) for part in item) + "]"
    return value(item)


def value(item: Any) -> str:
    """Any value as it would be written."""
    match item:
        case Invocation():
            return call(item)
        case Selection():
            return selector(item.selector)
        case tuple() if item and all(isinstance(part, Invocation) for part in item):
            return " -> ".join(text for text, _ in _counted(item))
        case tuple():
            return "[" + ", ".join(value(part) for part in item) + "]"
    return value_text(item)


def _counted(stages: Sequence[Invocation]) -> list[tuple[str, Invocation]]:
    """The stages as text; the same one several times in a row is written once, with its number."""
    runs = [(text, list(run)) for text, run in groupby(stages, key=call)]
    return [(f"{text} * {len(run)}" if len(run) > 1 else text, run[-1]) for text, run in runs]


def selector(item: Selector, is_right: bool = False) -> str:
    """A selector as it would be written."""
    match item:
        case Word(word):
            return word
        case Layer(pattern):
            return value_text(pattern)
        case Stages(numbers):
            return f"stages({', '.join(map(value_text, numbers))})"
        case Share(end, Quantity(amount=count, unit="layers")):
            return f"{end}({value_text(count)})"
        case Share(end, amount):
            return f"{end}({value_text(amount)})"
        case OfType(type):
            return f"type({value_text(type)})"
        case Joined(left, right) | Without(left, right):
            operator = "+" if isinstance(item, Joined) else "-"
            text = f"{selector(left)} {operator} {selector(right, is_right=True)}"
            return f"({text})" if is_right else text


# -- origins


def _origin(invocation: Invocation) -> str:
    """Where a call and its arguments come from, each where it differs."""
    return _credit(invocation.origin, _shown(invocation), is_named=invocation.card.kind != "statement")


def _credit(origin: Origin, settings: Sequence[Setting], is_named: bool = True) -> str:
    """Where a statement comes from, then what of it comes from elsewhere.

    What names nothing of its own, as `train` does, comes from where its arguments do.
    """
    here = str(origin)
    elsewhere: dict[str, list[str]] = {}
    for setting in settings:
        is_plain = isinstance(origin, Default) and setting.origin == Default("")
        if str(setting.origin) != here and not is_plain:
            elsewhere.setdefault(str(setting.origin), []).append(setting.name)
    is_here = is_named or not settings or sum(map(len, elsewhere.values())) < len(settings)
    by_default = {str(s.origin): s.origin.reason for s in settings if isinstance(s.origin, Default)}
    defaults = [place for place in elsewhere if place in by_default]
    written = [place for place in elsewhere if place not in by_default]
    if not is_here and not written and len(defaults) == 1:
        return defaults[0]
    parts = [here] if is_here else []
    parts += [f"{both(elsewhere[place])} from {place}" for place in written]
    if len(defaults) > 1:  # what has a reason of its own is named
        reasoned = [place for place in defaults if by_default[place] and not by_default[place].startswith("of ")]
        parts += [f"{both(elsewhere[place])} by {place}" for place in reasoned]
        defaults = [place for place in defaults if place not in reasoned]
    rest = "its arguments" if parts == [here] and sum(map(len, elsewhere.values())) == len(settings) else "the rest"
    if defaults:
        parts.append(f"{rest} by {both(defaults)}")
    return ", ".join(parts)
