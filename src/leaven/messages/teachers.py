"""Reports about the teachers of distillation."""

from collections.abc import Sequence

from leaven.catalog.value_text import quoted, value_text
from leaven.catalog.values import FilePath, Invocation, Setting
from leaven.language.diagnostics import Diagnostic, error, note
from leaven.language.source import Span
from leaven.messages.places import setting_span, span_of, written_in
from leaven.messages.suggestions import similar

FOR_THIS_DATA = "load the weights of a teacher trained on this data"


def untrained(name: str, place: Span, fix: str) -> Diagnostic:
    headline = f"{name} has no trained weights"
    return error("untrained-teacher", headline, (place, "its outputs would be noise"), fix=fix)


def weights_above_one(calls: Sequence[Invocation], weights: Sequence[Setting], total: float) -> Diagnostic:
    headline = f"the weights of the teachers add up to {value_text(total)}, more than 1"
    last_first = reversed(list(zip(calls, weights, strict=True)))
    spots = ((setting_span(weight, call), f"weight {value_text(weight.value)}") for call, weight in last_first)
    notes = ["the loss on the labels gets the rest, up to 1"]
    return error("teacher-weights", headline, *spots, notes=notes, fix=f"give each a smaller `{weights[-1].name}`")


def not_a_bundle(teacher: Invocation, file: FilePath) -> Diagnostic:
    other = f"for other weights, name the model: `resnet18(weights={quoted(file.text)})`"
    fix = f"a bundle is what a run writes as `model.bundle`; {other}"
    place = (file.span or teacher.span, "can't be read as a bundle")
    return error("wrong-value", f"`{file.text}` is not a bundle", place, fix=fix)


def untrusted_code(teacher: Invocation, file: FilePath) -> Diagnostic:
    headline = f"the model in `{file.text}` is built by code inside the bundle, which is not trusted"
    fix = f"if you trust it: `bundle({quoted(file.text)}, trust_code=true)`"
    return error("untrusted-code", headline, (teacher, "`trust_code` is false"), fix=fix)


def classes_not_checked(teacher: Invocation, weights: FilePath) -> Diagnostic:
    place = (weights.span or teacher.span, "compared with the data when it is loaded")
    headline = f"the classes of `{weights.text}` are known only when it is loaded"
    return note("not-checked", headline, place)


def class_count(teacher: Invocation, outputs: int, classes: int | None, fix: str = FOR_THIS_DATA) -> Diagnostic:
    headline = f"the teacher {teacher.card.bare_name} has {outputs} outputs, but the data has {classes} classes"
    return error("class-count", headline, (teacher, "a teacher keeps its head"), fix=fix)


def unequal_classes(teacher: Invocation, number: int, theirs: str, ours: str, is_reordered: bool) -> Diagnostic:
    headline = f"class {number} of the teacher is `{theirs}`, but class {number} of the data is `{ours}`"
    notes = ["the names are the same, in another order"] if is_reordered else []
    fix = "load the weights of a teacher trained on these classes, in this order"
    return error("unequal-classes", headline, (teacher, "was trained on other classes"), notes=notes, fix=fix)


def unequal_layers(ours: Setting, theirs: Setting) -> Diagnostic:
    count = len(ours.value)
    entries = "1 entry" if count == 1 else f"{count} entries"
    headline = f"`layers` has {entries}, but `teacher_layers` has {len(theirs.value)}"
    fix = "name the same number of layers in both"
    return error("unequal-layers", headline, (theirs, "compared one by one"), (ours, "with these"), fix=fix)


def unknown_layer(setting: Setting, name: str, model: str, near: Sequence[str]) -> Diagnostic:
    place = span_of(setting.origin)
    place = written_in(name, place) or place
    headline = f"{model} has no layer named `{name}`"
    fix = similar(place, [quoted(path) for path in near])
    return error("unknown-layer", headline, (place, "no layer matches"), fix=fix)


def unknown_phase(phase: Setting, phases: Sequence[str], near: Sequence[str]) -> Diagnostic:
    place = span_of(phase.origin)
    headline = f'unknown phase "{phase.value}"'
    fix = similar(place, [quoted(name) for name in near]) or f"name one of {', '.join(map(quoted, phases))}"
    return error("unknown-phase", headline, (place, "not this phase or an earlier one"), fix=fix)
