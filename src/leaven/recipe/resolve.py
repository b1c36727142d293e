"""From what is written to typed values: arguments meet their parameters, names meet their cards.

`bind` matches the arguments of a call or statement with a card's parameters; `resolve` gives one value its type. Each
mistake is reported once, at the smallest piece; what depends on it becomes UNKNOWN and is not mentioned again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import Span
from leaven.recipe import nouns
from leaven.recipe.arithmetic import calculate, plural
from leaven.recipe.recipe import Default, FilePath, FromData, Invocation, Pending, Quantity, Score, Setting, UserDefinition, Written
from leaven.recipe.scope import UNKNOWN, Scope, Unknown
from leaven.recipe.selectors import read_selector

_CARD_KINDS = frozenset(KINDS)
MAX_STAGES = 10_000


class Resolver:
    """Resolves values in one scope. Selectors are read against the layers of `scope.model`, where those are known."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # -- arguments and parameters

    def bind(
        self,
        card: Card,
        arguments: Sequence[syntax.Argument],
        name_span: Span,
        parameters: Sequence[Parameter] | None = None,
    ) -> tuple[Setting, ...] | Unknown:
        """The arguments as settings, in the order of the parameters, defaults filled in."""
        available = card.parameters if parameters is None else tuple(parameters)
        given = self._match(card, arguments, available, name_span)
        settings: list[Setting] = []
        is_complete = not isinstance(given, Unknown)
        written = {} if isinstance(given, Unknown) else given
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
        if is_complete and not self._fit_together(card, settings, name_span):
            is_complete = False
        return tuple(settings) if is_complete else UNKNOWN

    def _fit_together(self, card: Card, settings: Sequence[Setting], name_span: Span) -> bool:
        """Rules on a card about several parameters: exactly one of them, or one not above another."""
        values = {setting.name: setting for setting in settings}
        either = card.facts.get("exactly_one_of")
        if either:
            chosen = [values[name] for name in either if values[name].value is not None]
            if len(chosen) != 1:
                place = chosen[-1].origin.span if chosen and isinstance(chosen[-1].origin, Written) else name_span
                listed = nouns.either([f"`{name}`" for name in either])
                self.scope.report(
                    "contradiction" if chosen else "missing-argument",
                    f"`{card.bare_name}` takes either {listed}" if chosen else f"`{card.bare_name}` needs {listed}",
                    Spot(place, "one too many" if chosen else "neither is given"),
                )
                return False
        low, high = card.facts.get("ordered", (None, None))
        if low and isinstance(values[low].value, int | float) and isinstance(values[high].value, int | float):
            if values[low].value >= values[high].value and isinstance(values[high].origin, Written):
                self.scope.report(
                    "wrong-value",
                    f"`{high}` must be more than `{low}`",
                    Spot(values[high].origin.span, f"not more than {nouns.plain(values[low].value)}"),
                )
                return False
        return True

    def _setting(self, parameter: Parameter, values: list[syntax.Value], whole_only: bool = False) -> Setting:
        resolved = [self.resolve(value, parameter) for value in values]
        if whole_only:
            resolved = [self._whole(value, number, parameter) for value, number in zip(values, resolved, strict=True)]
        whole: Any = tuple(resolved) if parameter.variadic else resolved[0]
        if any(isinstance(value, Unknown) for value in resolved):
            whole = UNKNOWN
        origin = Written(values[0].span.to(values[-1].span))
        symbolic = values[0] if len(values) == 1 and depends_on_args(values[0], self.scope) else None
        return Setting(parameter.name, whole, origin, symbolic)

    def _match(
        self, card: Card, arguments: Sequence[syntax.Argument], available: Sequence[Parameter], name_span: Span
    ) -> dict[str, list[syntax.Value]] | Unknown:
        """Which values were written for which parameter."""
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
                    failed |= self._misplaced(argument, keyword_seen)
                elif at >= len(positional):
                    failed |= self._too_many(card, argument, positional)
                else:
                    parameter = positional[at]
                    given.setdefault(parameter.name, []).append(argument.value)
                    places.setdefault(parameter.name, argument.span)
                    at += not parameter.variadic
                continue
            keyword_seen = argument.span
            name = argument.keyword.path
            if name not in by_name and not card.open_ended:
                failed |= self._unknown_argument(card, argument.keyword, available)
            elif name in given:
                self.scope.report(
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
            self.scope.report(
                "missing-argument",
                f"`{card.bare_name}` needs {listed}",
                Spot(name_span, f"{listed} {'is' if len(missing) == 1 else 'are'} missing"),
                fix=f"the form is `{nouns.form(card, available)}`",
            )
            failed = True
        return UNKNOWN if failed else given

    def _misplaced(self, argument: syntax.Argument, keyword: Span) -> bool:
        self.scope.report(
            "misplaced-argument",
            "a value without a name stands behind one with a name",
            Spot(argument.span, "this has no name"),
            Spot(keyword, "this has one"),
            fix="put the values without names first, or write `name=value`",
        )
        return True

    def _too_many(self, card: Card, argument: syntax.Argument, positional: Sequence[Parameter]) -> bool:
        names = ", ".join(f"`{parameter.name}`" for parameter in positional)
        takes = f"at most {len(positional)} ({names})" if positional else "no value without a name"
        self.scope.report(
            "too-many-arguments",
            f"`{card.bare_name}` takes {takes}",
            Spot(argument.span, "one too many"),
            fix=f"the form is `{nouns.form(card)}`",
        )
        return True

    def _unknown_argument(self, card: Card, keyword: syntax.Name, available: Sequence[Parameter]) -> bool:
        names = [parameter.name for parameter in available]
        near = lookup.nearest(keyword.path, names)
        fix: Fix | str | None = None
        if near:
            fix = Fix("did you mean " + " or ".join(f"`{name}`" for name in near) + "?", Edit(keyword.span, near[0]))
        elif names:
            shown = ", ".join(f"`{name}`" for name in names[:10]) + (", …" if len(names) > 10 else "")
            fix = f"it takes {shown}"
        else:
            fix = "it takes no arguments"
        self.scope.report(
            "unknown-argument",
            f"`{card.bare_name}` takes no argument `{keyword.path}`",
            Spot(keyword.span, "not one of its arguments"),
            fix=fix,
        )
        return True

    # -- values

    def resolve(self, value: syntax.Value, parameter: Parameter) -> Any:
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
                return self.pipeline(value, "transform" if "transforms" in types else "component")
            case syntax.Number() | syntax.Binary() | syntax.Negative():
                return self._number(value, parameter)
            case syntax.Text(value=text):
                return self._text(value, text, parameter)
            case syntax.Literal(value=literal):
                return self._literal(value, literal, parameter)
            case syntax.Listing(items=items) if set(types) & {"list", "any"}:
                element = replace(parameter, type="quantity" if parameter.units else "any")
                resolved = tuple(self.resolve(item, element) for item in items)
                return UNKNOWN if any(isinstance(item, Unknown) for item in resolved) else resolved
        return self.mismatch(value, parameter)

    def mismatch(self, value: syntax.Value, parameter: Parameter, found: str | None = None) -> Unknown:
        wanted = nouns.wanted(parameter)
        return self.scope.report(
            "wrong-type",
            f"`{parameter.name}` takes {wanted}, not {found or nouns.of(value)}",
            Spot(value.span, f"expected {wanted}"),
            fix=nouns.conversion(value, parameter),
        )

    def _literal(self, value: syntax.Literal, literal: bool | None, parameter: Parameter) -> Any:
        word = "none" if literal is None else "bool"
        return literal if set(parameter.types) & {word, "any"} else self.mismatch(value, parameter)

    def _text(self, value: syntax.Text, text: str, parameter: Parameter) -> Any:
        types = set(parameter.types)
        if "choice" in types:
            return self._choice(value, text, parameter)
        if "path" in types:
            return FilePath(text, value.span.source.folder / text, value.span)
        if types & {"text", "any"}:
            return text
        return self.mismatch(value, parameter)

    def _choice(self, value: syntax.Value, text: str, parameter: Parameter) -> Any:
        if text in parameter.choices:
            return text
        if isinstance(value, syntax.Text) and "text" in parameter.types:
            return text
        listed = ", ".join(f"`{choice}`" for choice in parameter.choices)
        near = lookup.nearest(text, parameter.choices, limit=1)
        return self.scope.report(
            "wrong-value",
            f"`{parameter.name}` can't be `{text}`",
            Spot(value.span, f"expected one of {listed}"),
            fix=Fix(f"did you mean `{near[0]}`?", Edit(value.span, near[0])) if near else None,
        )

    # -- numbers

    def _number(self, value: syntax.Value, parameter: Parameter) -> Any:
        types = set(parameter.types)
        if "choice" in types and isinstance(value, syntax.Number) and value.unit is None:
            if not types & {"int", "float"}:
                return self._choice(value, value.span.text, parameter)
        number = calculate(value, self.scope)
        if number is None:
            return self._not_a_number(value, parameter)
        if isinstance(number, FromData | Pending) and types & {"int", "float", "quantity", "any"}:
            return number
        if isinstance(number, Unknown | FromData):
            return UNKNOWN
        if isinstance(number, Quantity):
            return self._quantity(value, number, parameter)
        if "quantity" in types:
            return self._within(value, Quantity(number, parameter.units[0]), parameter)
        if "int" in types and isinstance(number, float) and not types & {"float", "any"}:
            if number.is_integer():
                number = int(number)
            else:
                return self.mismatch(value, parameter, f"{nouns.plain(number)}")
        if not types & {"int", "float", "any"}:
            return self.mismatch(value, parameter)
        return self._within(value, number, parameter)

    def _not_a_number(self, value: syntax.Value, parameter: Parameter) -> Unknown:
        """Blame the operand that is not a number, rather than the whole expression."""
        match value:
            case syntax.Binary(left=left, right=right):
                for operand in (left, right):
                    if calculate(operand, self.scope) is None:
                        return self._not_a_number(operand, parameter)
            case syntax.Negative(value=inner):
                return self._not_a_number(inner, parameter)
            case syntax.Name():
                return self._unknown_name(value, parameter)
        return self.mismatch(value, parameter)

    def _quantity(self, value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Any:
        if quantity.unit in parameter.units:
            return self._within(value, quantity, parameter)
        amount = nouns.plain(quantity.amount)
        if "quantity" not in parameter.types:
            wanted = nouns.wanted(parameter)
            help_text: Fix | str | None = None
            if quantity.unit == "%" and set(parameter.types) & {"float", "any"}:
                share = nouns.plain(quantity.amount / 100)
                help_text = Fix(f"write `{share}`", Edit(value.span, share))
            elif set(parameter.types) & {"int", "float"}:
                help_text = Fix(f"write `{amount}`", Edit(value.span, amount))
            return self.scope.report(
                "wrong-unit",
                f"`{parameter.name}` has no unit",
                Spot(value.span, f"expected {wanted}"),
                fix=help_text,
            )
        near = lookup.nearest(quantity.unit, parameter.units, limit=1) or [parameter.units[0]]
        right = nouns.plain(Quantity(quantity.amount, near[0]))
        return self.scope.report(
            "wrong-unit",
            f"`{parameter.name}` is counted in {nouns.either(parameter.units)}, not in {quantity.unit}",
            Spot(value.span, f"expected {nouns.either(parameter.units)}"),
            fix=Fix(f"write `{right}`", Edit(value.span, right)),
        )

    def _within(self, value: syntax.Value, number: Any, parameter: Parameter) -> Any:
        amount = number.amount if isinstance(number, Quantity) else number
        bound = ""
        if parameter.minimum is not None and amount < parameter.minimum:
            bound = f"at least {nouns.plain(parameter.minimum)}"
        elif parameter.above is not None and amount <= parameter.above:
            bound = f"more than {nouns.plain(parameter.above)}"
        elif parameter.maximum is not None and amount > parameter.maximum:
            bound = f"at most {nouns.plain(parameter.maximum)}"
        elif parameter.below is not None and amount >= parameter.below:
            bound = f"less than {nouns.plain(parameter.below)}"
        elif isinstance(number, Quantity) and number.unit == "%" and amount > 100:
            bound = "at most 100%"
        if not bound:
            return number
        return self.scope.report(
            "wrong-value",
            f"`{parameter.name}` can't be {nouns.plain(number)}",
            Spot(value.span, f"must be {bound}"),
        )

    def _whole(self, value: syntax.Value, number: Any, parameter: Parameter) -> Any:
        if not isinstance(number, Quantity) or isinstance(number.amount, int):
            return number
        if number.amount.is_integer():
            return Quantity(int(number.amount), number.unit)
        return self.scope.report(
            "wrong-value",
            f"`{parameter.name}` can't be {nouns.plain(number)}",
            Spot(value.span, f"{number.unit} are whole here"),
        )

    # -- names

    def _name(self, value: syntax.Name, parameter: Parameter) -> Any:
        path, types, scope = value.path, set(parameter.types), self.scope
        if "choice" in types and path in parameter.choices:
            return path
        if path in scope.broken_names:
            return UNKNOWN
        if path in ("classes", "channels") and types & {"int", "any"}:
            return scope.from_data(path)
        if path in scope.lets and nouns.could_be(scope.lets[path].value, parameter):
            return self._let(value, parameter)
        if path in scope.args and nouns.arg_could_be(scope.args[path].type, parameter):
            return self._arg(value, parameter)
        if "score" in types:
            return self._score(value)
        if "name" in types or "statement" in types:
            return path
        kinds = types & _CARD_KINDS | ({"transform"} if "transforms" in types else set())
        if kinds:
            invocation = self._card_name(value, parameter)
            return (invocation,) if "transforms" in types and not isinstance(invocation, Unknown) else invocation
        user = scope.user_card(path)
        if isinstance(user, Unknown):
            return UNKNOWN
        if user is not None and types & {"function", "any"}:
            module, _, name = path.partition(".")
            return UserDefinition(module, name)
        if "choice" in types:
            return self._choice(value, path, parameter)
        if path in scope.lets or path in scope.args:
            return self._wrong_own_name(value, parameter)
        return self._unknown_name(value, parameter)

    def _let(self, value: syntax.Name, parameter: Parameter) -> Any:
        """The value that a `let` names, as if it stood here."""
        scope, name = self.scope, value.path
        if name in scope.unfolding:
            return scope.report(
                "circular-let",
                f"`{name}` is defined by itself",
                Spot(value.span, "this leads back to the definition"),
                Spot(scope.lets[name].name.span, "defined here"),
            )
        if name in scope.failed_lets:
            return UNKNOWN
        scope.used.add(name)
        before = len(scope.diagnostics)
        scope.unfolding.append(name)
        resolved = self.resolve(scope.lets[name].value, parameter)
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
            return self._within(value, Quantity(arg.value, parameter.units[0]), parameter)
        if isinstance(arg.value, int | float) and not isinstance(arg.value, bool):
            return self._within(value, arg.value, parameter)
        if arg.type in ("text", "choice") and "path" in parameter.types and isinstance(arg.value, str):
            return FilePath(arg.value, value.span.source.folder / arg.value, value.span)
        return arg.value

    def _score(self, value: syntax.Name) -> Any:
        split, _, metric = value.path.partition(".")
        if split in ("train", "val", "test") and metric:
            return Score(split, metric)
        near = lookup.nearest(split, ("train", "val", "test"), limit=1)
        better = f"{near[0]}.{metric}" if near and metric else f"val.{metric or split}"
        return self.scope.report(
            "unknown-name",
            f"`{value.path}` is not a score",
            Spot(value.span, "expected a split and a metric"),
            notes=["a score is `val.accuracy` or `val.loss`; the splits are train, val and test"],
            fix=Fix(f"did you mean `{better}`?", Edit(value.span, better)),
        )

    def _wrong_own_name(self, value: syntax.Name, parameter: Parameter) -> Unknown:
        scope, name = self.scope, value.path
        scope.used.add(name)
        if name in scope.lets:
            found, place = nouns.of(scope.lets[name].value), scope.lets[name].value.span
        else:
            found = nouns.ARG_TYPES.get(scope.args[name].type, "something else")
            origin = scope.args[name].origin
            place = origin.span if isinstance(origin, Written) else value.span
        wanted = nouns.wanted(parameter)
        return scope.report(
            "wrong-type",
            f"`{parameter.name}` takes {wanted}, and `{name}` is {found}",
            Spot(value.span, f"expected {wanted}"),
            Spot(place, f"`{name}` is {found}"),
        )

    def _unknown_name(self, value: syntax.Name, parameter: Parameter) -> Unknown:
        wanted = nouns.wanted(parameter)
        near = lookup.nearest(value.path, [*self.scope.own_names(), "true", "false", "none", *parameter.choices])
        fix: Fix | str | None = None
        if near:
            fix = Fix("did you mean " + " or ".join(f"`{name}`" for name in near) + "?", Edit(value.span, near[0]))
        elif set(parameter.types) & {"text", "path"}:
            fix = Fix(f'a text stands in quotes: `"{value.path}"`', Edit(value.span, f'"{value.path}"'))
        alias, dot, name = value.path.partition(".")
        if dot and alias in self.scope.modules:
            return self.unknown_definition(value, alias, name)
        return self.scope.report(
            "unknown-name",
            f"nothing is called `{value.path}`",
            Spot(value.span, f"expected {wanted}"),
            fix=fix,
        )

    def unknown_definition(self, value: syntax.Name, alias: str, name: str) -> Unknown:
        module = self.scope.modules[alias]
        cards = module.definitions.cards if module.definitions else {}
        near = lookup.nearest(name, cards)
        return self.scope.report(
            "unknown-name",
            f"`{module.module.target}` defines no `{name}`",
            Spot(value.span, "not in that file"),
            Spot(module.span, "imported here"),
            fix=Fix(f"did you mean `{alias}.{near[0]}`?", Edit(value.span, f"{alias}.{near[0]}")) if near else None,
        )

    # -- cards put to use

    def _card_name(self, value: syntax.Name, parameter: Parameter) -> Any:
        return self.invoke(syntax.Call(value, (), value.span), parameter)

    def _call(self, value: syntax.Call, parameter: Parameter) -> Any:
        types = set(parameter.types)
        if "transforms" in types:
            return self.pipeline(value, "transform")
        if types & _CARD_KINDS:
            return self.invoke(value, parameter)
        user = self.scope.user_card(value.name.path)
        if isinstance(user, Unknown):
            return UNKNOWN
        if user is not None and "any" in types:
            settings = self.bind(user, value.arguments, value.name.span)
            return UNKNOWN if isinstance(settings, Unknown) else Invocation(user, settings, Written(value.span))
        return self.mismatch(value, parameter)

    def invoke(self, call: syntax.Call, parameter: Parameter) -> Any:
        """The card that a call names, put to use with the call's arguments."""
        kind = next(word for word in parameter.types if word in _CARD_KINDS)
        card = self.card(call.name, kind)
        if isinstance(card, Unknown):
            return UNKNOWN
        if kind == "model":
            return self._model_call(card, call)
        settings = self.bind(card, call.arguments, call.name.span)
        return UNKNOWN if isinstance(settings, Unknown) else Invocation(card, settings, Written(call.span))

    def _model_call(self, card: Card, call: syntax.Call) -> Any:
        # `pretrained`, `weights` and `head` are Leaven's in every model call, whatever the model itself takes.
        own = {parameter.name for parameter in MODEL_PARAMETERS}
        fitted = {"classes", "num_classes"} if card.kind == "user" else set()
        parameters = [
            replace(parameter, required=parameter.required and parameter.name not in fitted)
            for parameter in card.parameters
            if parameter.name not in own
        ]
        settings = self.bind(card, call.arguments, call.name.span, [*parameters, *MODEL_PARAMETERS])
        return UNKNOWN if isinstance(settings, Unknown) else Invocation(card, settings, Written(call.span))

    def card(self, name: syntax.Name, kind: str) -> Card | Unknown:
        """The card of that kind that a name means."""
        user = self.scope.user_card(name.path)
        if user is not None:
            self.scope.used_modules.add(name.path.partition(".")[0])
            return user
        found = lookup.find(kind, name.path)
        if found:
            return found[0]
        alias, dot, rest = name.path.partition(".")
        if dot and alias in self.scope.modules:
            return self.unknown_definition(name, alias, rest)
        return self.unknown_card(name, kind)

    def unknown_card(self, name: syntax.Name, kind: str) -> Unknown:
        noun = nouns.KIND_NOUNS[kind]
        prefix, dot, rest = name.path.rpartition(".")
        candidates = lookup.names(kind)
        if kind == "component":
            candidates = [*candidates, *(n for n, let in self.scope.lets.items() if not isinstance(let.value, syntax.Number))]
        near = lookup.nearest(rest if prefix in lookup.LIBRARIES else name.path, candidates)
        if prefix in lookup.LIBRARIES:
            near = [f"{prefix}.{word}" for word in near if lookup.find(kind, f"{prefix}.{word}")]
        notes = []
        if dot and prefix not in lookup.LIBRARIES:
            notes = [f"nothing was imported as `{name.path.partition('.')[0]}`"]
        elsewhere = [k for k in ("model", "data", "optimizer", "schedule", "transform", "loss", "metric", "technique")
                     if k != kind and k not in ("component",) and lookup.find(k, name.path)]
        if elsewhere and not near:
            notes.append(f"`{name.path}` is {nouns.KIND_NOUNS[elsewhere[0]]}")
        fix: Fix | str
        if near:
            fix = Fix("did you mean " + " or ".join(f"`{word}`" for word in near) + "?", Edit(name.span, near[0]))
        else:
            fix = f"`leaven catalog search {rest}` looks for names like it"
        return self.scope.report(
            "unknown-name",
            f"no {noun.partition(' ')[2]} is called `{name.path}`",
            Spot(name.span, f"expected {noun}"),
            notes=notes,
            fix=fix,
        )

    # -- pipelines

    def pipeline(self, value: syntax.Value, kind: str) -> Any:
        """A pipeline as a flat tuple of invocations, `let`s unfolded and repetitions written out."""
        stages = self._stages(value, kind)
        if isinstance(stages, Unknown):
            return UNKNOWN
        if len(stages) > MAX_STAGES:
            return self.scope.report(
                "wrong-value", f"this pipeline has more than {MAX_STAGES:,} stages", Spot(value.span, "too long")
            )
        return stages

    def _stages(self, value: syntax.Value, kind: str) -> tuple[Invocation, ...] | Unknown:
        match value:
            case syntax.Pipeline(stages=stages):
                parts = [self._stages(stage, kind) for stage in stages]
                if any(isinstance(part, Unknown) for part in parts):
                    return UNKNOWN
                return tuple(stage for part in parts if not isinstance(part, Unknown) for stage in part)
            case syntax.Binary(operator="*", left=left, right=right):
                return self._repeated(left, right, kind)
            case syntax.Name(path=path) if path in self.scope.lets:
                let = self._let(value, Parameter(path, type=f"{kind}s" if kind == "transform" else "model"))
                return let if isinstance(let, tuple | Unknown) else (let,)
            case syntax.Name():
                return self._stage(syntax.Call(value, (), value.span), kind)
            case syntax.Call():
                return self._stage(value, kind)
        wanted = nouns.KIND_NOUNS[kind]
        return self.scope.report(
            "wrong-type", f"{nouns.of(value)} can't be a stage of a pipeline", Spot(value.span, f"expected {wanted}")
        )

    def _repeated(self, left: syntax.Value, right: syntax.Value, kind: str) -> tuple[Invocation, ...] | Unknown:
        times = calculate(right, self.scope)
        stages = self._stages(left, kind)
        if isinstance(times, Unknown) or isinstance(stages, Unknown):
            return UNKNOWN
        if not isinstance(times, int) or times < 1:
            return self.scope.report(
                "wrong-value",
                "a stage is repeated a whole number of times",
                Spot(right.span, "expected 1 or more"),
            )
        return stages * min(times, MAX_STAGES + 1) if stages else ()

    def _stage(self, call: syntax.Call, kind: str) -> tuple[Invocation, ...] | Unknown:
        invocation = self.invoke(call, Parameter("stage", type=kind))
        return UNKNOWN if isinstance(invocation, Unknown) else (invocation,)


MODEL_PARAMETERS = (
    Parameter("pretrained", "bool", default=False, positional=False, summary="start from the weights it was published with"),
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


def default_value(parameter: Parameter) -> Any:
    """A parameter's default as a value of the language."""
    default = parameter.default
    if "quantity" in parameter.types and isinstance(default, str):
        amount, unit = default.rstrip("%").split(" ")[0], "%" if default.endswith("%") else default.split(" ")[1]
        return Quantity(float(amount) if "." in amount else int(amount), plural(unit))
    if "path" in parameter.types and isinstance(default, str):
        from pathlib import Path

        return FilePath(default, Path(default))
    return default


def depends_on_args(value: syntax.Value, scope: Scope) -> bool:
    """Whether a value changes with an argument of the recipe or with the data."""
    match value:
        case syntax.Name(path=path):
            if path in scope.lets:
                return path not in scope.unfolding and depends_on_args(scope.lets[path].value, scope)
            return path in scope.args or path in ("classes", "channels")
        case syntax.Negative(value=inner):
            return depends_on_args(inner, scope)
        case syntax.Binary(left=left, right=right):
            return depends_on_args(left, scope) or depends_on_args(right, scope)
        case syntax.Listing(items=items):
            return any(depends_on_args(item, scope) for item in items)
    return False


def _why(card: Card) -> str:
    return f"of {card.source}" if card.source not in ("leaven", "user") else ""
