"""Facts about a model before it is built: its input, its classes, its layers."""

import os.path  # unlike pathlib's, its functions accept any string
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leaven.binding.files import is_readable, report_missing
from leaven.binding.scope import Scope
from leaven.catalog import layers as layer_facts
from leaven.catalog import lookup
from leaven.catalog.card import Card
from leaven.catalog.layers import Layers
from leaven.catalog.traits import ModelTraits
from leaven.catalog.values import FilePath, FromData, Invocation, Origin, Written
from leaven.formats.text_models import is_generative, labels_of
from leaven.formats.trained import bundle_facts
from leaven.language.diagnostics import Diagnostic
from leaven.language.record import Record
from leaven.language.source import Span
from leaven.messages import models as messages
from leaven.messages.places import setting_span, span_of
from leaven.recipe.data import DataFacts
from leaven.recipe.pipeline_shapes import check_shapes
from leaven.recipe.recipe import BACKBONE, Model, NewHead
from leaven.recipe.task import task_of_library
from leaven.recipe.text_model import configuration, longest_text


class ModelFacts(Record):
    """Facts about a model. `classes` are those it was published with."""

    name: str
    task: str = "image-classification"
    classes: int | None = None
    channels: int | None = None
    size: tuple[int, int] | None = None
    smallest: int = 1
    is_size_fixed: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    published: ModelTraits = ModelTraits()  # how images are resized and cropped, where `input_size` is known
    size_origin: Origin | None = None  # where the recipe says `size`
    layers: Layers | None = None
    arguments: frozenset[str] = frozenset()  # that the model takes
    kept: Span | None = None  # where the recipe keeps the head
    request: Mapping[str, Any] | None = None  # with which its layers were asked for
    longest: int | None = None  # text that it takes, in tokens
    labels: tuple[str, ...] | None = None  # of the outputs of a text model's trained head; empty without one


def describe_model(model: Model, chosen: Invocation, data: DataFacts, scope: Scope, run_code: bool) -> ModelFacts:
    """The facts of a model; missing weights and an unknown head are reported."""
    if isinstance(model.source, Invocation) and model.source.card.model.loads in ("bundle", "earlier_phase"):
        file = model.source.value("file")
        bundle = bundle_facts(file.place) if isinstance(file, FilePath) else None
        scope.add(messages.only_a_teacher(model.source, bundle.built_by if bundle is not None else None))
        return ModelFacts("the model")
    _check_weights(model, chosen, scope)
    if isinstance(model.source, tuple):
        check_shapes(model.source, data, scope)
        return _pipeline(model.source, data)
    card = model.source.card
    if card.kind == "user":
        return _own_model(model, model.source, chosen, scope, run_code)
    known = card.model
    size = known.input_size
    setting = model.source.setting("img_size") or model.source.setting("image_size")
    side = setting.value if setting is not None and setting.span else None
    asked = (side, side) if isinstance(side, int) else (side[0], side[1]) if isinstance(side, tuple) else None
    channels = model.source.value("in_chans") or (size[0] if size else None)
    described = ModelFacts(
        name=card.bare_name,
        task=known.task,
        classes=known.classes,
        channels=channels,
        size=asked or (size[1:] if size else None),
        smallest=known.smallest_input,
        is_size_fixed=known.has_fixed_input_size,
        mean=_per_channel(known.mean, channels),
        std=_per_channel(known.std, channels),
        published=known,
        arguments=frozenset(parameter.name for parameter in card.parameters),
        kept=setting_span(head, chosen) if (head := chosen.setting("head")) else None,
    )
    is_backbone = data.is_known and data.task.takes_backbone(card)
    if data.is_known and not is_backbone and not data.task.takes_model_for(known.task):
        scope.add(_other_task(model.source, data))
        return described
    request = _library_request(model.source)
    request["arguments"].pop(BACKBONE, None)  # layers are listed without weights
    if data.task.traits.extra_outputs and data.outputs is not None and isinstance(model.head, NewHead):
        request["arguments"]["num_classes"] = data.outputs + data.task.traits.extra_outputs
    if is_backbone:
        request["fitted"] = data.task.path_of(data.task.traits.fits_backbone)
    elif model.pretrained and "aux_loss" in described.arguments:
        request["arguments"]["aux_loss"] = True  # published weights are of a model with auxiliary outputs
    described = _with_layers(described, model.source, request, scope)
    if described.layers is not None and not described.layers.head and model.head == NewHead(None):
        scope.add(messages.no_head(model.source))
    return described


