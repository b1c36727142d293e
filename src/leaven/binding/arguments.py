"""Arguments meet parameters: which value was written for which parameter of a card.

Decides names, order and number only; what a value means is left to `resolve.py`.
"""

from collections.abc import Mapping, Sequence

from leaven.binding.scope import Scope
from leaven.catalog.card import Card, Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Setting, Written
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import Span
from leaven.messages import describe, suggestions

# What a user's function is given first when it is called. A class is made of what the recipe says, and called later;
# only an optimizer and a schedule can't be made without.
_HANDED_OVER = {
    "transform": ("the picture",),
    "loss": ("the outputs", "the labels"),
    "metric": ("the outputs", "the labels"),
    "optimizer": ("the parameters to train",),
    "schedule": ("the optimizer",),
}
_MADE_WITH = ("optimizer", "schedule")


def settable_parameters(card: Card, kind: str, name: syntax.Name, scope: Scope) -> tuple[Parameter, ...] | None:
    """The parameters that a recipe can give to what is used as `kind`; the program itself hands over the others.

    None, and a report, where a function does not take what it will be called with.
    """
    if card.kind != "user" or not (card.facts["form"] == "function" or kind in _MADE_WITH):
        return card.parameters
    handed_over = _HANDED_OVER.get(kind, ())
    count = len(handed_over)
    positional = [parameter for parameter in card.parameters if parameter.positional]
    if len(positional) < count and not card.open_ended and not any(p.variadic for p in positional):
        given = describe.both(handed_over)
        scope.report(
            "wrong-value",
            f"`{name.path}` can't be {describe.KIND_NOUNS[kind]}: it does not take {given}",
            Spot(name.span, f"it is called with {given}"),
            fix=f"let it take {given} first",
        )
        return None
    taken = [parameter.name for parameter in positional if not parameter.variadic][:count]
    return tuple(parameter for parameter in card.parameters if parameter.name not in taken)


def match_arguments(
    card: Card,
    arguments: Sequence[syntax.Argument],
    available: Sequence[Parameter],
    name_span: Span,
    scope: Scope,
) -> tuple[dict[str, list[syntax.Value]], bool]:
    """Which values were written for which parameter, and whether all of that is right."""
    matching = _Matching(card, arguments, available, name_span, scope)
    for index, argument in enumerate(arguments):
        if argument.keyword is None:
            matching.take_by_place(index, argument)
        else:
            matching.take_by_name(index, argument, argument.keyword)
    matching.require()
    return matching.given, not matching.has_failed


class _Matching:
    """The arguments of one call, taken one after another."""

    def __init__(
        self,
        card: Card,
        arguments: Sequence[syntax.Argument],
        available: Sequence[Parameter],
        name_span: Span,
        scope: Scope,
    ) -> None:
        self.card = card
        self.arguments = arguments
        self.available = available
        self.name_span = name_span
        self.scope = scope
        self.positional = [parameter for parameter in available if parameter.positional]
        self.names = frozenset(parameter.name for parameter in available)
        self.given: dict[str, list[syntax.Value]] = {}
        self.places: dict[str, Span] = {}
        self.has_failed = False
        self._place = 0  # of the next value without a name
        self._is_misplaced = False  # then the values without names that follow are so for the same reason
        self._last_name: Span | None = None

    def take_by_place(self, index: int, argument: syntax.Argument) -> None:
        if self._is_misplaced:
            return
        if self._last_name is not None:
            self._refuse_places(_misplaced(self.scope, index, self._last_name, self.arguments))
            before = self.arguments[index - 1]
            if before.keyword is not None and _is_decimal_comma(before.value, argument.value):
                self.given.pop(before.keyword.path, None)  # `clip=0,5` is no 0
        elif self._place >= len(self.positional):
            self._refuse_places(_too_many(self.scope, self.card, self.arguments, index, self.available, self.name_span))
        elif self._place == 1 and _is_second_side(self.arguments, self.positional):
            self._refuse_places(_two_sides(self.scope, self.arguments))
        elif meant := suggestions.skipped_to(argument.value, self.positional[self._place], self.available):
            self._give(meant, argument)
        else:
            parameter = self.positional[self._place]
            self._give(parameter.name, argument)
            self._place += not parameter.variadic

    def take_by_name(self, index: int, argument: syntax.Argument, keyword: syntax.Name) -> None:
        self._last_name = argument.span
        name = keyword.path
        if name not in self.names and not self.card.open_ended:
            self.has_failed |= _unknown_argument(
                self.scope, self.card, self.arguments, index, self.available, self.name_span
            )
        elif name in self.given:
            self.scope.report(
                "repeated-argument",
                f"`{name}` is given twice",
                Spot(keyword.span, "again here"),
                Spot(self.places[name], "first here"),
                fix="keep one of them",
            )
            self.has_failed = True
        else:
            self._give(name, argument)

    def require(self) -> None:
        """Report what must be given and was not, unless a mistake in the others may be why."""
        missing = [p.name for p in self.available if p.required and p.name not in self.given]
        if not missing or self.has_failed:
            return
        listed = ", ".join(f"`{name}`" for name in missing)
        self.scope.report(
            "missing-argument",
            f"`{describe.card_name(self.card, self.name_span)}` needs {listed}",
            Spot(self.name_span, f"{listed} {'is' if len(missing) == 1 else 'are'} missing"),
            fix=_complete(self.card, self.arguments, self.available, self.given, self.name_span),
        )
        self.has_failed = True

    def _give(self, name: str, argument: syntax.Argument) -> None:
        self.given.setdefault(name, []).append(argument.value)
        self.places.setdefault(name, argument.span)

    def _refuse_places(self, is_reported: bool) -> None:
        self.has_failed = self._is_misplaced = is_reported


