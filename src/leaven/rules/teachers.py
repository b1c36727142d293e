"""Teachers of distillation: trained, readable, with the same classes; and their weight in the loss."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from leaven.binding.files import is_readable, missing_file
from leaven.catalog.layers import Layers
from leaven.catalog.lookup import nearest
from leaven.catalog.values import FilePath, Invocation, Setting
from leaven.formats.class_names import outputs_called, published_classes, published_set, words_of
from leaven.formats.layer_names import is_glob, is_named, is_under
from leaven.formats.trained import bundle_facts, is_built_by_code, safetensors_shapes
from leaven.language.diagnostics import Diagnostic
from leaven.messages import teachers as messages
from leaven.messages.places import span_of
from leaven.recipe.data import DataFacts
from leaven.recipe.model_facts import head_labels, library_layers, missing_weights
from leaven.recipe.model_statement import is_model, kept_classes
from leaven.recipe.reader import Draft

_ROUNDING = 1e-6


def check(draft: Draft) -> Iterator[Diagnostic]:
    """Every model that a technique learns from."""
    phases: list[str] = []  # this one and those before it
    data = _as_matched(draft)
    for phase in draft.phases:
        phases.append(phase.name)
        yield from _weights(phase.calls)
        for call in phase.calls:
            for setting in call.settings:
                parameter = call.card.parameter(setting.name)
                if is_model(setting, call):
                    yield from _teacher(call, setting.value, phases, data)
                elif isinstance(setting.value, tuple) and parameter is not None and "model" in parameter.types:
                    fix = 'for example, `bundle("teacher.bundle")`'
                    yield messages.untrained("the teacher, a pipeline of components,", span_of(setting.origin), fix)
            if call.card.technique.compares_features:
                yield from _layers(call, draft)


def _as_matched(draft: Draft) -> DataFacts:
    """The data as the program gives it to the models: with a published head, its classes are those of that head."""
    classes = kept_classes(draft.model, draft.data.task)
    if classes is None:
        return draft.data_facts
    names = published_classes(classes).names
    return replace(draft.data_facts, outputs=len(names), names=names)


def _teacher(call: Invocation, teacher: Invocation, phases: Sequence[str], data: DataFacts) -> Iterator[Diagnostic]:
    known = teacher.card.model
    matches_outputs = not call.card.technique.compares_features
    if known.loads == "earlier_phase":
        phase = teacher.setting("phase")
        if phase is not None and isinstance(phase.value, str) and phase.value not in phases:
            yield messages.unknown_phase(phase, phases, nearest(phase.value, phases))
        return
    if known.loads == "bundle":
        yield from _bundle(teacher, matches_outputs, data)
        return
    weights, is_pretrained = teacher.value("weights"), bool(teacher.value("pretrained"))
    if not is_pretrained and weights is None:
        fix = 'add `pretrained=true` or `weights="teacher.bundle"`'
        yield messages.untrained(f"the teacher {teacher.card.bare_name}", span_of(teacher.origin), fix)
    if isinstance(weights, FilePath) and is_readable(weights.place):
        yield from _file(teacher, weights, data)
    elif isinstance(weights, FilePath):
        yield missing_file(weights, "the weights file")
    if is_pretrained and matches_outputs and _differ(known.classes or 0, data):
        fix = f'{messages.FOR_THIS_DATA}: `weights="teacher.bundle"`'
        yield messages.class_count(teacher, known.classes or 0, data.outputs, fix)
    elif is_pretrained:
        yield from missing_weights(teacher.card, span_of(teacher.origin))
        labels = head_labels(teacher) if matches_outputs else None
        if matches_outputs and (classes := published_set(known.classes)) is not None:
            published = published_classes(classes)
            words = words_of(*published) if data.names and data.names != published.names else {}
            yield from _compared(
                teacher, published.names, data, lambda at, _, ours: ours == str(at) or at in outputs_called(ours, words)
            )
        elif labels:
            yield from _compared(teacher, labels, data, lambda at, theirs, _: theirs == str(at))
        elif labels is not None:
            name = f"the head of the teacher {teacher.card.bare_name}"
            yield messages.untrained(name, span_of(teacher.origin), messages.FOR_THIS_DATA)


def _compared(
    teacher: Invocation,
    names: Sequence[str],
    data: DataFacts,
    is_same: Callable[[int, str, str], bool] = lambda at, theirs, ours: False,
) -> Iterator[Diagnostic]:
    """The classes of a teacher against those of the data: as many, the same, in the same order."""
    if _differ(len(names), data):
        yield messages.class_count(teacher, len(names), data.outputs)
        return
    for at, (theirs, ours) in enumerate(zip(names, data.names, strict=False)):
        if theirs != ours and not is_same(at, theirs, ours):
            is_reordered = sorted(names) == sorted(data.names)
            yield messages.unequal_classes(teacher, at + 1, theirs, ours, is_reordered)
            return


def _weights(calls: Sequence[Invocation]) -> Iterator[Diagnostic]:
    """The weights of all teachers in the loss are at most 1 together."""
    teaching = [call for call in calls if call.card.technique.loss_share]
    weights = [call[call.card.technique.loss_share] for call in teaching]
    if all(isinstance(weight.value, int | float) for weight in weights):
        total = sum(weight.value for weight in weights)
        if total > 1 + _ROUNDING:
            yield messages.weights_above_one(teaching, weights, round(total, 6))


def _bundle(teacher: Invocation, matches_outputs: bool, data: DataFacts) -> Iterator[Diagnostic]:
    """A bundle says itself how it is built and which classes it has."""
    file = teacher.value("file")
    if not isinstance(file, FilePath):
        return
    if not is_readable(file.place):
        yield missing_file(file, "the bundle")
        return
    bundle = bundle_facts(file.place)
    if bundle is None:
        yield messages.not_a_bundle(teacher, file)
        return
    if is_built_by_code(bundle.built_by) and not teacher.value("trust_code"):
        yield messages.untrusted_code(teacher, file)
    if matches_outputs:
        yield from _compared(teacher, bundle.classes, data)


def _file(teacher: Invocation, weights: FilePath, data: DataFacts) -> Iterator[Diagnostic]:
    """Weights in a file: the teacher is built for the data's classes, so the file must have them."""
    if (bundle := bundle_facts(weights.place)) is not None:
        yield from _compared(teacher, bundle.classes, data)
        return
    shapes = safetensors_shapes(weights.place)
    outputs = _outputs(shapes, library_layers(teacher)) if shapes else None
    if outputs is None:
        yield messages.classes_not_checked(teacher, weights)
    elif _differ(outputs, data):
        yield messages.class_count(teacher, outputs, data.outputs)


