"""Reports about the arguments of calls and statements."""

import re
from collections.abc import Sequence

from leaven.catalog import lookup, own
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.habits import word_for
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Setting, Written, plural_unit
from leaven.formats.listing import both, either, in_code, some_names
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Edit, Fix, remove, shortened, write, write_option
from leaven.language.record import Record
from leaven.language.source import SourceKind, Span
from leaven.messages import describe, habits, options, places, suggestions
from leaven.messages.habits import Form

# The operator that makes one value of several.
_OPERATORS = {"selector": ("+", "layers"), "transforms": ("->", "transforms")}
_NOT_NUMBERS = frozenset(KINDS) | {"score"}


class CardUse(Record):
    """A card as it is used: the name and arguments as written, and the parameters that a recipe can set."""

    card: Card
    name: Span
    arguments: Sequence[syntax.Argument]
    parameters: Sequence[Parameter]

    @property
    def shown_name(self) -> str:
        return describe.card_name(self.card, self.name)

    @property
    def form(self) -> str:
        return describe.usage(self.card, self.parameters, self.name)


def missing(use: CardUse, names: Sequence[str], first: str = "") -> Diagnostic:
    """Parameters without a default that are not given; `first` is the one that the first argument was taken for."""
    listed = ", ".join(in_code(names))
    form = use.form
    if first:  # `prune 40%`: what must come before the number is left out
        given = use.arguments[0].span
        form = f"{describe.placeholder(use.parameters[0])}, {first}={given.text}"
    headline = f"`{use.shown_name}` needs {listed}"
    fix = write(given, form, shown=use.name.to(given)) if first else f"usage: `{form}`"
    label = f"{listed} {'is' if len(names) == 1 else 'are'} missing"
    return error("missing-argument", headline, (use.name, label), fix=fix)


def unknown(use: CardUse, argument: syntax.Argument, keyword: syntax.Name) -> Diagnostic:
    headline = f"`{use.shown_name}` has no argument `{keyword.path}`"
    fix = _instead_of_unknown(use, argument, keyword)
    return error("unknown-argument", headline, (keyword, "unknown argument"), fix=fix)


def repeated(keyword: syntax.Name, first: Span) -> Diagnostic:
    headline = f"`{keyword.path}` is given twice"
    return places.repeated("repeated-argument", headline, keyword.span, first, "remove one of them")


def too_many(use: CardUse, index: int) -> Diagnostic:
    """A positional argument for which there is no parameter."""
    names = [f"`{parameter.name}`" for parameter in use.parameters if parameter.positional]
    few = {0: "no positional arguments", 1: "one positional argument: "}
    count = few.get(len(names), f"{len(names)} positional arguments: ")
    headline = f"`{use.shown_name}` takes {count}{', '.join(names)}"
    fix = _instead_of_surplus(use, index)
    return error("too-many-arguments", headline, (use.arguments[index], "one too many"), fix=fix)


def parameters_of_model(use: CardUse, index: int) -> Diagnostic:
    """`adamw(model.parameters(), lr=1e-3)`, as PyTorch has it."""
    headline = f"`{use.shown_name}` gets the trainable parameters of the model from the program"
    fix = remove(habits.without(use.arguments, index), "remove it")
    return error("too-many-arguments", headline, (use.arguments[index], "not needed"), fix=fix)


def after_keyword(use: CardUse, index: int, keyword: Span) -> Diagnostic:
    written = [argument for argument in use.arguments if argument.span.source is keyword.source]  # `--weights` adds one
    ordered = [a.span.text for a in sorted(written, key=lambda argument: argument.keyword is not None)]
    whole = written[0].span.to(written[-1].span)
    fix = Fix("put the positional arguments first")
    if not any('"' in re.sub(r'"(\\.|[^"\\])*"', "", text) for text in ordered):  # no string that is never closed
        fix = write(whole, ", ".join(ordered), f"{fix.before}: ", otherwise=fix)
    places = (use.arguments[index], "positional argument"), (keyword, "keyword argument")
    return error("misplaced-argument", "positional argument follows keyword argument", *places, fix=fix)


def decimal_comma(first: syntax.Value, second: syntax.Value) -> Diagnostic:
    whole = first.span.to(second.span)
    headline = "a number is written with a decimal point, not a comma"
    fix = write(whole, whole.text.replace(",", "."))
    return error("decimal-comma", headline, (whole, "read as two numbers"), fix=fix)


def height_and_width(first: syntax.Argument, second: syntax.Argument) -> Diagnostic:
    whole = first.span.to(second.span)
    fix = write(whole, f"[{first.span.text}, {second.span.text}]")
    return error("wrong-type", "height and width must be given as a list", (whole, "read as two arguments"), fix=fix)


