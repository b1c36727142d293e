"""From what is written to typed values: arguments meet their parameters, names meet their cards.

`bind` matches the arguments of a call or statement with a card's parameters; `resolve` gives one value its type. Each
mistake is reported once, at the smallest piece; what depends on it becomes UNKNOWN and is not mentioned again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from leaven.binding.arguments import fit_together, match_arguments, settable_parameters
from leaven.binding.arithmetic import calculate, unfolded
from leaven.binding.parameter_defaults import default_value
from leaven.binding.pipelines import read_pipeline
from leaven.binding.scope import BOUND_BY_DATA, Scope
from leaven.binding.scores import read_score
from leaven.binding.selectors import read_selector
from leaven.binding.units import bare_share, in_units, of_length, usual_value, whole, within_bounds
from leaven.binding.unknown_names import unknown_card, unknown_name, wrong_own_name
from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import (
    UNKNOWN,
    Default,
    FilePath,
    FromData,
    Invocation,
    Origin,
    Pending,
    Quantity,
    Setting,
    Unknown,
    UserDefinition,
    Written,
)
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import SourceKind, Span
from leaven.messages import describe, suggestions
from leaven.statements.merge import with_changes

_CARD_KINDS = frozenset(KINDS)


class Binder:
    """Resolves values in one scope. Selectors are read against `scope.layers`, where those are known."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # -- arguments and parameters

    def bind_arguments(
        self,
        card: Card,
        arguments: Sequence[syntax.Argument],
        name_span: Span,
        parameters: Sequence[Parameter] | None = None,
    ) -> tuple[Setting, ...] | Unknown:
        """The arguments as settings, in the order of the parameters, defaults filled in."""
        available = card.parameters if parameters is None else tuple(parameters)
        written, is_complete = match_arguments(card, arguments, available, name_span, self.scope)
        settings: list[Setting] = []
        for parameter in available:
            if parameter.name not in written:
                if not parameter.required and not parameter.variadic:
                    settings.append(Setting(parameter.name, default_value(parameter), Default(_why(card))))
                continue
            whole_only = parameter.name in card.facts.get("whole", ())
            setting = self._setting(parameter, written.pop(parameter.name), whole_only)
            is_complete &= not isinstance(setting.value, Unknown)
            settings.append(setting)
        for name, values in written.items():  # keyword arguments that an open-ended card takes
            settings.append(self._setting(Parameter(name), values))
        if is_complete and not fit_together(card, settings, name_span, self.scope):
            is_complete = False
        return tuple(settings) if is_complete else UNKNOWN

    def _setting(self, parameter: Parameter, values: list[syntax.Value], whole_only: bool = False) -> Setting:
        resolved = [self.bind_value(value, parameter) for value in values]
        if whole_only:
            resolved = [
                whole(self.scope, value, number, parameter) for value, number in zip(values, resolved, strict=True)
            ]
        together: Any = tuple(resolved) if parameter.variadic else resolved[0]
        if any(isinstance(value, Unknown) for value in resolved):
            together = UNKNOWN
        origin = origin_of(values[0].span.to(values[-1].span))
        is_known = len(values) == 1 and not isinstance(together, Unknown)
        symbolic = unfolded(values[0], self.scope) if is_known else None
        return Setting(parameter.name, together, origin, symbolic)

    # -- values

    def bind_value(self, value: syntax.Value, parameter: Parameter) -> Any:
        """The value as the parameter's type, or UNKNOWN."""
        types = parameter.types
        if "selector" in types and not isinstance(value, syntax.Literal):
            return read_selector(value, self.scope, self.scope.layers, self.scope.model_name)
        match value:
            case syntax.Name():
                return self._name(value, parameter)
            case syntax.Call():
                return self._call(value, parameter)
            case syntax.Pipeline() | syntax.Binary(operator="*") if set(types) & {"transforms", "model"}:
                return read_pipeline(value, "transform" if "transforms" in types else "component", self)
            case syntax.Number() | syntax.Binary() | syntax.Negative():
                return self._number(value, parameter)
            case syntax.String(value=text):
                return self._text(value, text, parameter)
            case syntax.Literal(value=literal):
                return self._literal(value, literal, parameter)
            case syntax.List(items=items) if set(types) & {"list", "any"}:
                element = replace(parameter, type="quantity" if parameter.units else parameter.items)
                resolved = tuple(self.bind_value(item, element) for item in items)
                if any(isinstance(item, Unknown) for item in resolved):
                    return UNKNOWN
                return of_length(self.scope, value, resolved, parameter)
        return self.mismatch(value, parameter)

    def mismatch(self, value: syntax.Value, parameter: Parameter, found: str | None = None) -> Unknown:
        wanted = describe.expected(parameter)
        return self.scope.report(
            "wrong-type",
            f"`{parameter.name}` takes {wanted}, not {found or describe.written_value(value)}",
            Spot(value.span, f"expected {wanted}"),
            fix=suggestions.for_type(value, parameter),
        )

    def _literal(self, value: syntax.Literal, literal: bool | None, parameter: Parameter) -> Any:
        word = "none" if literal is None else "bool"
        return literal if set(parameter.types) & {word, "any"} else self.mismatch(value, parameter)

    def _text(self, value: syntax.String, text: str, parameter: Parameter) -> Any:
        types = set(parameter.types)
        if "choice" in types:
            return self._choice(value, text, parameter)
        if "path" in types and text:
            return FilePath(text, value.span.source.folder / text, value.span)
        if "path" in types:
            return self.scope.report(
                "wrong-value", "an empty path leads nowhere", Spot(value.span, "expected the name of a file or folder")
            )
        if types & {"text", "any"}:
            return text
        return self.mismatch(value, parameter)

    def _choice(self, value: syntax.Value, text: str, parameter: Parameter) -> Any:
        if text in parameter.choices:
            return text
        if isinstance(value, syntax.String) and "text" in parameter.types:
            return text
        listed = ", ".join(f"`{choice}`" for choice in parameter.choices)
        near = lookup.nearest(text, parameter.choices, limit=1)
        return self.scope.report(
            "wrong-value",
            f"`{parameter.name}` can't be `{text}`",
            Spot(
                value.span, f"expected one of {listed}" + (", or a text in quotes" if "text" in parameter.types else "")
            ),
            fix=Fix(f"did you mean `{near[0]}`?", Edit(value.span, near[0])) if near else usual_value(parameter),
        )

    # -- numbers

    def _number(self, value: syntax.Value, parameter: Parameter) -> Any:
        types = set(parameter.types)
        is_bare = isinstance(value, syntax.Number) and value.unit is None
        if is_bare and "choice" in types and not types & {"int", "float"}:
            return self._choice(value, value.span.text, parameter)
        number = calculate(value, self.scope)
        if number is None:
            return self._not_a_number(value, parameter)
        if isinstance(number, FromData | Pending) and types & {"int", "float", "quantity", "any"}:
            return number
        if isinstance(number, Unknown | FromData):
            return UNKNOWN
        if isinstance(number, Quantity):
            return in_units(self.scope, value, number, parameter)
        if "quantity" in types:
            if mistaken := bare_share(self.scope, value, number, parameter):
                return mistaken
            return within_bounds(self.scope, value, Quantity(number, parameter.units[0]), parameter)
        if "int" in types and isinstance(number, float) and not types & {"float", "any"}:
            if number.is_integer():
                number = int(number)
            else:
                return self.mismatch(value, parameter, f"{value_text(number)}")
        if not types & {"int", "float", "any"}:
            return self.mismatch(value, parameter)
        return within_bounds(self.scope, value, number, parameter)

    def _not_a_number(self, value: syntax.Value, parameter: Parameter) -> Unknown:
        """Blame the operand that is not a number, rather than the whole expression."""
        if isinstance(value, syntax.Binary) and set(parameter.types) & {"text", "path"}:
            return self.mismatch(value, parameter)
        match value:
            case syntax.Binary(left=left, right=right):
                for operand in (left, right):
                    if calculate(operand, self.scope) is None:
                        return self._not_a_number(operand, parameter)
            case syntax.Negative(value=inner):
                return self._not_a_number(inner, parameter)
            case syntax.Name():
                return unknown_name(self.scope, value, parameter)
        return self.mismatch(value, parameter)

    # -- names

    def _name(self, value: syntax.Name, parameter: Parameter) -> Any:
        path, types, scope = value.path, set(parameter.types), self.scope
        if "choice" in types and path in parameter.choices:
            return path
        if path in scope.broken_names:
            return UNKNOWN
        if path in BOUND_BY_DATA and types & {"int", "any"}:
            return scope.from_data(path)
        if path in scope.lets and let_fits(scope.lets[path].value, parameter):
            return self._let(value, parameter)
        if path in scope.args and arg_fits(scope.args[path].type, parameter):
            return self._arg(value, parameter)
        if "score" in types:
            return read_score(value, scope)
        if "name" in types or "statement" in types:
            return path
        if "transforms" in types:
            return read_pipeline(value, "transform", self)
        if types & _CARD_KINDS:
            return self.bind_call(syntax.Call(value, (), value.span), parameter)
        user = scope.user_card(path)
        if isinstance(user, Unknown):
            return UNKNOWN
        if user is not None and types & {"function", "any"}:
            module, _, name = path.partition(".")
            return UserDefinition(module, name)
        if "choice" in types:
            return self._choice(value, path, parameter)
        if path in scope.lets or path in scope.args:
            return wrong_own_name(self.scope, value, parameter)
        return unknown_name(self.scope, value, parameter)

    def _let(self, value: syntax.Name, parameter: Parameter) -> Any:
        """The value that a `let` names, as if it stood here."""
        return self.expand_let(value, lambda inner: self.bind_value(inner, parameter))

    def expand_let(self, value: syntax.Name, read: Callable[[syntax.Value], Any]) -> Any:
        """What `read` makes of a `let`'s value; a mistake in it is told once, with the first place that uses it."""
        scope, name = self.scope, value.path
        if name in scope.failed_lets:
            return UNKNOWN
        if name in scope.unfolding:  # `let stem = stem`: among layers that is a word, elsewhere a circle
            return scope.report("circular-let", f"`{name}` is defined by itself", value.span)
        scope.used.add(name)
        before = len(scope.diagnostics)
        scope.unfolding.append(name)
        resolved = read(scope.lets[name].value)
        scope.unfolding.pop()
        if isinstance(resolved, Unknown):
            scope.failed_lets.add(name)
            here = Spot(value.span, "used here")
            scope.diagnostics[before:] = [
                replace(report, spots=(*report.spots, here)) for report in scope.diagnostics[before:]
            ]
        return resolved

    def _arg(self, value: syntax.Name, parameter: Parameter) -> Any:
        arg = self.scope.args[value.path]
        self.scope.used.add(value.path)
        if isinstance(arg.value, Unknown):
            return UNKNOWN
        if arg.value is None or isinstance(arg.value, Pending):
            return arg.value
        if "choice" in parameter.types:
            return self._choice(value, str(arg.value), parameter)
        if "quantity" in parameter.types:
            if mistaken := bare_share(self.scope, value, arg.value, parameter):
                return mistaken
            return within_bounds(self.scope, value, Quantity(arg.value, parameter.units[0]), parameter)
        if isinstance(arg.value, int | float) and not isinstance(arg.value, bool):
            return within_bounds(self.scope, value, arg.value, parameter)
        if arg.type in ("text", "choice") and "path" in parameter.types and isinstance(arg.value, str):
            return FilePath(arg.value, value.span.source.folder / arg.value, value.span)
        return arg.value

    # -- cards put to use

    def _call(self, value: syntax.Call, parameter: Parameter) -> Any:
        types = set(parameter.types)
        named = self.scope.lets.get(value.name.path)
        if named is not None and is_changed_let(value, self.scope) and not isinstance(named.value, syntax.Pipeline):
            kind = parameter.types[0]
            return self.expand_let(
                value.name, lambda inner: self.bind_value(with_changes(inner, value.arguments, kind), parameter)
            )
        if "transforms" in types:
            return read_pipeline(value, "transform", self)
        if types & _CARD_KINDS:
            return self.bind_call(value, parameter)
        user = self.scope.user_card(value.name.path)
        if isinstance(user, Unknown):
            return UNKNOWN
        if user is not None and "any" in types:
            settings = self.bind_arguments(user, value.arguments, value.name.span)
            return UNKNOWN if isinstance(settings, Unknown) else Invocation(user, settings, origin_of(value.span))
        return self.mismatch(value, parameter)

    def bind_call(self, call: syntax.Call, parameter: Parameter) -> Any:
        """The card that a call names, put to use with the call's arguments."""
        kind = next(word for word in parameter.types if word in _CARD_KINDS)
        if parameter.name == "model" and self.is_component(call.name.path):
            return read_pipeline(call, "component", self)
        card = self.card(call.name, kind)
        if isinstance(card, Unknown):
            return UNKNOWN
        if kind == "model":
            return self._model_call(card, call, is_teacher=parameter.name == "teacher")
        parameters = settable_parameters(card, kind, call.name, self.scope)
        settings = (
            UNKNOWN if parameters is None else self.bind_arguments(card, call.arguments, call.name.span, parameters)
        )
        return UNKNOWN if isinstance(settings, Unknown) else Invocation(card, settings, origin_of(call.span))

    def is_component(self, name: str) -> bool:
        """Whether a name can only mean a component, which makes a pipeline of one stage."""
        is_users = self.scope.user_card(name) is not None
        return not is_users and not lookup.find("model", name) and bool(lookup.find("component", name))

    def _model_call(self, card: Card, call: syntax.Call, is_teacher: bool) -> Any:
        # `pretrained`, `weights` and `head` are Leaven's in every model call, whatever the model itself takes.
        own = {parameter.name for parameter in MODEL_PARAMETERS}
        fitted = {"classes", "num_classes"} if card.kind == "user" else set()
        parameters = [
            replace(parameter, required=parameter.required and parameter.name not in fitted)
            for parameter in card.parameters
            if parameter.name not in own
        ]
        # A teacher always keeps its head, so nothing can be said about it.
        leavens = MODEL_PARAMETERS[:2] if is_teacher else MODEL_PARAMETERS
        settings = self.bind_arguments(card, call.arguments, call.name.span, [*parameters, *leavens])
        if isinstance(settings, Unknown):
            return UNKNOWN
        # What a published model is made of, its name says; only what differs is worth repeating.
        kept = tuple(s for s in settings if s.name in own or card.kind != "model" or isinstance(s.origin, Written))
        return Invocation(card, kept, origin_of(call.span))

    def card(self, name: syntax.Name, kind: str) -> Card | Unknown:
        """The card of that kind that a name means."""
        user = self.scope.user_card(name.path)
        if user is not None:
            return user
        found = lookup.find(kind, name.path)
        if found:
            return found[0]
        return self.scope.report_undefined(name) or unknown_card(self.scope, name, kind)