def _complete(
    card: Card,
    arguments: Sequence[syntax.Argument],
    available: Sequence[Parameter],
    given: Mapping[str, Sequence[syntax.Value]],
    name_span: Span,
) -> str:
    """How to write what misses an argument; a number that stands in the place of the first keeps its own."""
    for parameter in available[1:]:
        value = given.get(parameter.name, [None])[0]
        if arguments and value is arguments[0].value and arguments[0].keyword is None and not parameter.positional:
            first = describe.placeholder(available[0])
            return f"write `{describe.card_name(card, name_span)} {first}, {parameter.name}={arguments[0].span.text}`"
    return f"the form is `{describe.usage(card, available, name_span)}`"


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
        fix=f"put the values without names first: `{suggestions.reordered(arguments)}`",
    )
    return True


def _is_decimal_comma(before: syntax.Value, value: syntax.Value) -> bool:
    """Whether two numbers are one, written `0,001`."""
    are_numbers = isinstance(before, syntax.Number) and isinstance(value, syntax.Number)
    return are_numbers and before.span.source.text[before.span.end : value.span.start] == ","


def _is_second_side(arguments: Sequence[syntax.Argument], positional: Sequence[Parameter]) -> bool:
    """Whether `resize(224, 224)` means height and width: the second parameter takes no whole number."""
    first, second = (argument.value for argument in arguments[:2])
    are_sides = isinstance(first, syntax.Number) and isinstance(second, syntax.Number)
    return are_sides and positional[0].name == "size" and "int" not in positional[1].types


def _two_sides(scope: Scope, arguments: Sequence[syntax.Argument]) -> bool:
    whole = arguments[0].span.to(arguments[1].span)
    sides = f"[{arguments[0].span.text}, {arguments[1].span.text}]"
    scope.report(
        "wrong-type",
        "height and width stand in a list",
        Spot(whole, "these are two arguments"),
        fix=Fix(f"write `{sides}`", Edit(whole, sides)),
    )
    return True


def _too_many(
    scope: Scope,
    card: Card,
    arguments: Sequence[syntax.Argument],
    index: int,
    available: Sequence[Parameter],
    name_span: Span,
) -> bool:
    positional = [parameter.name for parameter in available if parameter.positional]
    names = ", ".join(f"`{name}`" for name in positional)
    count = {0: "no value", 1: "one value"}.get(len(positional), f"{len(positional)} values")
    scope.report(
        "too-many-arguments",
        f"`{describe.card_name(card, name_span)}` takes {count} without a name" + (f": {names}" if names else ""),
        Spot(arguments[index].span, "one too many"),
        fix=suggestions.for_surplus(card, arguments, index, available, name_span),
    )
    return True


def _unknown_argument(
    scope: Scope,
    card: Card,
    arguments: Sequence[syntax.Argument],
    index: int,
    available: Sequence[Parameter],
    name_span: Span,
) -> bool:
    keyword = arguments[index].keyword
    assert keyword is not None
    scope.report(
        "unknown-argument",
        f"`{describe.card_name(card, name_span)}` takes no argument `{keyword.path}`",
        Spot(keyword.span, "not one of its arguments"),
        fix=suggestions.for_unknown_argument(card, arguments[index], arguments, available),
    )
    return True


def fit_together(card: Card, settings: Sequence[Setting], name_span: Span, scope: Scope) -> bool:
    """Rules on a card about several parameters: exactly one of them, one that is another's, or an order."""
    values = {setting.name: setting for setting in settings}
    either = card.facts.get("exactly_one_of")
    if either:
        chosen = [values[name] for name in either if values[name].value is not None]
        if len(chosen) != 1:
            listed = describe.either([f"`{name}`" for name in either])
            if not chosen:
                forms = describe.either([f'`{name}="…"`' for name in either])
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
    for name, owner in card.facts.get("belongs_to", {}).items():
        ((other, value),) = owner.items()
        if not _belongs(values[name], values[other], value, scope):
            return False
    low, high = card.facts.get("ordered", (None, None))
    if low and high:
        return _in_order(values[low], values[high], scope)
    return True


def _belongs(setting: Setting, owner: Setting, value: str, scope: Scope) -> bool:
    """An argument that only one way of doing something has."""
    if not isinstance(setting.origin, Written) or owner.value == value or not isinstance(owner.value, str):
        return True
    given = [Spot(owner.origin.span, "another way")] if isinstance(owner.origin, Written) else []
    scope.report(
        "contradiction",
        f"`{setting.name}` belongs to `{owner.name}={value}`, and `{owner.name}` is {owner.value}",
        Spot(setting.origin.span, "has no effect"),
        *given,
        fix=f"remove `{setting.name}`, or write `{owner.name}={value}`",
    )
    return False


def _in_order(low: Setting, high: Setting, scope: Scope) -> bool:
    are_numbers = isinstance(low.value, int | float) and isinstance(high.value, int | float)
    if not are_numbers or low.value < high.value or not isinstance(high.origin, Written):
        return True
    scope.report(
        "wrong-value",
        f"`{high.name}` must be more than `{low.name}`",
        Spot(high.origin.span, f"not more than {value_text(low.value)}"),
        fix="write the smaller one first",
    )
    return False