def _outputs(shapes: dict[str, tuple[int, ...]], layers: Layers | None) -> int | None:
    """How many outputs weights have, by the names of the model's own head."""
    if layers is None:
        return None
    heads = [p.name for p in layers.parameters if is_under(p.module_path, layers.head)]
    counts = (shape[0] for head in heads for name, shape in shapes.items() if shape and f".{name}".endswith(f".{head}"))
    return next(counts, None)


def _differ(outputs: int, data: DataFacts) -> bool:
    return bool(outputs and data.outputs and outputs != data.outputs)


def _layers(call: Invocation, draft: Draft) -> Iterator[Diagnostic]:
    """The layers that are compared exist, and are as many in both models."""
    ours, theirs = call["layers"], call["teacher_layers"]
    if isinstance(ours.value, tuple) and draft.model.layers is not None:
        yield from _names(ours, draft.model.layers, draft.model_facts.name)
    teacher = call.value("teacher")
    if isinstance(theirs.value, tuple) and isinstance(teacher, Invocation) and teacher.card.kind == "model":
        loads = teacher.card.model.loads
        known = (
            draft.model.layers if loads == "earlier_phase" else library_layers(teacher) if loads != "bundle" else None
        )
        if known is not None:
            yield from _names(theirs, known, teacher.card.bare_name)
    if not isinstance(ours.value, tuple) or not isinstance(theirs.value, tuple):
        return
    names = [*ours.value, *theirs.value]
    if len(ours.value) != len(theirs.value) and not any(is_glob(str(name)) for name in names):
        yield messages.unequal_layers(ours, theirs)


def _names(setting: Setting, layers: Layers, model: str) -> Iterator[Diagnostic]:
    paths = [module.path for module in layers.modules if module.path]
    for name in setting.value:
        if isinstance(name, str) and not any(is_named(path, name) for path in paths):
            yield messages.unknown_layer(setting, name, model, nearest(name, paths))
