"""Models that teach: whether they are trained, there, and made for the same classes; and what they take of the loss."""

from collections.abc import Sequence
from pathlib import Path

from leaven.binding.files import is_readable, missing_file
from leaven.binding.scope import Scope
from leaven.catalog.layers import Layers
from leaven.catalog.lookup import nearest
from leaven.catalog.value_text import quoted, value_text
from leaven.catalog.values import FilePath, Invocation, Origin, Setting, Written
from leaven.formats.layer_names import is_named, is_under
from leaven.formats.run_folder import BUNDLE, newest
from leaven.formats.trained import Told, bundle_tells, safetensors_shapes
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import Span
from leaven.messages.describe import did_you_mean
from leaven.recipe.data import DataFacts
from leaven.recipe.modelling import is_model
from leaven.recipe.models import check_installed, library_layers

_ROUNDING = 1e-6


def check_teachers(calls: Sequence[Invocation], phases: Sequence[str], data: DataFacts, scope: Scope) -> None:
    """Every model that a technique learns from. `phases` are those up to its own."""
    _check_shares(calls, scope)
    for call in calls:
        for setting in call.settings:
            parameter = call.card.parameter(setting.name)
            if is_model(setting, call):
                _check_teacher(call, setting.value, phases, data, scope)
            elif isinstance(setting.value, tuple) and parameter is not None and "model" in parameter.types:
                _untrained(scope, "of components", _span(setting.origin), 'write `bundle("teacher.bundle")`')
        if call.card.technique.compares_features:
            _check_layers(call, scope)


def _check_teacher(call: Invocation, teacher: Invocation, phases: Sequence[str], data: DataFacts, scope: Scope) -> None:
    known = teacher.card.model
    if known.loads == "earlier_phase":
        _check_former(teacher, phases, scope)
        return
    is_for_outputs = not call.card.technique.compares_features
    if known.loads == "bundle":
        _check_bundle(teacher, is_for_outputs, data, scope)
        return
    weights = teacher.value("weights")
    if not teacher.value("pretrained") and weights is None:
        fix = 'give it some: `weights="teacher.bundle"`, or `pretrained=true`'
        _untrained(scope, teacher.card.bare_name, _span(teacher.origin), fix)
    if isinstance(weights, FilePath) and not is_readable(weights.place):
        missing_file(scope, weights, "the weights file")
    elif isinstance(weights, FilePath):
        _check_file(teacher, weights, data, scope)
    if not teacher.value("pretrained"):
        return
    if is_for_outputs and known.classes and _differ(known.classes, data):
        fix = 'give it the weights of a teacher for this data: `weights="teacher.bundle"`'
        _report_count(teacher, known.classes, data, scope, fix)
    else:
        check_installed(teacher.card, _span(teacher.origin), scope)


def _untrained(scope: Scope, name: str, place: Span, fix: str) -> None:
    headline = f"the teacher {name} has no trained weights"
    scope.report("untrained-teacher", headline, Spot(place, "it would teach noise"), fix=fix)


# -- shares of the loss


def _check_shares(calls: Sequence[Invocation], scope: Scope) -> None:
    """Teachers can't take more of the loss than there is."""
    shares = [call[call.card.technique.loss_share] for call in calls if call.card.technique.loss_share]
    if not all(isinstance(share.value, int | float) for share in shares):
        return
    total = sum(share.value for share in shares)
    if total <= 1 + _ROUNDING:
        return
    takers = [call for call in calls if call.card.technique.loss_share]
    scope.report(
        "contradiction",
        f"the teachers take {value_text(round(total, 6))} of the loss, and there is 1",
        *(
            Spot(_place(share, call), f"takes {value_text(share.value)}")
            for call, share in reversed(list(zip(takers, shares, strict=True)))
        ),
        notes=["what the teachers leave is the labels' share"],
        fix=f"give each a smaller `{shares[-1].name}`",
    )


# -- classes


def _check_bundle(teacher: Invocation, is_for_outputs: bool, data: DataFacts, scope: Scope) -> None:
    """A bundle alone: it says itself how it is built and what it tells apart."""
    file = teacher.value("file")
    if not isinstance(file, FilePath):
        return
    if not is_readable(file.place):
        missing_file(scope, file, "the bundle")
        return
    told = _told(file.place)
    if told is None:
        scope.report(
            "wrong-value",
            f"`{file.text}` is no bundle",
            Spot(file.span or _span(teacher.origin), "can't be read as one"),
            fix="a bundle is what a run writes as `model.bundle`; for other weights name the model: "
            f"`resnet18(weights={quoted(file.text)})`",
        )
        return
    if told.built_by.get("by") == "own" and not teacher.value("trust_code"):
        scope.report(
            "contradiction",
            f"the model in `{file.text}` is built by code of its maker's, which is not trusted",
            Spot(_span(teacher.origin), "`trust_code` is false"),
            fix=f"if you trust it, write `bundle({quoted(file.text)}, trust_code=true)`",
        )
    if is_for_outputs:
        _check_told(teacher, told, data, scope)