MODEL_PARAMETERS = (
    Parameter(
        "pretrained", "bool", default=False, positional=False, summary="start from the weights it was published with"
    ),
    Parameter("weights", "path|none", positional=False, summary="a bundle, a checkpoint or a state dict"),
    Parameter(
        "head",
        "choice|text",
        choices=("fit", "keep"),
        default="fit",
        positional=False,
        summary="fit: to the data's classes, newly initialised; keep: as it was trained; a text names the layer",
    ),
)


def is_changed_let(call: syntax.Call, scope: Scope) -> bool:
    """Whether `change` or `--set` gave arguments to what a `let` names: it was written without brackets."""
    return call.span == call.name.span and call.name.path in scope.lets


def origin_of(span: Span) -> Origin:
    """Written, unless the text is a card's own word about what nobody wrote."""
    return Default("") if span.source.kind is SourceKind.DEFAULT else Written(span)


def _why(card: Card) -> str:
    return f"of {card.source}" if card.source not in ("leaven", "user") else ""


def let_fits(value: syntax.Value, parameter: Parameter) -> bool:
    """Whether a `let` with that value can be meant by a parameter of that type, or only happens to share a name."""
    types = set(parameter.types)
    plain_types = {"int", "float", "bool", "text", "path", "list", "none", "any", "choice", "quantity"}
    match value:
        case syntax.Number() | syntax.String() | syntax.Literal() | syntax.List() | syntax.Negative():
            return bool(types & plain_types)
        case syntax.Call() | syntax.Pipeline():
            return bool(types - plain_types - {"score", "name", "statement"}) or "any" in types
    return True


def arg_fits(type: str, parameter: Parameter) -> bool:
    accepted = {
        "int": {"int", "float", "quantity", "choice", "any"},
        "float": {"float", "quantity", "any"},
        "bool": {"bool", "any"},
        "text": {"text", "path", "choice", "any"},
        "path": {"path", "text", "any"},
        "choice": {"text", "path", "choice", "any"},
    }
    return type not in accepted or bool(accepted[type] & set(parameter.types))