def wrong_signature(name: syntax.Name, kind: str, passed: Sequence[str]) -> Diagnostic:
    """A user's function that can't be called with what the program passes to it."""
    listed = both(passed)
    headline = f"`{name.path}` can't be {describe.KIND_NOUNS[kind]}: it does not accept {listed}"
    fix = f"its first {'parameter' if len(passed) == 1 else 'two parameters'} must be {listed}"
    return error("wrong-signature", headline, (name, f"is called with {listed}"), fix=fix)


def none_of(card: Card, name: Span, names: Sequence[str]) -> Diagnostic:
    forms = either(f'`{name}="…"`' for name in names)
    headline = f"`{card.bare_name}` needs {either(in_code(names))}"
    return error("missing-argument", headline, (name, "neither is given"), fix=f"add {forms}")


def several_of(card: Card, names: Sequence[str], places: Sequence[Span]) -> Diagnostic:
    *others, last = sorted(places, key=lambda place: place.start)
    headline = f"`{card.bare_name}` takes either {either(in_code(names))}, not both"
    spots = ((place, "already given") for place in others)
    return error("conflicting-arguments", headline, (last, "one too many"), *spots, fix="remove one of them")


def without_effect(setting: Setting, place: Span, owner: Setting, values: Sequence[str]) -> Diagnostic:
    """An argument that only other values of `owner` use, or any value if none is named."""
    wanted = f"{owner.name}={values[0] if values else '…'}"
    actual = f"`{owner.name}` is `{owner.value}`" if values else f"there is no `{owner.name}`"
    headline = f"`{setting.name}` only applies to `{wanted}`, but {actual}"
    fix = f"remove `{setting.name}`, or add `{wanted}`" if not values else f"remove `{setting.name}`, or use `{wanted}`"
    return error("unused-argument", headline, (place, "has no effect"), (owner.origin, "set here"), fix=fix)


def not_less(low: Setting, high: Setting) -> Diagnostic | None:
    """Two numbers of which the first must be less than the second; None where both are defaults."""
    for wrong, other, relation in ((high, low, "greater"), (low, high, "less")):
        if isinstance(wrong.origin, Written):
            headline = f"`{wrong.name}` must be {relation} than `{other.name}`"
            fix = Fix(f"write the smaller value as `{low.name}`") if other.span else None
            if fix is None and isinstance(other.value, int):
                fix = write(wrong.origin.span, str(other.value + (1 if relation == "greater" else -1)))
            label = f"not {relation} than {value_text(other.value)}"
            return error("out-of-range", headline, (wrong.origin, label), fix=fix)
    return None


def parameter_for_number(value: syntax.Value, parameter: Parameter, parameters: Sequence[Parameter]) -> str:
    """The keyword parameter that a number is for where a card must come first: `prune 40%` lacks the method."""
    if not isinstance(value, syntax.Number) or not parameter.required or not set(parameter.types) <= _NOT_NUMBERS:
        return ""
    return _counted(value, [p for p in parameters if not p.positional])


def _instead_of_surplus(use: CardUse, index: int) -> Fix | str:
    value, span = use.arguments[index].value, use.arguments[index].span
    if index and use.parameters and (operator := _OPERATORS.get(use.parameters[0].types[0])):
        before, (sign, what) = use.arguments[index - 1].span, operator
        comma = Span(span.source, before.end, span.start)
        return write(comma, f" {sign} ", f"join {what} with `{sign}`: ", shown=before.to(span))
    given = {argument.keyword.path for argument in use.arguments if argument.keyword}
    free = [p for p in use.parameters if not p.positional and p.name not in given]
    if flag := _flag(value, free):
        return write(span, f"{flag}=true")
    if isinstance(value, syntax.Number) and (meant := _counted(value, free)):
        is_its_unit = value.unit is not None and plural_unit(value.unit) == meant
        amount = value_text(value.value) if is_its_unit else value.span.text
        return write(span, f"{meant}={amount}", otherwise=f"usage: `{use.form}`")
    return f"usage: `{use.form}`"


def _flag(value: syntax.Value, free: Sequence[Parameter]) -> str:
    """The switch that `resnet18(pretrained)` or `resnet18(true)` means."""
    flags = [parameter.name for parameter in free if parameter.types == ("bool",)]
    if isinstance(value, syntax.Name) and value.path in flags:
        return value.path
    is_true = (isinstance(value, syntax.Literal) and value.value is True) or value.span.text == "True"
    return "pretrained" if is_true and "pretrained" in flags else ""


