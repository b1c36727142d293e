"""Techniques of the user's: whether a program can make them and call their methods as it calls everybody's."""

from collections.abc import Sequence

from leaven.binding.scope import Scope
from leaven.catalog import lookup
from leaven.catalog.hooks import HOOKS
from leaven.catalog.values import Invocation, Origin, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span


def check_own_techniques(calls: Sequence[Invocation], scope: Scope) -> None:
    """Techniques of the user's: whether they can be called as a program calls them."""
    for call in calls:
        if call.card.kind != "user":
            continue
        place = _span(call.origin)
        definition = call.card.definition
        form, hooks = definition.form, definition.technique.hooks
        if form == "function" or (form == "class" and not hooks and not definition.bases):
            what = "a function" if form == "function" else "it has none of the methods that a program calls"
            scope.report(
                "wrong-value",
                f"`{call.card.name}` is no technique: {what}",
                Spot(place, "can't be used so"),
                fix=_nearest_hook(call) or "write a class with a method such as `on_batch(self, images, labels)`",
            )
            continue
        for hook, (least, most) in definition.hook_arguments.items():
            given = len(HOOKS[hook])
            if not least <= given <= most:
                written = ", ".join(("self", *HOOKS[hook]))
                scope.report(
                    "wrong-value",
                    f"`{hook}` of `{call.card.name}` can't be called with the {given} values that a program gives it",
                    Spot(place, "can't be called so"),
                    fix=f"write `def {hook}({written})`",
                )
        for other in definition.other_methods:
            near = lookup.nearest(other, tuple(HOOKS))
            if near and not other.startswith("_"):
                scope.warn(
                    "unused-name",
                    f"no program calls `{other}` of `{call.card.name}`",
                    Spot(place, "has such a method"),
                    fix=f"did you mean `{near[0]}`?",
                )
    _check_wants(calls, scope)


def _nearest_hook(call: Invocation) -> str:
    for other in call.card.definition.other_methods:
        near = lookup.nearest(other, tuple(HOOKS))
        if near:
            return f"`{other}`: did you mean `{near[0]}`?"
    return ""


def _check_wants(calls: Sequence[Invocation], scope: Scope) -> None:
    """A technique that prepares the model is made before there is anything to train it with."""
    for call in calls:
        early = [hook for hook in ("on_data", "on_model", "on_optimizer") if hook in call.card.technique.hooks]
        late = [name for name in ("criterion", "optimizer", "phase") if name in call.card.technique.wants]
        if early and late:
            scope.report(
                "contradiction",
                f"`{call.card.bare_name}` has `{early[0]}`, so it is made before the `{late[0]}` is that it asks for",
                Spot(_span(call.origin), f"asks for `{late[0]}`"),
                fix=f"take `{late[0]}` out of its constructor, or make two techniques of it",
            )


def _span(origin: Origin) -> Span:
    assert isinstance(origin, Written)
    return origin.span
