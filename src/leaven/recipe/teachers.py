"""Models that teach: whether they are trained, there, and made for the same classes."""

from collections.abc import Sequence

from leaven.catalog.lookup import nearest
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import Span
from leaven.recipe import files
from leaven.recipe.data import DataFacts
from leaven.recipe.models import check_installed
from leaven.recipe.nouns import did_you_mean, quoted
from leaven.recipe.recipe import FilePath, Invocation, Origin, Written
from leaven.recipe.scope import Scope


def check_teachers(calls: Sequence[Invocation], phases: Sequence[str], data: DataFacts, scope: Scope) -> None:
    """Every model that a technique learns from. `phases` are those up to its own."""
    for call in calls:
        for setting in call.settings:
            teacher = setting.value
            if not isinstance(teacher, Invocation) or teacher.card.kind not in ("model", "user"):
                continue
            if teacher.card.facts.get("former_self"):
                _check_former(teacher, phases, scope)
                continue
            if not teacher.value("pretrained") and teacher.value("weights") is None:
                scope.report(
                    "untrained-teacher",
                    f"the teacher {teacher.card.bare_name} has no trained weights",
                    Spot(_span(teacher.origin), "it would teach noise"),
                    fix='give it some: `weights="teacher.bundle"`, or `pretrained=true`',
                )
            weights = teacher.value("weights")
            if isinstance(weights, FilePath) and not files.is_there(weights.place):
                files.missing_file(scope, weights, "the weights file")
            outputs = teacher.card.facts.get("classes")
            if not teacher.value("pretrained"):
                continue
            if not outputs or not data.classes or outputs == data.classes:
                check_installed(teacher.card, _span(teacher.origin), scope)
                continue
            scope.report(
                "class-count",
                f"the teacher {teacher.card.bare_name} has {outputs} outputs, and the data has {data.classes} classes",
                Spot(_span(teacher.origin), "a teacher keeps its head"),
                fix='give it the weights of a teacher for this data: `weights="teacher.bundle"`',
            )


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