def _check_file(teacher: Invocation, weights: FilePath, data: DataFacts, scope: Scope) -> None:
    """Weights in a file: the model is built for the data's classes, so that the file must have them."""
    if (told := _told(weights.place)) is not None:
        _check_told(teacher, told, data, scope)
        return
    shapes = safetensors_shapes(weights.place)
    outputs = _outputs(shapes, library_layers(teacher, scope)) if shapes else None
    if outputs is None:
        place = Spot(weights.span or _span(teacher.origin), "compared with the data when it is read")
        scope.note("not-checked", f"the classes of `{weights.text}` are known only when it is loaded", place)
    elif _differ(outputs, data):
        _report_count(teacher, outputs, data, scope, "give it the weights of a teacher for this data")


def _told(place: Path) -> Told | None:
    return bundle_tells(newest(place, BUNDLE) or place)


def _outputs(shapes: dict[str, tuple[int, ...]], layers: Layers | None) -> int | None:
    """How many outputs weights have, by the names that the model's own head has."""
    for parameter in layers.parameters if layers is not None else ():
        if layers is not None and is_under(parameter.module_path, layers.head):
            for name, shape in shapes.items():
                if shape and (name == parameter.name or name.endswith(f".{parameter.name}")):
                    return shape[0]
    return None


def _check_told(teacher: Invocation, told: Told, data: DataFacts, scope: Scope) -> None:
    """The classes that a bundle names, against those of the data: as many, the same, in the same order."""
    if _differ(len(told.classes), data):
        _report_count(teacher, len(told.classes), data, scope, "give it the weights of a teacher for this data")
        return
    pairs = zip(told.classes, data.names, strict=False)
    difference = next(((at, *pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1]), None)
    if difference is None:
        return
    at, theirs, ours = difference
    in_another_order = sorted(told.classes) == sorted(data.names)
    scope.report(
        "unequal-classes",
        f"class {at} of the teacher is `{theirs}`, and of the data `{ours}`",
        Spot(_span(teacher.origin), "it would teach other classes"),
        notes=["the names are the same, in another order"] if in_another_order else [],
        fix="give the weights of a teacher that was trained on data with these classes, in this order",
    )


def _differ(outputs: int, data: DataFacts) -> bool:
    return bool(outputs and data.classes and outputs != data.classes)


def _report_count(teacher: Invocation, outputs: int, data: DataFacts, scope: Scope, fix: str) -> None:
    scope.report(
        "class-count",
        f"the teacher {teacher.card.bare_name} has {outputs} outputs, and the data has {data.classes} classes",
        Spot(_span(teacher.origin), "a teacher keeps its head"),
        fix=fix,
    )


# -- layers


def _check_layers(call: Invocation, scope: Scope) -> None:
    """The layers that are compared: there, and as many on both sides."""
    ours, theirs = call["layers"], call["teacher_layers"]
    teacher = call.value("teacher")
    if isinstance(ours.value, tuple) and scope.layers is not None:
        _check_names(ours, scope.layers, scope.model_name, scope)
    if isinstance(theirs.value, tuple) and isinstance(teacher, Invocation) and teacher.card.kind == "model":
        if teacher.card.model.loads == "earlier_phase":
            known = scope.layers
        else:
            known = None if teacher.card.model.loads == "bundle" else library_layers(teacher, scope)
        if known is not None:
            _check_names(theirs, known, teacher.card.bare_name, scope)
    if not isinstance(ours.value, tuple) or not isinstance(theirs.value, tuple):
        return
    names = [*ours.value, *theirs.value]
    if len(ours.value) != len(theirs.value) and not any("*" in str(name) or "[" in str(name) for name in names):
        scope.report(
            "contradiction",
            f"`layers` names {len(ours.value)}, and `teacher_layers` {len(theirs.value)}",
            Spot(_span(theirs.origin), "compared with one another in turn"),
            Spot(_span(ours.origin), "with these"),
            fix="name as many on both sides",
        )


def _check_names(setting: Setting, layers: Layers, model: str, scope: Scope) -> None:
    paths = [module.path for module in layers.modules if module.path]
    for name in setting.value:
        if not isinstance(name, str) or any(is_named(path, name) for path in paths):
            continue
        near = scope.nearest(name, paths)
        place = _within(_span(setting.origin), quoted(name))
        scope.report(
            "unknown-layer",
            f"{model} has no layer named `{name}`",
            Spot(place, "no layer matches"),
            fix=Fix(did_you_mean([quoted(path) for path in near]), Edit(place, quoted(near[0]))) if near else None,
        )


def _within(span: Span, text: str) -> Span:
    """Where a piece of text stands; the whole stretch where it is not written there, but in a `let`."""
    at = span.text.find(text)
    return span if at < 0 else span.source.span(span.start + at, span.start + at + len(text))


# -- former selves


def _check_former(teacher: Invocation, phases: Sequence[str], scope: Scope) -> None:
    """A model's former self is that of a phase that has begun."""
    phase = teacher.setting("phase")
    if phase is None or phase.value is None or phase.value in phases or not isinstance(phase.value, str):
        return
    near = nearest(phase.value, phases)
    scope.report(
        "unknown-phase",
        f'no phase up to this one is called "{phase.value}"',
        Spot(_span(phase.origin), "not begun yet, or not there"),
        fix=Fix(did_you_mean([quoted(name) for name in near]), Edit(_span(phase.origin), quoted(near[0])))
        if near
        else f"name one of {', '.join(quoted(name) for name in phases)}",
    )


def _span(origin: Origin) -> Span:
    assert isinstance(origin, Written)
    return origin.span


def _place(setting: Setting, call: Invocation) -> Span:
    return setting.origin.span if isinstance(setting.origin, Written) else _span(call.origin)
