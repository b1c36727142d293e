"""Arguments meet parameters: which value was written for which parameter of a card.

Decides names, order and number only; what a value means is left to `resolve.py`.
"""

from collections.abc import Sequence

from leaven.catalog import lookup, own
from leaven.catalog.card import Card, Parameter
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import Span
from leaven.recipe import nouns
from leaven.recipe.recipe import Setting, Written
from leaven.recipe.scope import Scope

# How several values of one kind become one.
_JOINTS = {"selector": ("+", "layers"), "transforms": ("->", "steps")}


def match_arguments(
    card: Card,
    arguments: Sequence[syntax.Argument],
    available: Sequence[Parameter],
    name_span: Span,
    scope: Scope,
) -> tuple[dict[str, list[syntax.Value]], bool]:
    """Which values were written for which parameter, and whether all of that is right."""
    positional = [parameter for parameter in available if parameter.positional]
    by_name = {parameter.name: parameter for parameter in available}
    given: dict[str, list[syntax.Value]] = {}
    places: dict[str, Span] = {}
    failed = False
    keyword_seen: Span | None = None
    is_misplaced = False
    at = 0
    for index, argument in enumerate(arguments):
        if argument.keyword is None:
            if is_misplaced:
                continue  # once is enough: the others have the same reason
            if keyword_seen is not None:
                failed = is_misplaced = _misplaced(scope, index, keyword_seen, arguments)
            elif at >= len(positional):
                failed = is_misplaced = _too_many(
                    scope, card, argument, arguments[index - 1] if index else None, positional, name_span
                )
            else:
                parameter = positional[at]
                given.setdefault(parameter.name, []).append(argument.value)
                places.setdefault(parameter.name, argument.span)
                at += not parameter.variadic
            continue
        keyword_seen = argument.span
        name = argument.keyword.path
        if name not in by_name and not card.open_ended:
            failed |= _unknown_argument(scope, card, argument.keyword, available, name_span)
        elif name in given:
            scope.report(
                "repeated-argument",
                f"`{name}` is given twice",
                Spot(argument.keyword.span, "again here"),
                Spot(places[name], "first here"),
                fix="keep one of them",
            )
            failed = True
        else:
            given[name] = [argument.value]
            places[name] = argument.span
    missing = [p.name for p in available if p.required and p.name not in given]
    if missing and not failed:
        listed = ", ".join(f"`{name}`" for name in missing)
        scope.report(
            "missing-argument",
            f"`{nouns.called(card, name_span)}` needs {listed}",
            Spot(name_span, f"{listed} {'is' if len(missing) == 1 else 'are'} missing"),
            fix=f"the form is `{nouns.form(card, available, name_span)}`",
        )
        failed = True
    return given, not failed


def _misplaced(scope: Scope, index: int, keyword: Span, arguments: Sequence[syntax.Argument]) -> bool:
    argument, before = arguments[index], arguments[index - 1].value
    if _is_decimal_comma(before, argument.value):
        whole = before.span.to(argument.span)
        point = whole.text.replace(",", ".")
        scope.report(
            "misplaced-argument",
            "a number has a decimal point, not a comma",
            Spot(whole, "these are two numbers"),
            fix=Fix(f"write `{point}`", Edit(whole, point)),
        )
        return True
    scope.report(
        "misplaced-argument",
        "a value without a name stands behind one with a name",
        Spot(argument.span, "this has no name"),
        Spot(keyword, "this has one"),
        fix=f"put the values without names first: `{_reordered(arguments)}`",
    )
    return True


def _reordered(arguments: Sequence[syntax.Argument]) -> str:
    ordered = sorted(arguments, key=lambda argument: argument.keyword is not None)
    return ", ".join(argument.span.text for argument in ordered[:6]) + (", …" if len(ordered) > 6 else "")


def _is_decimal_comma(before: syntax.Value, value: syntax.Value) -> bool:
    """Whether two numbers are one, written `0,001`."""
    are_numbers = isinstance(before, syntax.Number) and isinstance(value, syntax.Number)
    return are_numbers and before.span.source.text[before.span.end : value.span.start] == ","