def _other_task(source: Invocation, data: DataFacts) -> Diagnostic:
    """The report that a model was made for another task; perhaps an argument of the data asks for that one."""
    title = task_of_library(source.card.model.task).title.replace("-", " ")
    usual = {"image": "resnet18", "text": "minilm"}.get(data.task.input)
    example = data.task.traits.example or usual
    asked = next((name for name, task in data.by_argument.items() if task == source.card.model.task), None)
    return messages.for_other_task(source, title, data.task.title, example, asked)


def _per_channel(published: Sequence[float], channels: Any) -> tuple[float, ...]:
    """A number for each channel; for another number of channels than published, the mean for each."""
    if not published or not isinstance(channels, int) or channels == len(published):
        return tuple(published)
    return (round(sum(published) / len(published), 4),) * channels


def _check_weights(model: Model, chosen: Invocation, scope: Scope) -> None:
    pretrained, weights = chosen.setting("pretrained"), chosen.setting("weights")
    if model.pretrained and model.weights is not None and pretrained and weights:
        scope.add(messages.two_sources(chosen, pretrained, weights))
    if isinstance(model.weights, FilePath) and not is_readable(model.weights.place):
        report_missing(scope, model.weights, "the weights file")
    elif isinstance(model.weights, FilePath) and os.path.isdir(model.weights.place):
        scope.add(messages.folder_of_weights(model.weights))
    source = model.source if isinstance(model.source, Invocation) else None
    card = source.card if source is not None else None
    if (
        source is not None and model.traits.loads == "transformers" and not model.pretrained
    ):  # its tokenizer is there, too
        scope.diagnostics += missing_weights(source.card, span_of(source.origin))
    if not model.pretrained or pretrained is None:
        return
    place = setting_span(pretrained, chosen)
    if card is None or card.kind != "model" or not card.model.has_weights:
        is_in_library = card is not None and card.kind == "user" and bool(lookup.find("model", card.bare_name))
        scope.add(messages.not_published(card, place, is_in_library))
    else:
        scope.diagnostics += missing_weights(card, place)


def are_weights_installed(card: Card) -> bool:
    """Whether published weights that come as a package are on Python's path; others are downloaded when needed."""
    package = card.model.weights_package
    return package is None or any(os.path.isfile(os.path.join(folder, package.file)) for folder in sys.path)


def missing_weights(card: Card, place: Span) -> Iterator[Diagnostic]:
    """The report that published weights come as a package that is not installed, if so."""
    package = card.model.weights_package
    if package is not None and not are_weights_installed(card):
        yield messages.not_installed(card, package.name, place)


def _own_model(model: Model, source: Invocation, chosen: Invocation, scope: Scope, run_code: bool) -> ModelFacts:
    """A model in user code: its layers are known only when its code runs."""
    card = source.card
    outputs = card.outputs_parameter
    if isinstance(model.head, NewHead) and model.head.path is None and outputs is None and not card.open_ended:
        needed = f"{scope.outputs or 'the'} {'classes' if scope.has_classes else 'outputs'}"
        scope.add(messages.unknown_head(source, needed))
    default = outputs.default if outputs is not None else None
    described = ModelFacts(card.name, classes=default if isinstance(default, int) else None)
    if not run_code:
        label = "`leaven check --run-code` builds it"
        scope.add(messages.layers_not_checked(source, "are known only when its code runs", label))
        return described
    alias, _, name = card.name.partition(".")
    file, arguments = scope.modules[alias].module.place, _plain_arguments(source, scope.outputs)
    described = _with_layers(described, source, {"file": str(file), "name": name, "arguments": arguments}, scope)
    layers, path = described.layers, model.head.path if isinstance(model.head, NewHead) else None
    if layers is None or path is None:
        return described
    paths = [module.path for module in layers.modules if module.path]
    if path in paths:
        return replace(described, layers=replace(layers, head=(path,)))
    span = setting_span(chosen["head"], chosen)
    scope.add(messages.no_such_head(span, path, card.name, lookup.nearest(path, paths)))
    return described