def _counted(value: syntax.Number, free: Sequence[Parameter]) -> str:
    """The parameter that a positional number is for: the one of its unit, or the first that takes a number.

    Empty where the first takes only whole numbers and this is a fraction: what comes later is not meant by it.
    """
    if value.unit is not None:
        unit = plural_unit(value.unit)
        return next((parameter.name for parameter in free if unit in parameter.units), "")
    first = next((parameter for parameter in free if {"int", "float", "quantity"} & set(parameter.types)), None)
    if first is None or (isinstance(value.value, float) and "float" not in first.types):
        return ""
    return first.name


def _instead_of_unknown(use: CardUse, argument: syntax.Argument, keyword: syntax.Name) -> Fix | str:
    card, name, names = use.card, keyword.path, [parameter.name for parameter in use.parameters]
    if inner := _inside_call(use, argument, name):
        return inner
    if card.kind == "data" and (fix := habits.splits_as_arguments(use.name, use.arguments)):
        return fix
    form = habits.form_of(name, argument.value.span.text)
    if form and form.belongs_to(card) and habits.other_form(name, form.value):
        return write(argument.span, form.as_argument)
    near = [parameter.name for parameter in use.parameters if parameter.target == name] or lookup.nearest(name, names)
    if habits.remark_on(name, card.kind) and not word_for(name):
        near = []  # rather than what is only spelt alike
    if fix := suggestions.similar(keyword.span, near):
        return fix
    if card.name == "sweep":
        return write(Span(argument.span.source, keyword.span.end, argument.value.span.start), ", ", shown=argument.span)
    if elsewhere := _elsewhere(use, argument, name, form):
        return elsewhere
    if remark := habits.remark_on(name, card.kind):
        return remark
    if not names:
        return "it takes no arguments"
    return "it takes " + some_names(names, 10)


def _elsewhere(use: CardUse, argument: syntax.Argument, name: str, form: Form | None) -> Fix | str | None:
    """Where a recipe has an argument that belongs to another statement; None for one that no statement has."""
    card, index = use.card, use.arguments.index(argument)
    word, value = word_for(name) or name, shortened(argument.value.span.text)
    in_data = habits.form_in_data(name, value)
    if not in_data and own.read("statement", f"data.{word}") and word in (name, "workers", "size"):
        in_data = f"{word} {value}"
    if in_data and card.name != "data" and not habits.remark_on(name, card.kind):
        place = argument.span.source
        option = options.option_for_data(word, value) if place.kind is SourceKind.OPTION else None
        if option:
            return write_option(place.span(0, len(place.text)), option)
        return f"write it in the block of `data`: `data … {{ {in_data} }}`"
    if form and not form.argument:
        advice = f"it is a separate statement: `{form.as_statement}`"
        return habits.moved(form, use.name, use.arguments, index, advice)
    owner = form.statement if form else ""
    if form and owner not in (card.bare_name, card.kind) and (word == name or owner != "early_stop"):
        noun = f"the {owner}" if owner in suggestions.EXAMPLES else f"`{owner}`"
        advice = f"`{form.argument}` belongs to {noun}: `{form.as_part}`"
        return habits.moved(form, use.name, use.arguments, index, advice)
    return None


def _inside_call(use: CardUse, argument: syntax.Argument, name: str) -> Fix | None:
    """`optimizer adamw, lr=1e-3`: the argument is the call's, not the statement's."""
    first = use.arguments[0]
    if use.card.kind != "statement" or first.keyword is not None:
        return None
    match first.value:
        case syntax.Name(path=called):
            inside: Sequence[syntax.Argument] = ()
        case syntax.Call(name=syntax.Name(path=called), arguments=inside):
            pass
        case _:
            return None
    kind = use.card.parameters[0].types[0]
    cards = lookup.find(kind, called) if kind in KINDS else ()
    takes = bool(cards) and bool(cards[0].parameter(name) or cards[0].open_ended)
    if not takes and not (kind == "model" and suggestions.owner_of(name) == "model"):
        return None
    end = first.value.span.end
    added = Edit(first.span.source.span(end - 1, end - 1), f"{', ' * bool(inside)}{argument.span.text}")
    if isinstance(first.value, syntax.Name):
        added = Edit(first.span.at_end, f"({argument.span.text})")
    before = use.arguments[use.arguments.index(argument) - 1].span
    gone = Edit(Span(before.source, before.end, argument.span.end), "")
    if added.span.start == gone.span.start:
        return write(gone.span, added.text, f"it belongs to `{called}`: write ", shown=first.span.to(argument.span))
    return Fix(f"it belongs to `{called}`: write ", (added, gone), first.span)