def _too_many(
    scope: Scope,
    card: Card,
    argument: syntax.Argument,
    before: syntax.Argument | None,
    positional: Sequence[Parameter],
    name_span: Span,
) -> bool:
    names = ", ".join(f"`{parameter.name}`" for parameter in positional)
    count = {0: "no value", 1: "one value"}.get(len(positional), f"{len(positional)} values")
    fix: Fix | str = f"the form is `{nouns.form(card, name=name_span)}`"
    joint = _JOINTS.get(positional[0].types[0]) if len(positional) == 1 and before is not None else None
    if joint and before is not None:
        sign, what = joint
        gap = Span(argument.span.source, before.span.end, argument.span.start)
        fix = Fix(
            f"join {what} with `{sign}`: `{before.span.text} {sign} {argument.span.text}`", Edit(gap, f" {sign} ")
        )
    scope.report(
        "too-many-arguments",
        f"`{nouns.called(card, name_span)}` takes {count} without a name" + (f": {names}" if names else ""),
        Spot(argument.span, "one too many"),
        fix=fix,
    )
    return True


def _unknown_argument(
    scope: Scope, card: Card, keyword: syntax.Name, available: Sequence[Parameter], name_span: Span
) -> bool:
    names = [parameter.name for parameter in available]
    near = [parameter.name for parameter in available if parameter.target == keyword.path]
    near = near or lookup.nearest(keyword.path, names)
    fix: Fix | str | None = None
    if near:
        fix = Fix(nouns.did_you_mean(near), Edit(keyword.span, near[0]))
    elif card.kind == "model" and keyword.path in ("classes", "num_classes"):
        fix = "leave it out: the head is fitted to the data's classes"
    elif (owner := owner_of(keyword.path)) and owner != card.bare_name:
        fix = f"`{keyword.path}` is an argument of {_OWNERS.get(owner, f'`{owner}`')}: {_usage(owner, keyword.path)}"
    elif names:
        shown = ", ".join(f"`{name}`" for name in names[:10]) + (", …" if len(names) > 10 else "")
        fix = f"it takes {shown}"
    else:
        fix = "it takes no arguments"
    scope.report(
        "unknown-argument",
        f"`{nouns.called(card, name_span)}` takes no argument `{keyword.path}`",
        Spot(keyword.span, "not one of its arguments"),
        fix=fix,
    )
    return True


_OWNERS = {"model": "the model", "optimizer": "the optimizer", "schedule": "the schedule"}
_EXAMPLES = {"model": "resnet18", "optimizer": "adamw", "schedule": "cosine"}


def owner_of(name: str) -> str:
    """The statement that takes an argument of that name, in its own or in its call; empty where none does."""
    if name in ("pretrained", "weights", "head"):
        return "model"
    for kind, example in (("optimizer", "adamw"), ("optimizer", "sgd"), ("schedule", "cosine")):
        found = lookup.find(kind, example)
        if found and found[0].parameter(name):
            return kind
    for statement in ("train", *own.names("statement")):
        card = own.read("statement", statement)
        if card is not None and "." not in statement and card.parameter(name):
            return statement
    return ""


def _usage(owner: str, name: str) -> str:
    return f"`{owner} {_EXAMPLES[owner]}({name}=…)`" if owner in _EXAMPLES else f"write `{owner} {name}=…`"


def fit_together(card: Card, settings: Sequence[Setting], name_span: Span, scope: Scope) -> bool:
    """Rules on a card about several parameters: exactly one of them, or one not above another."""
    values = {setting.name: setting for setting in settings}
    either = card.facts.get("exactly_one_of")
    if either:
        chosen = [values[name] for name in either if values[name].value is not None]
        if len(chosen) != 1:
            listed = nouns.either([f"`{name}`" for name in either])
            if not chosen:
                forms = nouns.either([f'`{name}="…"`' for name in either])
                scope.report(
                    "missing-argument",
                    f"`{card.bare_name}` needs {listed}",
                    Spot(name_span, "neither is given"),
                    fix=f"say which column it is: {forms}",
                )
                return False
            places = [s.origin.span for s in chosen if isinstance(s.origin, Written)]
            scope.report(
                "contradiction",
                f"`{card.bare_name}` takes either {listed}, not both",
                Spot(places[-1], "one too many"),
                *(Spot(place, "given already") for place in places[:-1]),
                fix="remove one of them",
            )
            return False
    low, high = card.facts.get("ordered", (None, None))
    if low and high:
        return _in_order(values[low], values[high], scope)
    return True


def _in_order(low: Setting, high: Setting, scope: Scope) -> bool:
    are_numbers = isinstance(low.value, int | float) and isinstance(high.value, int | float)
    if not are_numbers or low.value < high.value or not isinstance(high.origin, Written):
        return True
    scope.report(
        "wrong-value",
        f"`{high.name}` must be more than `{low.name}`",
        Spot(high.origin.span, f"not more than {nouns.plain(low.value)}"),
        fix="write the smaller one first",
    )
    return False
