"""From what is written to typed values: arguments get their parameters, names get their cards.

`bind_arguments` gives the arguments of a call or statement to a card's parameters, `bind_value` gives one value its
type. Each error is reported once, at the smallest piece; what depends on it becomes UNKNOWN and is not mentioned again.
"""

import os.path
from collections.abc import Sequence
from dataclasses import replace

from leaven.binding.arguments import fit_together, match_arguments, settable_parameters
from leaven.binding.arithmetic import as_quantity, calculate, in_units, kept_expression, whole, within_bounds
from leaven.binding.parameter_defaults import default_value
from leaven.binding.pipelines import Stages, read_pipeline
from leaven.binding.scope import BOUND_BY_DATA, Scope
from leaven.binding.scores import read_score
from leaven.binding.selectors import read_modules, read_selection
from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.selectors import Selection
from leaven.catalog.value_text import value_text
from leaven.catalog.values import (
    UNKNOWN,
    Default,
    FilePath,
    FromData,
    Invocation,
    Number,
    Origin,
    Pending,
    Quantity,
    Score,
    Setting,
    Unknown,
    UserDefinition,
    Written,
)
from leaven.language import syntax
from leaven.language.source import SourceKind, Span
from leaven.messages import arguments as argument_messages
from leaven.messages import describe, names, other_names
from leaven.messages import values as messages
from leaven.statements.changed_arguments import with_changes

Value = bool | str | Number | FilePath | Score | UserDefinition | Invocation | Selection | tuple["Value", ...] | None

_CARD_KINDS = frozenset(KINDS)
_PLAIN_TYPES = frozenset({"int", "float", "bool", "text", "path", "list", "none", "any", "choice", "quantity"})
# The types of parameters that an `arg` of each type can be given to.
_ARG_FITS = {
    "int": {"int", "float", "quantity", "choice", "any"},
    "float": {"float", "quantity", "any"},
    "bool": {"bool", "any"},
    "text": {"text", "path", "choice", "any"},
    "path": {"path", "text", "any"},
    "choice": {"text", "path", "choice", "any"},
}


