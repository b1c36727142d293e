"""Arguments and parameters: which value was written for which parameter of a card.

Decides names, order and number only; what a value means is left to `values.py`.
"""

from collections.abc import Iterator, Mapping, Sequence

from leaven.binding.scope import Scope
from leaven.catalog.card import Card, Parameter
from leaven.catalog.values import Setting, Written
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic
from leaven.language.source import Span
from leaven.messages import arguments as messages
from leaven.messages.arguments import CardUse

# What the program passes to a user's function first. A class is constructed from what the recipe says, and called
# later; only an optimizer and a schedule can't be constructed without.
_PASSED = {
    "transform": ("the image",),
    "loss": ("the outputs", "the targets"),
    "metric": ("the outputs", "the targets"),
    "optimizer": ("the parameters to train",),
    "schedule": ("the optimizer",),
}
_CONSTRUCTED_WITH = ("optimizer", "schedule")


def settable_parameters(card: Card, kind: str, name: syntax.Name, scope: Scope) -> tuple[Parameter, ...] | None:
    """The parameters that a recipe can set of what is used as `kind`; the program passes the others itself.

    None, and a report, where a function does not take what the program passes.
    """
    if card.kind != "user" or not (card.definition.form == "function" or kind in _CONSTRUCTED_WITH):
        return card.parameters
    passed = _PASSED.get(kind, ())
    positional = [parameter for parameter in card.parameters if parameter.positional]
    if len(positional) < len(passed) and not card.open_ended and not any(p.variadic for p in positional):
        scope.add(messages.wrong_signature(name, kind, passed))
        return None
    taken = [parameter.name for parameter in positional if not parameter.variadic][: len(passed)]
    return tuple(parameter for parameter in card.parameters if parameter.name not in taken)


def match_arguments(use: CardUse, scope: Scope) -> tuple[dict[str, list[syntax.Value]], bool]:
    """Which values were written for which parameter, and whether all of that is right."""
    matching = _Matching(use)
    for index, argument in enumerate(use.arguments):
        if argument.keyword is None:
            matching.take_positional(index, argument)
        else:
            matching.take_keyword(argument, argument.keyword)
    matching.require()
    for report in matching.reports:
        scope.add(report)
    return matching.given, not matching.reports


class _Matching:
    """The arguments of one call, taken one after another."""

    def __init__(self, use: CardUse) -> None:
        self.use = use
        self.positional = [parameter for parameter in use.parameters if parameter.positional]
        self.names = frozenset(parameter.name for parameter in use.parameters)
        self.given: dict[str, list[syntax.Value]] = {}
        self.places: dict[str, Span] = {}
        self.reports: list[Diagnostic] = []
        self._next = 0  # parameter for a positional argument
        self._is_misplaced = False  # then the positional arguments that follow are so for the same reason
        self._last_keyword: Span | None = None

    def take_positional(self, index: int, argument: syntax.Argument) -> None:
        if self._is_misplaced:
            return
        refusal = self._refusal(index, argument.value)
        if refusal is not None:
            self.reports.append(refusal)
            self._is_misplaced = True
            return
        parameter = self.positional[self._next]
        meant = messages.parameter_for_number(argument.value, parameter, self.use.parameters)
        self._give(meant or parameter.name, argument)
        self._next += not meant and not parameter.variadic

    def _refusal(self, index: int, value: syntax.Value) -> Diagnostic | None:
        """Why there can be no positional argument here."""
        arguments = self.use.arguments
        if self._last_keyword is not None:
            before = arguments[index - 1]
            are_numbers = isinstance(before.value, syntax.Number) and isinstance(value, syntax.Number)
            if not are_numbers or before.span.source.text[before.span.end : value.span.start] != ",":  # `0,001`
                return messages.after_keyword(self.use, index, self._last_keyword)
            if before.keyword is not None:
                self.given.pop(before.keyword.path, None)  # `clip=0,5` is no 0
            return messages.decimal_comma(before.value, value)
        if isinstance(value, syntax.Call) and value.name.path.endswith(".parameters"):
            return messages.parameters_of_model(self.use, index)
        if self._next >= len(self.positional):
            return messages.too_many(self.use, index)
        if self._next == 1 and _is_second_side(arguments, self.positional):
            return messages.height_and_width(arguments[0], arguments[1])
        return None

    def take_keyword(self, argument: syntax.Argument, keyword: syntax.Name) -> None:
        self._last_keyword = argument.span
        name = keyword.path
        if name not in self.names and not self.use.card.open_ended:
            self.reports.append(messages.unknown(self.use, argument, keyword))
        elif name in self.given:
            self.reports.append(messages.repeated(keyword, self.places[name]))
        else:
            self._give(name, argument)

    def require(self) -> None:
        """Report what must be given and was not, unless an error in the others may be why."""
        missing = [p.name for p in self.use.parameters if p.required and p.name not in self.given]
        if missing and not self.reports:
            self.reports.append(messages.missing(self.use, missing, self._first_taken_for()))

    def _first_taken_for(self) -> str:
        """The keyword parameter that the first argument was taken for, though it was written without its name."""
        first = self.use.arguments[0] if self.use.arguments else None
        if first is None or first.keyword is not None:
            return ""
        by_name = [p.name for p in self.use.parameters if not p.positional and p.name in self.given]
        return next((name for name in by_name if self.given[name][0] is first.value), "")

    def _give(self, name: str, argument: syntax.Argument) -> None:
        self.given.setdefault(name, []).append(argument.value)
        self.places.setdefault(name, argument.span)


def _is_second_side(arguments: Sequence[syntax.Argument], positional: Sequence[Parameter]) -> bool:
    """Whether `resize(224, 224)` means height and width: the second parameter takes no whole number."""
    first, second = (argument.value for argument in arguments[:2])
    are_sides = isinstance(first, syntax.Number) and isinstance(second, syntax.Number)
    return are_sides and positional[0].name == "size" and "int" not in positional[1].types


def fit_together(card: Card, settings: Sequence[Setting], name: Span, scope: Scope) -> bool:
    """Whether the card's rules about several parameters hold: exactly one of them, one that needs another, an order."""
    report = next(_misfits(card, {setting.name: setting for setting in settings}, name), None)
    if report is not None:
        scope.add(report)
    return report is None


def _misfits(card: Card, settings: Mapping[str, Setting], name: Span) -> Iterator[Diagnostic]:
    names = card.exactly_one_of
    chosen = [settings[key] for key in names if settings[key].value is not None]
    if names and not chosen:
        yield messages.none_of(card, name, names)
    elif len(places := [s.origin.span for s in chosen if isinstance(s.origin, Written)]) > 1:
        yield messages.several_of(card, names, places)
    given = [settings[key] for key in card.at_most_one_of if settings[key].value is not None]
    written = {setting.name: setting.span for setting in given if setting.span}
    if len(written) > 1:
        yield messages.several_of(card, list(written), list(written.values()))
    for parameter in card.parameters:
        if (only_if := parameter.only_if) is None:
            continue
        setting, owner = settings[parameter.name], settings[only_if.parameter]
        is_known = isinstance(owner.value, str) or owner.value is None
        if isinstance(setting.origin, Written) and is_known and not only_if.is_met_by(owner.value):
            yield messages.without_effect(setting, setting.origin.span, owner, only_if.values)
    for parameter in card.parameters:
        if not parameter.less_than:
            continue
        low, high = settings[parameter.name], settings.get(parameter.less_than)
        if high is None or not isinstance(low.value, int | float) or not isinstance(high.value, int | float):
            continue
        if low.value >= high.value and (report := messages.not_less(low, high)):
            yield report