def _with_layers(described: ModelFacts, source: Invocation, request: dict[str, Any], scope: Scope) -> ModelFacts:
    if source.card.model.loads == "transformers":
        config = configuration(source)
        if config is None:
            if source.card.model.weights_package is None:  # whose absence is reported
                label = "selectors were not checked"
                scope.add(messages.layers_not_checked(source, "are known only when it is loaded", label))
            return described
        if is_generative(config):
            scope.add(messages.generates_text(source, config.get("architectures") or [config["model_type"]]))
            return described
        described = replace(described, longest=longest_text(source, config), labels=labels_of(config))
        request = {"text_config": config, "pooling": source.card.model.pooling, "arguments": _plain_arguments(source)}
        request["arguments"].pop("name", None)
    answer = layer_facts.ask(request)
    if answer is None or answer.is_unanswered:
        reason = f": {answer.error}" if answer is not None else ""
        scope.add(messages.layers_not_checked(source, f"could not be listed on this machine{reason}"))
        return described
    if answer.error:
        scope.add(messages.cant_be_built(source, answer.error))
        return described
    if answer.lazy:
        scope.add(messages.lazy_layers(source, answer.lazy))
        return described
    return replace(described, layers=answer, request=request)


def head_labels(source: Invocation) -> tuple[str, ...] | None:
    """The labels of a text model's trained head, empty without one; None where they are not known."""
    config = configuration(source) if source.card.model.loads == "transformers" else None
    return labels_of(config) if config is not None else None


def _library_request(source: Invocation) -> dict[str, Any]:
    timm_name = source.card.model.timm_name or None
    return {"target": source.card.target, "timm_name": timm_name, "arguments": _plain_arguments(source)}


def library_layers(teacher: Invocation) -> Layers | None:
    """The layers of a library's model that is used as a teacher; None where unknown."""
    if teacher.card.kind != "model" or teacher.card.model.loads == "transformers":
        return None
    own = ("pretrained", "weights", "head")
    source = replace(teacher, settings=tuple(s for s in teacher.settings if s.name not in own))
    answer = layer_facts.ask(_library_request(source))
    return None if answer is None or answer.error else answer


def takes_size(facts: ModelFacts, size: tuple[int, int]) -> bool:
    """Whether images smaller than usual pass through the model, as far as a trial on the meta device tells.

    A model that takes a size takes larger ones, so the next lower power of two is tried first: each trial runs in a
    subprocess, and its answer is cached.
    """
    if facts.request is None or facts.layers is None or not facts.layers.is_forward_order:
        return True
    if facts.size is not None and min(size) >= max(facts.size):
        return True
    power = 1 << (min(size).bit_length() - 1)
    for tried in dict.fromkeys(((power, power), size)):
        answer = layer_facts.ask({**facts.request, "input_size": list(tried)})
        if answer is None or answer.error or answer.is_forward_order:
            return True
    return False


def layers_at(size: tuple[int, int], model: Model, facts: ModelFacts, data: DataFacts) -> Layers | None:
    """The layers with the shapes and costs for images of a size; None where a trial does not tell."""
    if isinstance(model.source, tuple):
        answer = _pipeline(model.source, data, size).layers
    else:
        answer = layer_facts.ask({**facts.request, "input_size": list(size)}) if facts.request is not None else None
    return answer if answer is not None and answer.trial_size is not None else None


def _plain_arguments(source: Invocation, classes: int | None = None) -> dict[str, Any]:
    """The written arguments that can be passed to another process."""
    arguments: dict[str, Any] = {}
    for setting in source.settings:
        value = setting.value
        if isinstance(value, FromData):
            value = value.number
        if isinstance(value, FilePath):
            value = str(value.place)
        if isinstance(setting.origin, Written) and isinstance(value, int | float | str | bool | tuple):
            arguments[setting.name] = list(value) if isinstance(value, tuple) else value
    from_data = source.card.outputs_parameter if source.card.kind == "user" else None
    if from_data is not None:
        arguments.setdefault(from_data.name, classes or 10)
    return arguments


def _pipeline(stages: tuple[Invocation, ...], data: DataFacts, size: tuple[int, int] | None = None) -> ModelFacts:
    """A pipeline of components; its layers are listed where all of them are Leaven's."""
    described = ModelFacts("the model")
    if any(stage.card.kind == "user" for stage in stages):
        return described
    outputs = data.outputs or 10
    arguments = [
        {s.name: s.value.number or outputs if isinstance(s.value, FromData) else s.value for s in stage.settings}
        for stage in stages
    ]
    targets = [stage.card.target for stage in stages]
    request = {"pipeline": list(zip(targets, arguments, strict=True)), "channels": data.channels or 3}
    if size is not None:
        request["input_size"] = list(size)
    try:
        answer = layer_facts.ask(request)
    except TypeError:  # a setting that only running can tell
        return described
    return described if answer is None or answer.error else replace(described, layers=answer)