class Binder:
    """Binds values in one scope. Selectors are read against `scope.layers`, where those are known."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # -- arguments and parameters

    def bind_arguments(
        self,
        card: Card,
        arguments: Sequence[syntax.Argument],
        name_span: Span,
        parameters: Sequence[Parameter],
    ) -> tuple[Setting, ...] | Unknown:
        """The arguments as settings, in the order of the parameters, defaults filled in."""
        use = argument_messages.CardUse(card, name_span, arguments, parameters)
        written, is_complete = match_arguments(use, self.scope)
        settings: list[Setting] = []
        replaced = set(card.exactly_one_of) if written.keys() & set(card.exactly_one_of) else set()
        by_default = Default(f"of {card.source}" if card.source not in ("leaven", "user") else "")
        keywords = {argument.keyword.path for argument in arguments if argument.keyword}
        for parameter in parameters:
            if parameter.name in written:
                is_named = parameter.name in keywords or not parameter.positional or bool(parameter.units)
                # Reports name a statement rather than its parameter, which nobody wrote: `output runs/first`.
                is_taker = card.kind == "statement" and not is_named
                taken = replace(parameter, taker=card.bare_name) if is_taker else parameter
                settings.append(self._setting(taken, written.pop(parameter.name)))
            elif not parameter.required and not parameter.variadic:
                default = default_value(parameter) if parameter.name not in replaced else None
                settings.append(Setting(parameter.name, default, by_default))
        is_complete &= not any(isinstance(setting.value, Unknown) for setting in settings)
        for name, values in written.items():  # keyword arguments that an open-ended card takes
            settings.append(self._setting(Parameter(name), values))
        is_complete = is_complete and fit_together(card, settings, name_span, self.scope)
        return tuple(settings) if is_complete else UNKNOWN

    def _setting(self, parameter: Parameter, written: list[syntax.Value]) -> Setting:
        values = [self.bind_value(value, parameter) for value in written]
        for at, value in enumerate(values):
            if parameter.whole_number and isinstance(value, Quantity):
                values[at] = whole(self.scope, written[at], value, parameter)
        together = tuple(values) if parameter.variadic else values[0]
        if any(isinstance(value, Unknown) for value in values):
            together = UNKNOWN
        origin = origin_of(written[0].span.to(written[-1].span))
        is_known = len(written) == 1 and not isinstance(together, Unknown)
        return Setting(parameter.name, together, origin, kept_expression(written[0], self.scope) if is_known else None)

    # -- values

    def bind_value(self, value: syntax.Value, parameter: Parameter) -> Value | Unknown:
        """The value as the parameter's type, or UNKNOWN."""
        types = parameter.types
        if "selector" in types and not isinstance(value, syntax.Literal):
            return read_selection(value, self.scope)
        if "modules" in types and not isinstance(value, syntax.Literal):
            return read_modules(value, self.scope, is_of_model=not parameter.of)
        match value:
            case syntax.Name():
                return self._name(value, parameter)
            case syntax.Call():
                return self._call(value, parameter)
            case syntax.Pipeline() | syntax.Binary(operator="*") if set(types) & {"transforms", "model"}:
                return read_pipeline(value, "transform" if "transforms" in types else "component", self)
            case syntax.Binary() if other_names.kind_of(parameter):
                return self.scope.add(other_names.unknown_value(value, other_names.kind_of(parameter)))
            case syntax.Number() | syntax.Binary() | syntax.Negative():
                return self._number(value, parameter)
            case syntax.String(value=text):
                return self._text(value, text, parameter)
            case syntax.Literal(value=literal) if set(types) & {"none" if literal is None else "bool", "any"}:
                return literal
            case syntax.List(items=items) if set(types) & {"list", "any"}:
                return self._list(value, items, parameter)
        return self.scope.add(messages.wrong_type(value, parameter))

    def _list(self, value: syntax.Value, items: Sequence[syntax.Value], parameter: Parameter) -> Value | Unknown:
        if self.scope.expanding and not self.scope.can_expand(value, len(items)):
            return UNKNOWN
        element = replace(parameter, type="quantity" if parameter.units else parameter.items)
        values = [
            self.bind_value(item, replace(element, name=f"{parameter.name}[{at}]")) for at, item in enumerate(items)
        ]
        items_read = tuple(value for value in values if not isinstance(value, Unknown))
        if len(items_read) < len(values):
            return UNKNOWN
        if parameter.length is not None and len(items_read) != parameter.length:
            return self.scope.add(messages.wrong_length(value, items_read, parameter))
        return items_read

    def _text(self, value: syntax.Value, text: str, parameter: Parameter) -> Value | Unknown:
        types = set(parameter.types)
        if "choice" in types and (text in parameter.choices or not types & {"int", "float", "bool"}):
            return self._choice(value, text, parameter)
        place = value.span.source.folder / text
        # A plain string for a user's `str` becomes a path only where there is something.
        if "path" in types and ("text" not in types or (text and os.path.exists(place))):
            path = FilePath(text, place, value.span)
            return path if text else self.scope.add(messages.empty_path(value))
        return text if types & {"text", "any"} else self.scope.add(messages.wrong_type(value, parameter))

    def _choice(self, value: syntax.Value, text: str, parameter: Parameter) -> str | Unknown:
        is_free = isinstance(value, syntax.String) and "text" in parameter.types
        if is_free or text in parameter.choices:
            return text
        return self.scope.add(messages.unknown_choice(value, text, parameter))

    # -- numbers

    def _number(self, value: syntax.Value, parameter: Parameter) -> Value | Unknown:
        types = set(parameter.types)
        is_bare = isinstance(value, syntax.Number) and value.unit is None
        is_dashed = isinstance(value, syntax.Binary) and calculate(value, self.scope) is None  # `16-mixed`
        if (is_bare or is_dashed) and "choice" in types and not types & {"int", "float", "quantity", "any"}:
            return self._choice(value, value.span.text, parameter)
        number = calculate(value, self.scope)
        if number is None:
            return self._not_a_number(value, parameter)
        if isinstance(number, Unknown):
            return UNKNOWN
        if isinstance(number, FromData | Pending):
            takes_number = types & {"int", "float", "quantity", "any"}
            return number if takes_number else self.scope.add(messages.wrong_type(value, parameter))
        if isinstance(number, Quantity):
            return in_units(self.scope, value, number, parameter)
        if "quantity" in types:
            return as_quantity(self.scope, value, number, parameter)
        if isinstance(number, float) and "int" in types and not types & {"float", "any"}:
            if not number.is_integer():
                return self.scope.add(messages.wrong_type(value, parameter, value_text(number)))
            number = int(number)
        if not types & {"int", "float", "any"}:
            return self.scope.add(messages.wrong_type(value, parameter))
        return within_bounds(self.scope, value, number, parameter)

    def _not_a_number(self, value: syntax.Value, parameter: Parameter) -> Unknown:
        """Blame the operand that is not a number, rather than the whole expression."""
        match value:
            case syntax.Binary(left=left, right=right) if not set(parameter.types) & {"text", "path"}:
                for operand in (left, right):
                    if calculate(operand, self.scope) is None:
                        return self._not_a_number(operand, parameter)
            case syntax.Negative(value=inner):
                return self._not_a_number(inner, parameter)
            case syntax.Name():
                return self._undefined(value, parameter)
        return self.scope.add(messages.wrong_type(value, parameter))

    # -- names

    def _name(self, value: syntax.Name, parameter: Parameter) -> Value | Unknown:
        path, types, scope = value.path, set(parameter.types), self.scope
        if "choice" in types and path in parameter.choices:
            return path
        if path in scope.broken_names:
            return UNKNOWN
        if path in BOUND_BY_DATA and types & {"int", "any"}:
            return scope.from_data(value)
        if path in scope.lets and _let_fits(scope.lets[path].value, types):
            return scope.expand(value, lambda inner: self.bind_value(inner, parameter))
        if path in scope.args and types & _ARG_FITS.get(scope.args[path].type, types):
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
        return self._undefined(value, parameter)

    def _undefined(self, value: syntax.Name, parameter: Parameter) -> Unknown:
        """Report a name that means nothing here, or something of another type."""
        scope, path = self.scope, value.path
        if path in scope.lets:
            scope.used.add(path)
            definition = scope.lets[path].value
            noun = describe.written_value(definition)
            return scope.add(messages.wrong_type_of_name(value, parameter, noun, definition.span))
        if path in scope.args:
            scope.used.add(path)
            arg = scope.args[path]
            noun = describe.TYPE_NOUNS.get(arg.type, "something else")
            return scope.add(messages.wrong_type_of_name(value, parameter, noun, arg.origin.span or value.span))
        literals = ["true", "false"] * bool({"bool", "any"} & set(parameter.types))
        literals += ["none"] * bool({"none", "any"} & set(parameter.types))
        near = scope.nearest(path, [*scope.args, *scope.lets, *BOUND_BY_DATA, *literals, *parameter.choices])
        if value.span.source.kind is SourceKind.OPTION and not near and "." not in path:
            return scope.add(names.word_in_option(value, parameter))
        return scope.report_undefined(value) or scope.add(names.not_defined(value, parameter, near))

    def _arg(self, use: syntax.Name, parameter: Parameter) -> Value | Unknown:
        arg = self.scope.args[use.path]
        self.scope.used.add(use.path)
        value: Value | Unknown = arg.value
        if value is None or isinstance(value, Unknown | Pending):
            return value
        if "choice" in parameter.types and not _is_plain(value, set(parameter.types)):
            return self._choice(use, str(value), parameter)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if "quantity" in parameter.types:
                return as_quantity(self.scope, use, value, parameter)
            return within_bounds(self.scope, use, value, parameter)
        is_text = isinstance(value, str) and arg.type in ("text", "choice") and "path" in parameter.types
        return self._text(use, str(value), parameter) if is_text else value

    # -- cards and their arguments

    def _call(self, value: syntax.Call, parameter: Parameter) -> Value | Unknown:
        types = set(parameter.types)
        named = self.scope.lets.get(value.name.path)
        if named is not None and is_changed_let(value, self.scope) and not isinstance(named.value, syntax.Pipeline):
            kind = parameter.types[0]
            return self.scope.expand(
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
            return self._invocation(user, value, user.parameters)
        return self.scope.add(messages.wrong_type(value, parameter))

    def bind_call(self, call: syntax.Call, parameter: Parameter) -> Invocation | Stages | Unknown:
        """The card that a call names, with the call's arguments."""
        kind = next(word for word in parameter.types if word in _CARD_KINDS)
        if parameter.name == "model" and self.is_component(call.name.path):
            return read_pipeline(call, "component", self)
        card = self.card(call.name, kind, call)
        if isinstance(card, Unknown):
            return UNKNOWN
        if kind == "model":
            return self._model_call(card, call, is_teacher=parameter.name == "teacher")
        parameters = settable_parameters(card, kind, call.name, self.scope)
        return UNKNOWN if parameters is None else self._invocation(card, call, parameters)

    def _invocation(self, card: Card, call: syntax.Call, parameters: Sequence[Parameter]) -> Invocation | Unknown:
        settings = self.bind_arguments(card, call.arguments, call.name.span, parameters)
        return UNKNOWN if isinstance(settings, Unknown) else Invocation(card, settings, origin_of(call.span))

    def is_component(self, name: str) -> bool:
        """Whether a name can only mean a component, which makes a pipeline of one stage."""
        is_users = self.scope.user_card(name) is not None
        return not is_users and not lookup.find("model", name) and bool(lookup.find("component", name))

    def _model_call(self, card: Card, call: syntax.Call, is_teacher: bool) -> Invocation | Unknown:
        # `pretrained`, `weights` and `head` are Leaven's in every model call, whatever the model itself takes.
        own = {parameter.name for parameter in MODEL_PARAMETERS}
        from_data = card.outputs_parameter if card.kind == "user" else None
        parameters = [
            replace(parameter, required=parameter.required and parameter != from_data)
            for parameter in card.parameters
            if parameter.name not in own
        ]
        # A teacher always keeps its head.
        model = self._invocation(card, call, [*parameters, *(MODEL_PARAMETERS[:2] if is_teacher else MODEL_PARAMETERS)])
        if isinstance(model, Unknown) or card.kind != "model":
            return model
        # The name of a published model implies its other settings; only what differs is kept.
        kept = tuple(s for s in model.settings if s.name in own or isinstance(s.origin, Written))
        return replace(model, settings=kept)

    def card(self, name: syntax.Name, kind: str, call: syntax.Call | None = None) -> Card | Unknown:
        """The card of that kind that a name means, which is that of a call."""
        user = self.scope.user_card(name.path)
        if isinstance(user, Card) and kind not in names.OWN_KINDS:
            return self.scope.add(names.not_from_a_file(name, kind, lookup.names(kind)))
        if user is not None:
            return user
        cards = lookup.find(kind, name.path)
        if cards:
            return cards[0]
        return self.scope.report_undefined(name) or self._no_such_card(name, kind, call)

    def _no_such_card(self, name: syntax.Name, kind: str, call: syntax.Call | None) -> Unknown:
        candidates = lookup.names(kind)
        if kind == "component":
            lets = self.scope.lets.items()
            candidates = [*candidates, *(n for n, let in lets if not isinstance(let.value, syntax.Number))]
        near = self.scope.nearest(name.path.rpartition(".")[2], candidates)
        return self.scope.add(names.no_such_card(name, kind, candidates, near, call))


MODEL_PARAMETERS = (
    Parameter("pretrained", "bool", default=False, positional=False, summary="load the weights it was published with"),
    Parameter("weights", "path|none", positional=False, summary="a bundle, a checkpoint or a state dict"),
    Parameter(
        "head",
        "choice|text",
        choices=("new", "keep"),
        default="new",
        positional=False,
        summary="new: a new layer for the data's classes; keep: the trained one; a string: a new layer at this path",
    ),
)


def is_changed_let(call: syntax.Call, scope: Scope) -> bool:
    """Whether `change` or `--set` gave arguments to what a `let` names: it was written without parentheses."""
    return call.span == call.name.span and call.name.path in scope.lets


def origin_of(span: Span) -> Origin:
    """Written, unless the text is a default statement's."""
    return Default("") if span.source.kind is SourceKind.DEFAULT else Written(span)


def _let_fits(value: syntax.Value, types: set[str]) -> bool:
    """Whether a `let` with that value can be meant by a parameter of those types, or only happens to share a name."""
    match value:
        case syntax.Number() | syntax.String() | syntax.Literal() | syntax.List() | syntax.Negative():
            return bool(types & _PLAIN_TYPES)
        case syntax.Call() | syntax.Pipeline():
            return bool(types - _PLAIN_TYPES - {"score", "name", "statement"}) or "any" in types
    return True


def _is_plain(value: object, types: set[str]) -> bool:
    """Whether a parameter takes the number, true or false of an `arg` as it is, besides its choices."""
    if isinstance(value, bool):
        return "bool" in types
    return isinstance(value, int | float) and bool(types & {"int", "float"})
