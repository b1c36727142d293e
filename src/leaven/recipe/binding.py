"""Arguments meet parameters: which value was written for which parameter of a card.

Decides names, order and number only; what a value means is left to `resolve.py`.
"""

from collections.abc import Sequence

from leaven.catalog import lookup
from leaven.catalog.card import Card, Parameter
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import Span
from leaven.recipe import nouns
from leaven.recipe.recipe import Setting, Written
from leaven.recipe.scope import Scope


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
    at = 0
    for argument in arguments:
        if argument.keyword is None:
            if keyword_seen is not None:
                failed |= _misplaced(scope, argument, keyword_seen)
            elif at >= len(positional):
                failed |= _too_many(scope, card, argument, positional)
            else:
                parameter = positional[at]
                given.setdefault(parameter.name, []).append(argument.value)
                places.setdefault(parameter.name, argument.span)
                at += not parameter.variadic
            continue
        keyword_seen = argument.span
        name = argument.keyword.path
        if name not in by_name and not card.open_ended:
            failed |= _unknown_argument(scope, card, argument.keyword, available)
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
            f"`{card.bare_name}` needs {listed}",
            Spot(name_span, f"{listed} {'is' if len(missing) == 1 else 'are'} missing"),
            fix=f"the form is `{nouns.form(card, available)}`",
        )
        failed = True
    return given, not failed


def _misplaced(scope: Scope, argument: syntax.Argument, keyword: Span) -> bool:
    scope.report(
        "misplaced-argument",
        "a value without a name stands behind one with a name",
        Spot(argument.span, "this has no name"),
        Spot(keyword, "this has one"),
        fix="put the values without names first, or write `name=value`",
    )
    return True


def _too_many(scope: Scope, card: Card, argument: syntax.Argument, positional: Sequence[Parameter]) -> bool:
    names = ", ".join(f"`{parameter.name}`" for parameter in positional)
    takes = f"at most {len(positional)} ({names})" if positional else "no value without a name"
    scope.report(
        "too-many-arguments",
        f"`{card.bare_name}` takes {takes}",
        Spot(argument.span, "one too many"),
        fix=f"the form is `{nouns.form(card)}`",
    )
    return True


def _unknown_argument(scope: Scope, card: Card, keyword: syntax.Name, available: Sequence[Parameter]) -> bool:
    names = [parameter.name for parameter in available]
    near = [parameter.name for parameter in available if parameter.target == keyword.path]
    near = near or lookup.nearest(keyword.path, names)
    fix: Fix | str | None = None
    if near:
        fix = Fix(nouns.did_you_mean(near), Edit(keyword.span, near[0]))
    elif names:
        shown = ", ".join(f"`{name}`" for name in names[:10]) + (", …" if len(names) > 10 else "")
        fix = f"it takes {shown}"
    else:
        fix = "it takes no arguments"
    scope.report(
        "unknown-argument",
        f"`{card.bare_name}` takes no argument `{keyword.path}`",
        Spot(keyword.span, "not one of its arguments"),
        fix=fix,
    )
    return True


def fit_together(card: Card, settings: Sequence[Setting], name_span: Span, scope: Scope) -> bool:
    """Rules on a card about several parameters: exactly one of them, or one not above another."""
    values = {setting.name: setting for setting in settings}
    either = card.facts.get("exactly_one_of")
    if either:
        chosen = [values[name] for name in either if values[name].value is not None]
        if len(chosen) != 1:
            place = chosen[-1].origin.span if chosen and isinstance(chosen[-1].origin, Written) else name_span
            listed = nouns.either([f"`{name}`" for name in either])
            scope.report(
                "contradiction" if chosen else "missing-argument",
                f"`{card.bare_name}` takes either {listed}" if chosen else f"`{card.bare_name}` needs {listed}",
                Spot(place, "one too many" if chosen else "neither is given"),
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
    )
    return False
